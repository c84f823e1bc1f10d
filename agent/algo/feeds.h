/* feeds.h - what one run of the session is fed, and what it fetches: two lists that are
 *           made anew for each run. */
#ifndef AGENT_ALGO_FEEDS_H
#define AGENT_ALGO_FEEDS_H

#include "agent/algo/live.h"
#include "agent/algo/rows.h"
#include "agent/session/session.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stddef.h>
#include <stdint.h>

/* Zeros are an empty list. The memory, which its owner frees, is kept from run to run. */
struct feeds {
    size_t n, room;
    struct feed *list;
};

static inline void feeds_begin(struct feeds *f)
{
    f->n = 0;
}

static inline void feeds_push(struct feeds *f, struct feed feed)
{
    ARRAY_GROW(f->list, f->n, f->room);
    f->list[f->n++] = feed;
}

/* Columns of a matrix whose rows are `stride` floats apart. The data are borrowed until
 * the run is over. */
static inline void feeds_columns(struct feeds *f, struct output x, const float *data,
                                 int64_t rows, int64_t width, int64_t stride)
{
    feeds_push(f, (struct feed){x, tensor_const_view(DT_FLOAT, SHAPE(rows, width), data),
                                stride == width ? 0 : stride});
}

/* A matrix (rows, width). */
static inline void feeds_add(struct feeds *f, struct output x, const float *data,
                             int64_t rows, int64_t width)
{
    feeds_columns(f, x, data, rows, width, width);
}

/* A live setting's constant, with the value last read; nothing if it has none. */
static inline void feeds_live(struct feeds *f, const struct live *l)
{
    if (output_valid(l->constant))
        feeds_push(f, (struct feed){l->constant, tensor_const_view(DT_FLOAT, SHAPE_SCALAR,
                                                                   &l->value)});
}

/* Runs one operation with the feeds collected. */
static inline int feeds_run(const struct feeds *f, struct session *s,
                            struct operation *target, struct err *err)
{
    const struct run_args run = {
        .feeds = f->list, .n_feeds = f->n, .targets = &target, .n_targets = 1};

    return session_run(s, &run, NULL, err);
}

#define FETCHES_MAX 8
struct fetches {
    size_t n;
    const char *name[FETCHES_MAX]; /* that a scalar is reported by; NULL: no scalar */
    struct output x[FETCHES_MAX];
    float scalar[FETCHES_MAX];
    struct tensor value[FETCHES_MAX]; /* receives x: scalar, or memory of the caller */
};

static inline void fetch_into(struct fetches *f, struct output x, struct tensor value)
{
    CHECK(f->n < FETCHES_MAX, "more than %d fetches", FETCHES_MAX);
    f->x[f->n] = x;
    f->value[f->n++] = value;
}

static inline void fetch_scalar(struct fetches *f, const char *name, struct output x)
{
    fetch_into(f, x, tensor_scalar_f32(&f->scalar[f->n]));
    f->name[f->n - 1] = name;
}

/* Adds the scalars fetched to the stage's result. */
static inline void fetches_report(const struct fetches *f, struct stage_result *ret)
{
    for (size_t i = 0; i < f->n; i++)
        if (f->name[i] != NULL)
            stage_scalar(ret, f->name[i], (double)f->scalar[i]);
}

/* A run of n operations with the feeds and fetches collected, under the stage's key. */
static inline struct run_args collected_run(const struct feeds *feeds,
                                            const struct fetches *fetches,
                                            const struct stage_args *args,
                                            struct operation *const *targets, size_t n)
{
    return (struct run_args){.feeds = feeds->list,
                             .n_feeds = feeds->n,
                             .fetches = fetches->x,
                             .n_fetches = fetches->n,
                             .targets = targets,
                             .n_targets = n,
                             .key = args->key,
                             .counter = args->counter};
}

#endif
