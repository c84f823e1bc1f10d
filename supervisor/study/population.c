#include "supervisor/study/population.h"

#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "supervisor/study/halving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS_OF_MEMBER = 3 }; /* whether to draw anew; the new value; up or down */

static size_t n_replaced(const struct study *s)
{
    const size_t n = (size_t)floor(s->pbt.quantile * (double)s->trials + 0.5);

    return n < 1 ? 1 : n < s->trials / 2 ? n : s->trials / 2;
}

void population_choose(const struct study *s, size_t round, const double *value,
                       size_t *ret)
{
    const struct rng_key key = rng_key_make(s->seed, "population", "exploit");
    size_t *rank = xcalloc(s->trials, sizeof(*rank)), n = n_replaced(s), valued = 0;

    halving_rank(value, s->trials, s->is_max, rank);
    for (size_t i = 0; i < s->trials; i++) {
        ret[i] = i;
        valued += !isnan(value[i]);
    }
    for (size_t i = 0; i < s->trials && valued > 0; i++) {
        const size_t member = rank[i];
        uint64_t from;

        if (i < s->trials - n && !isnan(value[member]))
            continue;
        rng_below(key, round, member, n < valued ? n : valued, &from, 1);
        if (halving_is_better(value[rank[from]], value[member], s->is_max))
            ret[member] = rank[from];
    }
    free(rank);
}

static double within(const struct study_key *k, double v)
{
    return v < k->low ? k->low : v > k->high ? k->high : v;
}

static const char *neighbour(const struct study_key *k, const char *was, int is_up)
{
    size_t i = 0;

    while (i + 1 < k->n && strcmp(k->choice[i], was) != 0)
        i++;
    if (is_up)
        return k->choice[i + 1 < k->n ? i + 1 : i];
    return k->choice[i > 0 ? i - 1 : 0];
}

const char *population_explore(const struct study *s, size_t round, size_t member,
                               size_t key, const char *was, struct arena *arena)
{
    const struct study_key *k = &s->key[key];
    double u[DRAWS_OF_MEMBER], v, next;
    int is_up;

    rng_uniform_f64(rng_key_make(s->seed, k->path, "explore"), round,
                    (uint64_t)member * DRAWS_OF_MEMBER, u, DRAWS_OF_MEMBER);
    if (u[0] < s->pbt.resample)
        return study_value_at(k, u[1], arena);
    is_up = u[2] >= 0.5;
    if (k->values == STUDY_CHOICE)
        return neighbour(k, was, is_up);
    v = strtod(was, NULL);
    next = v * s->pbt.factor[is_up];
    if (k->values != STUDY_INT)
        return arena_printf(arena, "%.6g", within(k, next));
    next = floor(next + 0.5);
    if (next == v) /* rounding has undone the change of a small number */
        next += is_up ? 1 : -1;
    return arena_printf(arena, "%.0f", within(k, next));
}
