/* plan.h - a run worked out once: which steps, on what memory. Private to agent/session,
 * its tests and benchmarks.
 *
 * Building goes through these passes, each a file:
 *     plan_order.c   prune; order by data, control and read-before-write edges
 *     plan_guard.c   which operations run only when (Switch, Merge)
 *     plan_lower.c   operations to nodes: shapes, feeds, aliases; with lower_*.c: folded
 *                    constants, doubles, loops
 *     plan_fuse.c    nodes to steps: products with what is done to their rows, chains of
 *                    element-wise loops, sums that ride along
 *     plan_chunk.c   steps that go row by row to stretches
 *     plan_memory.c  one buffer by liveness, results in the place of dead operands
 *     plan_late.c    values that shapes depend on, when only a run can tell
 *     plan.c         the passes in order, the key
 * exec.c runs the steps, exec_loop.c what a loop does.
 */
#ifndef AGENT_SESSION_PLAN_H
#define AGENT_SESSION_PLAN_H

#include "agent/session/kernels/kernel.h"
#include "agent/session/kernels/loops.h"
#include "agent/session/session.h"
#include "agent/vars/var_store.h"
#include "common/mem/arena.h"

#include <stdint.h>

/* ---- values ---- */

enum value_kind {
    VALUE_BUFFER, /* in the plan's buffer */
    VALUE_CONST,  /* known at planning: the graph's or owned by the plan */
    VALUE_FEED,
    VALUE_VARIABLE, /* in the session's block */
};

struct value {
    struct tensor tensor; /* data: where it is in the current run */
    enum value_kind kind; /* of the root */
    int root;             /* the value whose bytes these are; itself, mostly */
    size_t offset;        /* bytes from the root's start */
    int index;            /* feed or variable number */
    int64_t row_stride;   /* of a fed matrix whose rows lie apart; 0: dense */
    int uses;             /* by nodes and fetches; of the root: of all its aliases */
    int maker;            /* step that makes it; -1: none */
    int by_tail;          /* made by a sum riding along: ready when the step is over */
    int64_t local_rows; /* of the batch, in a stretch that keeps a chunk of it; 0: all */
    /* storage of a root in the buffer */
    int first, last; /* steps */
    int shares;      /* root in whose place it lies; itself, mostly */
    size_t place;    /* bytes from the buffer's start */
};

/* ---- nodes: what is left of the operations ---- */

enum node_kind { NODE_CALL, NODE_LOOP, NODE_GEMM };

struct node {
    enum node_kind kind;
    const struct operation *op; /* it stems from */
    kernel_fn call;
    const struct loop_row *loop;
    float alpha;
    int writes; /* changes the variables behind its reference inputs */
    int n_in, n_out;
    int *in, *out; /* values */
    int dead;
    int guard; /* runs only while it holds */
    int keep;  /* though nobody uses what it makes */
    /* NODE_GEMM: in[0], in[1]; columns begin .. of the full product */
    int transpose_a, transpose_b;
    int64_t column_begin;
};

/* By value, while a loop is built (plan_fuse.c); between two loops every element is what it
 * was before, so that building one costs what the loop is long, not the plan. */
struct loop_notes {
    int n;
    int *inside;   /* uses within the loop; 0 */
    int *arg_of;   /* made within: its arg; -1 */
    int *last_use; /* the member that uses it last; 0 */
};

/* ---- steps: what runs ---- */

enum arg_kind {
    ARG_FULL,   /* as many elements as the loop */
    ARG_SCALAR, /* one element */
    ARG_PERIOD, /* element i is i % period: a row under every row */
    ARG_REPEAT, /* element i is i / period: one element per row */
    ARG_TEMP,   /* a block in scratch */
    ARG_RAW,    /* the product's rows in scratch */
};

struct loop_arg {
    enum arg_kind kind;
    int value; /* FULL, SCALAR, PERIOD, REPEAT */
    int temp;  /* scratch block */
    size_t period;
    size_t elem;
};

struct loop_instr {
    loop_fn fn;
    float alpha;
    int dst, src[3]; /* args; -1: none */
};

enum tail_kind { TAIL_ALL, TAIL_COLUMNS };

struct loop_tail { /* a sum (mean: divided) of one of the args */
    enum tail_kind kind;
    int arg;
    int value; /* float32 */
    int same;  /* earlier tail with this sum, but for the divisor; -1: none */
    size_t period;
    size_t part;   /* its place among the parts */
    float divisor; /* 0: none */
};

/* Where a loop stands while it runs; made with the plan. */
struct loop_state {
    struct value *values;
    char *scratch;
    char **at;                 /* each arg in the current block */
    float (*lanes)[SUM_LANES]; /* each tail that sums all */
    struct dense gemm;         /* with pointers, those of row 0 */
};

/* For each chunk of rows: the product; for each block of those: instructions, tails. */
struct loop_program {
    size_t total; /* elements */
    size_t row;   /* elements of a row of the batch; total where there is none */
    size_t block; /* elements at a time */
    int has_gemm;
    struct dense gemm; /* without pointers */
    /* Values; gemm_c -1: rows go to scratch; bias and feature -1: none. */
    int gemm_a, gemm_b, gemm_c, gemm_bias, gemm_feature;
    int gemm_sums;        /* tail whose sums the product makes, or -1 */
    size_t gemm_b_offset; /* elements */
    int turn_b;           /* the transpose of b is made in scratch first */
    int by_blas;          /* OpenBLAS computes it, at once */
    int n_args, n_instrs, n_tails;
    struct loop_arg *args;
    struct loop_instr *instrs;
    struct loop_tail *tails;
    int n_temps;
    size_t temp_bytes;  /* of one block */
    size_t part_floats; /* of the sums of one block, for the tails */
    int scratch; /* value: blocks, parts, turned b, a chunk of the product; -1: none */
    struct loop_state state;
};

struct step {
    const struct operation *op;
    kernel_fn call;          /* NULL: a loop */
    struct kernel_args args; /* of the call */
    struct loop_program *loop;
    int guard;       /* runs only while it holds */
    int draws;       /* needs a key */
    int initializes; /* variable number set initialised, or -1 */
    int reads_flag;  /* variable number whose flag it reads, or -1 */
    int n_in, n_out;
    int *in, *out;       /* values of the call */
    struct tensor *view; /* of the call in a stretch: rows of its inputs and outputs */
};

/* Steps that go row by row, played a chunk of rows after the other, so that what they pass
 * on stays in the cache. */
struct stretch {
    int first, n; /* steps */
    int64_t rows;
};

/* ---- the plan ---- */

/* What a Switch decides: its predicate has the value `branch`. */
struct condition {
    struct output predicate;
    int branch;
    int value; /* of the predicate */
};

struct guard { /* all of them; outer ones first, so that inner ones are computed */
    int n;
    struct condition *conditions;
};

struct plan_feed {
    struct output output;
    enum dtype dtype;
    struct shape shape;
    int64_t row_stride;
    int value;            /* -1: nothing reads it */
    struct tensor wanted; /* a copy, when shapes depend on the fed value */
};

struct plan {
    /* Valid: no plan, but what has to be computed, and fed, before there can be one. */
    struct output late;
    int wants_values; /* it failed for want of a value */
    struct arena arena;
    struct graph *graph;
    enum numerics numerics;
    uint64_t hash;
    size_t n_feeds, n_fetches, n_targets;
    struct plan_feed *feeds; /* in the caller's order */
    struct output *fetches;
    struct operation **targets;
    int *fetch_values;
    int *fetch_guards;
    uint64_t last_used;

    int n_values, cap_values;
    struct value *values;
    int n_nodes, cap_nodes;
    struct node *nodes;
    int n_steps;
    struct step *steps;
    int n_stretches; /* in order */
    struct stretch *stretches;
    int n_checked;
    int *checked; /* variables that must be initialised when the run starts */
    int n_guards; /* number 0 always holds */
    struct guard *guards;
    int n_owned, cap_owned;
    struct tensor *owned; /* folded constants */
    struct loop_notes notes;
    int n_moving;
    int *moving; /* values whose data is set anew in each run: fed ones */

    size_t buffer_bytes;
    const char *buffer; /* the values' data stand for this buffer ... */
    unsigned var_moves; /* ... and this state of the store */
    struct rng_key key; /* the steps' keys are derived from this one */
    int has_key;
};

/* Fed values are borrowed for the call. A plan that cannot be made before the value of
 * some output is known says so in `late`. */
int plan_build(struct plan **ret, struct graph *g, struct var_store *vars,
               enum numerics numerics, const struct run_args *args, struct err *err);
void plan_free(struct plan *p); /* NULL is fine */
uint64_t plan_key_hash(const struct run_args *args);
int plan_fits(const struct plan *p, const struct run_args *args, uint64_t hash);
/* Points every value at its bytes. */
void plan_resolve(struct plan *p, struct var_store *vars, char *buffer);

/* The shape of op depends on a value that is not known: finds an output that would tell,
 * if it can be computed before the run without being noticed. */
void plan_find_late(struct plan *p, const struct operation *op,
                    const struct tensor *const *known);
/* What to fetch for it, and its value then (the caller frees both tensors). */
struct output plan_late_source(struct output late);
int plan_late_value(struct output late, struct tensor *source, struct tensor *ret,
                    struct err *err);

/* How an operand lies under a loop of `shape`; 0 if in no simple way. */
int loop_classify(const struct shape *operand, const struct shape *shape,
                  struct loop_arg *ret);
/* Runs a loop; data of all its values is set. scratch: as large as l->scratch says. */
void loop_run(struct loop_program *l, struct value *values, void *scratch);
/* The same in parts: rows of the batch in order, chunk by chunk. */
void loop_open(struct loop_program *l, struct value *values, void *scratch);
void loop_rows(struct loop_program *l, int64_t first, int64_t rows);
void loop_close(struct loop_program *l);
/* A loop of one node, for running it at planning time; it lives in scratch. */
struct loop_program *plan_single_loop(struct plan *p, struct arena *scratch,
                                      const struct node *n);
/* Runs one node at planning time, its inputs being constants. */
int node_evaluate(struct plan *p, const struct node *n, struct err *err);

/* Runs all steps. */
int plan_execute(struct plan *p, struct var_store *vars, const struct run_args *args,
                 void (*progress)(void *ctx), void *progress_ctx, struct err *err);

/* ---- between the passes ---- */

struct order {
    int n;
    struct operation **ops;
    /* by operation id: */
    unsigned char *copy;    /* a read whose variable is written before its last use */
    unsigned char *written; /* a variable that this run writes */
    int *guard;             /* its number in the plan */
    struct check **checks;  /* variables that must have a value when it runs */
};

struct check {
    const struct operation *variable;
    struct check *next;
};

/* Numbers the guards of all operations in order. */
void plan_guards(struct plan *p, struct arena *scratch, struct order *order);
int guard_of_output(struct plan *p, const int *guard_of, struct output x);
int is_switch(const struct operation *op);

/* ERR_UNSUPPORTED, naming the operation and its type. */
int plan_not_runnable(const struct operation *op, struct err *err);
/* Fills p->checked too. The order lives in the scratch arena. */
int plan_order(struct plan *p, struct arena *scratch, const struct run_args *args,
               const struct var_store *vars, struct order *ret, struct err *err);
int plan_lower(struct plan *p, struct arena *scratch, const struct order *order,
               const struct var_store *vars, struct err *err);
void plan_fuse(struct plan *p, struct arena *scratch);
void plan_chunk(struct plan *p, struct arena *scratch);
void plan_memory(struct plan *p, struct arena *scratch);

/* How often each root is used, and which nodes nobody needs. */
void plan_count_uses(struct plan *p);
int plan_add_value(struct plan *p, enum value_kind kind, enum dtype dtype,
                   const struct shape *shape);
/* Is argument i of the operation a variable's reference ("&" in its signature) or handle?
 */
int takes_reference(const struct operation *op, int i);

/* The values behind a session, for what else stands in this folder. */
struct var_store *session_variables(struct session *s);

/* ---- for benchmarks: the matrix products of a plan ---- */

size_t plan_gemms(const struct plan *p, struct dense *ret, size_t max);

/* The gemms of the plan that these arguments run by, in order; returns how many there
 * are (ret may be NULL). Pointers are those of the last run. */
size_t session_gemms(struct session *s, const struct run_args *args, struct dense *ret,
                     size_t max);

#endif
