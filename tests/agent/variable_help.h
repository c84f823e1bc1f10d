/* variable_help.h - short functions for tests of ops that write variables. */
#ifndef TESTS_AGENT_VARIABLE_HELP_H
#define TESTS_AGENT_VARIABLE_HELP_H

#include "tests/agent/session_help.h"

#include <stdio.h>

/* Elements are converted from double. */
static inline struct output constant_of(struct bed *b, enum dtype dtype,
                                        struct shape shape, const double *x)
{
    struct tensor t;
    struct output ret;

    ck_assert_int_eq(tensor_alloc(&t, dtype, shape, &b->err), 0);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        if (dtype == DT_FLOAT)
            tensor_f32(&t)[i] = (float)x[i];
        else if (dtype == DT_DOUBLE)
            ((double *)t.data)[i] = x[i];
        else if (dtype == DT_INT32)
            ((int32_t *)t.data)[i] = (int32_t)x[i];
        else
            ((int64_t *)t.data)[i] = (int64_t)x[i];
    ret = constant(b->g, &t, NULL);
    tensor_free(&t);
    return ret;
}

static inline double element(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_FLOAT:
        return (double)tensor_f32(t)[i];
    case DT_DOUBLE:
        return ((const double *)t->data)[i];
    case DT_INT32:
        return ((const int32_t *)t->data)[i];
    default:
        return (double)((const int64_t *)t->data)[i];
    }
}

/* A view of the variable's value. */
static inline struct tensor value_of(struct bed *b, const struct variable *v)
{
    struct tensor t;

    ck_assert_int_eq(session_variable(b->s, v, &t, &b->err), 0);
    return t;
}

static inline void check_values(struct bed *b, const struct variable *v,
                                const double *want, int n, double tolerance)
{
    const struct tensor t = value_of(b, v);

    ck_assert_int_eq(tensor_elements(&t), n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(fabs(element(&t, i) - want[i]) <=
                          tolerance * fmax(1, fabs(want[i])),
                      "%s[%d] is %.17g, not %.17g", v->name, i, element(&t, i), want[i]);
}

static inline int try_op(struct bed *b, struct operation *op)
{
    struct run_args args = bed_args(b);

    args.targets = &op;
    args.n_targets = 1;
    return session_run(b->s, &args, NULL, &b->err);
}

/* Why the operation fails, or was not made (NULL); the graph forgets its error. */
static inline const char *refusal(struct bed *b, struct operation *op)
{
    static char text[sizeof(b->err.msg)];

    if (op != NULL)
        ck_assert_int_ne(try_op(b, op), 0);
    (void)snprintf(text, sizeof(text), "%s",
                   op != NULL ? b->err.msg : graph_error(b->g)->msg);
    graph_clear_error(b->g);
    return text;
}

#endif
