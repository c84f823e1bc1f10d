/* lower.h - between the files that turn operations into nodes: plan_lower.c, the pass, and
 * lower_*.c. Private to them.
 */
#ifndef AGENT_SESSION_LOWER_H
#define AGENT_SESSION_LOWER_H

#include "agent/session/plan.h"

/* An operation that was lowered already, for finding its doubles. */
struct seen {
    const struct operation *op;
    const int *in, *out; /* values */
    int guard;
    struct seen *next;
};

struct lowering {
    struct plan *plan;
    struct arena *scratch;
    const struct order *order;
    const struct var_store *vars;
    int **values;           /* by operation id: of its outputs */
    int *fetched;           /* by operation id: copy of a variable for a fetch, or -1 */
    int *dense;             /* by feed: copy of one whose rows lie apart, or -1 */
    unsigned char *written; /* by variable number: this run changes it */
    int guard;              /* of the nodes being made */
    struct seen **buckets;  /* as many as operations are in order, or more */
    unsigned n_buckets;     /* a power of two */
    struct err *err;
};

static inline struct value *value_at(const struct lowering *l, int v)
{
    return &l->plan->values[v];
}

static inline struct value *root_of(const struct lowering *l, int v)
{
    return value_at(l, value_at(l, v)->root);
}

static inline int is_const(const struct lowering *l, int v)
{
    return value_at(l, v)->kind == VALUE_CONST;
}

static inline int64_t elements(const struct lowering *l, int v)
{
    return tensor_elements(&value_at(l, v)->tensor);
}

/* ---- lower_values.c ---- */

/* Another name, dtype and shape for bytes of x, `offset` bytes on. */
int lower_alias(struct lowering *l, int x, const struct shape *shape, size_t offset);
/* A view of what the graph or the plan owns. */
int lower_const(struct lowering *l, struct tensor t);
/* Takes the guard of the nodes being made. */
void lower_add_node(struct lowering *l, const struct node *n);
/* In the scratch arena, at least one. */
int *lower_ints(struct lowering *l, int n);
/* A call of one operand and one result, not yet added. */
struct node lower_call(struct lowering *l, const struct operation *op, kernel_fn call,
                       int x, const struct shape *shape);
/* The bytes of x in a place of their own. */
int lower_copy(struct lowering *l, const struct operation *op, int x);
/* A value whose rows follow each other: a fed one where they do not is copied, once. */
int lower_dense(struct lowering *l, int v);
/* Does a run change the bytes this value shows? */
int lower_changes(const struct lowering *l, int v);
/* Does a node of this guard run whenever the one being made does? */
int lower_runs_whenever(const struct lowering *l, int guard);

/* ---- lower_doubles.c ---- */

/* A draw or a write is never merged, nor what looks at bytes that change. */
int lower_mergeable(const struct lowering *l, const struct operation *op, const int *in);
/* Its outputs, if it was lowered already; NULL if not. */
const int *lower_find_double(struct lowering *l, const struct operation *op,
                             const int *in);
/* Both arrays are kept. */
void lower_remember(struct lowering *l, const struct operation *op, const int *in,
                    const int *out);

/* ---- lower_fold.c ---- */

/* Are the results of a kind and size that the plan may keep? */
int lower_may_be_owned(const struct lowering *l, const struct node *n);
/* Can it be computed now? */
int lower_foldable(const struct lowering *l, const struct node *n);
/* The tensor lives as long as the plan. */
void lower_own(struct lowering *l, struct tensor t);
/* Computes the node: its results are constants. */
int lower_fold(struct lowering *l, const struct node *n);
/* Which input's bytes output 0 has as they are; -1: none. */
int lower_same_input(const struct lowering *l, const struct node *n);
/* Leading rows of a matrix and the like: a slice whose bytes lie together. Gives the
 * offset in bytes, or -1. */
int64_t lower_slice_offset(const struct lowering *l, const struct node *n);

/* ---- lower_compute.c ---- */

/* Square, or a product of a value by itself: TensorFlow's norms have both. */
int lower_squares(const struct node *n);
/* *ret: the square of x, made earlier or now. */
int lower_square(struct lowering *l, const struct operation *op, int x, int *ret);
/* Adds what computes the operation, or its results as constants. */
int lower_compute(struct lowering *l, struct node *n, const struct kernel_row *row);

#endif
