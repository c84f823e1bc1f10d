/* lower.h - shared by plan_lower.c, the pass that turns operations into nodes, and lower_*.c. */
#ifndef AGENT_PLAN_LOWER_H
#define AGENT_PLAN_LOWER_H

#include "agent/plan/plan.h"

/* An operation that was already lowered, to find duplicates of it. */
struct lowered_op {
    const struct operation *op;
    const int *in, *out; /* values */
    int guard;
    struct lowered_op *next;
};

/* One of the values that a choice may be. */
struct alternative {
    int value;
    int guard;     /* holds if the choice is this value */
    int is_memory; /* of a reference variable */
};

struct choice {
    int n;
    struct alternative *alternatives;
};

struct lowering {
    struct plan *plan;
    struct arena *scratch;
    const struct order *order;
    const struct var_store *vars;
    int **values; /* by operation id: the values of its outputs */
    int *dense;   /* by feed: dense copy of a fed matrix with rows apart, or -1 */
    unsigned char *written; /* by variable number: whether this run changes it */
    /* by variable number: the value, plus 1, and the operation; 0 and NULL: none yet */
    int *variables;
    const struct operation **variable_ops;
    /* by operation id: whether output 0 is, or may be, a reference variable's memory, or a
     * handle */
    unsigned char *memory;
    /* by operation id: the error that keeps it from a value; NULL: none */
    const struct err **refusals;
    int n_choices;
    struct choice **choices;     /* at least as many as there are Merges and aliases */
    struct pin *pins;            /* lower_choice.c */
    int guard;                   /* of the nodes being added */
    struct lowered_op **buckets; /* at least as many as operations in the order */
    unsigned n_buckets;          /* a power of two */
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

/* A value for bytes of x from `offset` on, with the given shape. */
int lower_alias(struct lowering *l, int x, struct shape shape, size_t offset);
/* A constant; t is a view of memory that the graph or the plan owns. */
int lower_const(struct lowering *l, struct tensor t);
/* Adds a copy of the node, with the current guard. */
void lower_add_node(struct lowering *l, const struct node *n);
/* An array in the scratch arena, of at least one element. */
int *lower_ints(struct lowering *l, int n);
/* A call of one operand and one result, not yet added. */
struct node lower_call(struct lowering *l, const struct operation *op, kernel_fn call,
                       int x, struct shape shape);
/* Copies x to memory of its own. */
int lower_copy(struct lowering *l, const struct operation *op, int x);
/* A dense value: v itself, or one copy per feed if its rows lie apart. */
int lower_dense(struct lowering *l, int v);
/* Whether a node with this guard runs whenever the node being added does. */
int lower_runs_whenever(const struct lowering *l, int guard);

/* ---- lower_choice.c ---- */

/* Whether the output is, or may be, the memory of a reference variable. */
int lower_has_memory(const struct lowering *l, struct output x);
int lower_is_choice(const struct lowering *l, int v);
const struct choice *lower_choice_at(const struct lowering *l, int v);
/* Whether this run changes the bytes of the value; of a choice, of an alternative. */
int lower_changes(const struct lowering *l, int v);
/* The choice between a Merge's inputs; in -1: one that cannot be alive. */
int lower_choose(struct lowering *l, const struct node *merge);
/* The choice v in another shape. */
int lower_choice_alias(struct lowering *l, int v, struct shape shape);
/* The value for a use that comes next: v, or of a choice a copy of the alternative that is
 * alive. */
int lower_take(struct lowering *l, const struct operation *op, int v);
/* The value of a condition's predicate; -1: none, as the Switch cannot be alive. */
int lower_predicate(const struct lowering *l, const struct condition *c);
/* Copies what decides about the Switch, if it is memory that this run writes. */
void lower_pin(struct lowering *l, const struct operation *op);

/* ---- lower_fold.c ---- */

/* Whether the plan may own results of this kind and size. */
int lower_may_be_owned(const struct lowering *l, const struct node *n);
/* Whether the node can be computed while planning. */
int lower_foldable(const struct lowering *l, const struct node *n);
/* The plan takes ownership of the tensor. */
void lower_own(struct lowering *l, struct tensor t);
/* Computes the node while planning; its results become constants. */
int lower_fold(struct lowering *l, const struct node *n);

/* ---- lower_rename.c ---- */

/* Whether it is AddN or AccumulateNV2: the sum of all inputs. */
int lower_adds_many(const struct operation *op);
/* A value for bytes of x from `offset` on that the operation passes on: an alias, or a copy
 * if the result must not change with a variable. */
int lower_same_bytes(struct lowering *l, const struct operation *op, int x,
                     struct shape shape, size_t offset);
/* If the results consist of bytes of an input, sets ret to aliases of the input and returns
 * 1. */
int lower_rename(struct lowering *l, const struct node *n, int *ret);

/* ---- lower_table.c ---- */

/* Puts the index, keys and values of the table in place of its handle, input 0. */
int lower_table(struct lowering *l, struct node *n);

/* ---- lower_compute.c ---- */

/* Adds the nodes of an operation that computes, whose values n has; out [n_out]: where they
 * are in the end, which is preset to n->out. */
int lower_kernel(struct lowering *l, struct node *n, const struct kernel *row, int *out);

/* ---- lower_half.c ---- */

/* Whether the node computes with float16 or bfloat16, for which there are no kernels. */
int lower_needs_float32(const struct lowering *l, const struct node *n,
                        const struct kernel *row);
/* lower_kernel for such a node: on float32, with the results rounded. */
int lower_in_float32(struct lowering *l, struct node *n, const struct kernel *row,
                     int *out);
/* Makes a node that writes variables of these types use float32 and scratch memory, unless
 * it only moves elements. */
void lower_write_in_float32(struct lowering *l, struct node *n);

#endif
