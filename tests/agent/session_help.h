/* session_help.h - short functions for tests that build a graph and run it. */
#ifndef TESTS_AGENT_SESSION_HELP_H
#define TESTS_AGENT_SESSION_HELP_H

#include "agent/graph/ops.h"
#include "agent/session/session.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#define MAX_FEEDS 16

struct bed { /* a graph, a session, and the feeds */
    struct graph *g;
    struct session *s;
    struct feed feeds[MAX_FEEDS];
    size_t n_feeds;
    struct rng_key key;
    uint64_t counter;
    struct err err;
};

static inline void bed_init(struct bed *b)
{
    *b = (struct bed){.g = graph_new()};
    ck_assert_int_eq(session_new(&b->s, b->g, NULL, &b->err), 0);
}

static inline void bed_done(struct bed *b)
{
    ck_assert_msg(graph_error(b->g) == NULL, "%s", graph_error(b->g)->msg);
    session_free(b->s);
    graph_free(b->g);
}

static inline struct output bed_input(struct bed *b, struct shape shape, float *data,
                                      struct shape fed)
{
    struct output x = placeholder(b->g, DT_FLOAT, &shape, NULL);
    b->feeds[b->n_feeds++] = (struct feed){x, tensor_view(DT_FLOAT, fed, data)};
    return x;
}

static inline struct run_args bed_args(struct bed *b)
{
    return (struct run_args){
        .feeds = b->feeds, .n_feeds = b->n_feeds, .key = b->key, .counter = b->counter};
}

/* Fetches one tensor; the caller frees it. */
static inline struct tensor bed_fetch(struct bed *b, struct output x)
{
    struct tensor t = TENSOR_NONE;
    struct run_args args = bed_args(b);
    ck_assert_msg(output_valid(x), "%s",
                  graph_error(b->g) ? graph_error(b->g)->msg : "?");
    args.fetches = &x;
    args.n_fetches = 1;
    int r = session_run(b->s, &args, &t, &b->err);
    ck_assert_msg(r == 0, "%s", b->err.msg);
    return t;
}

static inline float bed_scalar(struct bed *b, struct output x)
{
    struct tensor t = bed_fetch(b, x);
    float v = tensor_f32(&t)[0];
    ck_assert_int_eq(tensor_elements(&t), 1);
    tensor_free(&t);
    return v;
}

static inline int bed_try(struct bed *b, struct output x)
{
    struct tensor t = TENSOR_NONE;
    struct run_args args = bed_args(b);
    args.fetches = &x;
    args.n_fetches = 1;
    int r = session_run(b->s, &args, &t, &b->err);
    tensor_free(&t);
    return r;
}

static inline void bed_target(struct bed *b, struct operation *op)
{
    struct run_args args = bed_args(b);
    args.targets = &op;
    args.n_targets = 1;
    int r = session_run(b->s, &args, NULL, &b->err);
    ck_assert_msg(r == 0, "%s", b->err.msg);
}

static inline struct variable *bed_variable(struct bed *b, float value, const char *name)
{
    return variable_new(b->g, constant_f32(b->g, value, NULL), name, 0);
}

static inline void bed_init_variables(struct bed *b)
{
    struct run_args none = {0};
    struct operation *init = global_variables_initializer(b->g, NULL);
    none.targets = &init;
    none.n_targets = 1;
    none.key = b->key;
    int r = session_run(b->s, &none, NULL, &b->err);
    ck_assert_msg(r == 0, "%s", b->err.msg);
}

#endif
