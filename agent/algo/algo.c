#include "agent/algo/algo.h"

#include "agent/algo/choices.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

int algo_new(struct algo **ret, const struct algo_args *args, struct err *err)
{
    struct algo *a = xcalloc(1, args->ops->size);
    const int rc = args->ops->build(a, args, err);

    if (rc == 0)
        *ret = a;
    else
        algo_free(args->ops, a);
    return rc;
}

void algo_free(const struct algo_ops *ops, struct algo *a)
{
    if (a == NULL)
        return;
    ops->done(a);
    free(a);
}

void clip_to_box(float *x, size_t rows, const struct space *space)
{
    const float low = (float)space->low, high = (float)space->high;
    const int64_t first = first_number(space);

    for (size_t e = 0; e < rows; e++, x += space->width)
        for (int64_t i = first; i < space->width; i++)
            x[i] = x[i] <= low ? low : x[i] >= high ? high : x[i];
}

int algo_run_each(struct session *s, struct operation *const *ops, size_t n,
                  struct rng_key key, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct run_args run = {.targets = &ops[i], .n_targets = 1, .key = key};

        if (ops[i] != NULL)
            rc = session_run(s, &run, NULL, err);
    }
    return rc;
}
