#include "supervisor/study/halving.h"

#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>

int halving_is_better(double a, double b, int is_max)
{
    return !isnan(a) && (isnan(b) || (is_max ? a > b : a < b));
}

/* Insertion keeps the order of equal values. */
void halving_rank(const double *value, size_t n, int is_max, size_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = i;

        for (; at > 0 && halving_is_better(value[i], value[ret[at - 1]], is_max); at--)
            ret[at] = ret[at - 1];
        ret[at] = i;
    }
}

size_t halving_most(size_t n, double keep)
{
    const double part = floor(keep * (double)n + 0.5);

    return part > 1 ? (size_t)part : 1;
}

size_t halving_keep(const size_t *trial, const double *value, size_t n, double keep,
                    int is_max, size_t *ret)
{
    const size_t most = halving_most(n, keep);
    size_t *rank = xcalloc(n + 1, sizeof(*rank)), kept = 0;
    char *stays = xcalloc(n + 1, 1);

    halving_rank(value, n, is_max, rank);
    for (size_t i = 0; i < n && i < most; i++)
        stays[rank[i]] = (char)!isnan(value[rank[i]]);
    for (size_t i = 0; i < n; i++)
        if (stays[i])
            ret[kept++] = trial[i];
    free(stays);
    free(rank);
    return kept;
}
