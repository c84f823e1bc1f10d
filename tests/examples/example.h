/* example.h - helpers of every example: ending on an error, and running a graph. */
#ifndef TESTS_EXAMPLES_EXAMPLE_H
#define TESTS_EXAMPLES_EXAMPLE_H

#include "agent/graph/ops.h"
#include "agent/session/session.h"

#include <stdio.h>
#include <stdlib.h>

static struct err error;

/* Ends the program with the reason when a call failed. */
static inline void must(int rc)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "%s\n", error.msg);
    exit(1);
}

/* session.run(op) */
static inline void run(struct session *s, struct operation *op)
{
    const struct run_args args = {.targets = &op, .n_targets = 1};

    must(session_run(s, &args, NULL, &error));
}

/* print(session.run(x)) of a float tensor */
static inline void print(struct session *s, const char *label, struct output x)
{
    const struct run_args args = {.fetches = &x, .n_fetches = 1};
    struct tensor t = TENSOR_NONE;

    must(session_run(s, &args, &t, &error));
    (void)printf("%s", label);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        (void)printf(" %g", (double)tensor_f32(&t)[i]);
    (void)printf("\n");
    tensor_free(&t);
}

#endif
