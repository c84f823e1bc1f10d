/* feeds.h - the list of feeds of one run, made anew for each run without allocating. */
#ifndef AGENT_ALGO_FEEDS_H
#define AGENT_ALGO_FEEDS_H

#include "agent/algo/live.h"
#include "agent/session/session.h"
#include "common/err/check.h"

#include <stddef.h>
#include <stdint.h>

#define FEEDS_MAX 48

struct feeds {
    size_t n;
    struct feed list[FEEDS_MAX];
};

static inline void feeds_begin(struct feeds *f)
{
    f->n = 0;
}

/* Columns of a matrix whose rows are `stride` floats apart. The data are borrowed until
 * the run is over. */
static inline void feeds_columns(struct feeds *f, struct output x, const float *data,
                                 int64_t rows, int64_t width, int64_t stride)
{
    CHECK(f->n < FEEDS_MAX, "more than %d feeds", FEEDS_MAX);
    f->list[f->n++] =
        (struct feed){x, tensor_const_view(DT_FLOAT, SHAPE(rows, width), data),
                      stride == width ? 0 : stride};
}

/* A matrix (rows, width). */
static inline void feeds_add(struct feeds *f, struct output x, const float *data,
                             int64_t rows, int64_t width)
{
    feeds_columns(f, x, data, rows, width, width);
}

/* A live setting's constant; nothing if it has none. */
static inline void feeds_live(struct feeds *f, const struct live *l, const float *value)
{
    CHECK(f->n < FEEDS_MAX, "more than %d feeds", FEEDS_MAX);
    if (output_valid(l->constant))
        f->list[f->n++] = (struct feed){
            l->constant, tensor_const_view(DT_FLOAT, SHAPE_SCALAR, value), 0};
}

/* Runs the graph with the feeds collected, and fetches n tensors: session_run. */
static inline int feeds_fetch(const struct feeds *f, struct session *s,
                              const struct output *fetches, struct tensor *values,
                              size_t n, struct err *err)
{
    const struct run_args run = {
        .feeds = f->list, .n_feeds = f->n, .fetches = fetches, .n_fetches = n};

    return session_run(s, &run, values, err);
}

#endif
