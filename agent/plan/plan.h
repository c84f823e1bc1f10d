/* plan.h - the prepared form of a run, or of a stage of one (flow/stages.h): its
 * steps and their memory. For agent/plan, flow and session, tests and benchmarks.
 *
 * These passes build a plan, one per file:
 *     plan_order.c   prune; order by data, control and use-before-write edges (uses.h)
 *     plan_guard.c   find the conditions under which operations run (Switch, Merge)
 *     plan_lower.c   operations to nodes: shapes, feeds, aliases; with lower_*.c: constant
 *                    folding, removal of duplicates, loops
 *     plan_fuse.c    nodes to steps: fuse products with the operations on their rows, chains
 *                    of element-wise loops, and sums of what a loop computes (tails);
 *                    group.c makes the program of a step
 *     plan_chunk.c   group steps that work row by row into stretches
 *     plan_memory.c  allocate one buffer by liveness; reuse the memory of dead operands
 *     plan_probe.c   find values that shapes depend on and that only a run can compute
 *     plan.c         the passes in order; the key of the cache
 * exec.c runs the steps, exec_loop.c runs loops; plans.h keeps the plans of a session.
 *
 * Memory of variables: what passes a reference variable's bytes on is an alias of the
 * variable's value (VALUE_VARIABLE), never a copy. A node that reads the alias reads the
 * bytes of the moment, so plan_order.c alone decides what it sees, and every later pass must
 * keep each such node between the same two writes: `written_between` and `last_write` in
 * plan_fuse.c, `written` in plan_chunk.c; no such nodes are merged (lower_changes). Where an
 * operation that computes leaves bytes as they are (a slice of all), its result is a copy if
 * this run writes the variable. A Merge that passes such bytes on is a choice between
 * values, and each use of it copies the one that is alive right before the use. The value of
 * a ReadVariableOp is an alias, too, but its users come before the next write, or it is
 * copied (order.copy).
 */
#ifndef AGENT_PLAN_PLAN_H
#define AGENT_PLAN_PLAN_H

#include "agent/kernels/loops.h"
#include "agent/ops/kernel.h"
#include "agent/plan/run.h"
#include "agent/plan/uses.h"
#include "agent/vars/var_store.h"
#include "common/mem/arena.h"

#include <stdint.h>

/* ---- values ---- */

enum value_kind {
    VALUE_BUFFER, /* in the plan's buffer */
    VALUE_CONST,  /* known when planning; owned by the graph or the plan */
    VALUE_TEXT,   /* a string of known length, which a step writes; owned by the plan */
    VALUE_FEED,
    VALUE_VARIABLE, /* in the session's block: the bytes that are there at the time */
    /* only while lowering: one of several values, which one depends on guards
     * (lower_choice.c) */
    VALUE_CHOICE,
};

struct value {
    struct tensor tensor; /* data: its address in the current run */
    enum value_kind kind; /* of the root */
    int root;             /* the value that owns these bytes; for most values, itself */
    size_t offset;        /* bytes from the root's start */
    int index;            /* feed or variable number */
    int64_t row_stride;   /* of a fed matrix with rows apart (struct feed); 0: dense */
    int uses;      /* by nodes and fetches; a root counts those of its aliases, too */
    int producer;  /* step that computes it; -1: none */
    int from_tail; /* computed by a tail: complete only after the whole step */
    int64_t
        local_rows; /* rows kept in memory, in a stretch that keeps only a chunk of the
                             batch; 0: all */
    /* storage of a root in the buffer */
    int first, last; /* steps */
    int shares_with; /* root whose memory it reuses; for most values, itself */
    size_t place;    /* offset in the buffer, in bytes */
};

/* ---- nodes: the operations that remain after lowering ---- */

enum node_kind { NODE_CALL, NODE_LOOP, NODE_GEMM };

struct node {
    enum node_kind kind;
    const struct operation *op; /* from which it was made */
    kernel_fn call;
    const struct loop_row *loop;
    float alpha;
    int writes; /* changes the variables behind its reference inputs */
    int n_in, n_out;
    int *in, *out; /* values */
    int dead;
    int guard; /* number of the guard that must hold for the node to run */
    int keep;  /* do not remove it even if its results are unused */
    const struct err *refusal; /* of kern_refuse, in the plan's arena */
    /* NODE_GEMM: operands in[0] and in[1]; the node computes the columns of the product from
     * column_begin on. */
    int transpose_a, transpose_b;
    int64_t column_begin;
};

/* Working memory of plan_fuse.c, indexed by value. After each loop the changed elements are
 * reset, so that building a loop takes time proportional to the loop, not to the plan. The
 * comments give the reset value. */
struct loop_notes {
    int n;
    int *inside;   /* number of uses within the loop; 0 */
    int *arg_of;   /* argument number of a value computed in the loop; -1 */
    int *last_use; /* the last member that uses it; 0 */
};

/* ---- steps: what a run executes ---- */

enum arg_kind {
    ARG_FULL,   /* as many elements as the loop */
    ARG_SCALAR, /* one element */
    ARG_PERIOD, /* element i of the loop uses i % period: the same row for every row */
    ARG_REPEAT, /* element i of the loop uses i / period: one element per row */
    ARG_TEMP,   /* an intermediate block in scratch memory */
    ARG_RAW,    /* rows of the product in scratch memory */
};

struct loop_arg {
    enum arg_kind kind;
    int value; /* FULL, SCALAR, PERIOD, REPEAT */
    int temp;  /* TEMP: number of the block */
    size_t period;
    size_t elem; /* bytes of an element */
};

struct loop_instr {
    loop_fn fn;
    float alpha;
    int dst, src[3]; /* args; -1: none */
};

enum tail_kind { TAIL_ALL, TAIL_COLUMNS };

struct loop_tail { /* computes the sum or mean of one of the args along with the loop */
    enum tail_kind kind;
    int arg;
    int value; /* the result, float32 */
    int same;  /* earlier tail with the same sum, perhaps another divisor; -1: none */
    size_t period;
    size_t part;   /* offset of its partial sums in scratch memory, in floats */
    float divisor; /* of a mean; 0: none */
};

/* State of a running loop; allocated with the plan. */
struct loop_state {
    struct value *values;
    char *scratch;
    char **at;              /* address of each arg in the current block */
    struct lane_sums *sums; /* of each tail of kind TAIL_ALL */
    struct dense gemm;      /* the product with pointers, to row 0 */
};

/* A loop. For each chunk of rows, computes the product; for each block of the chunk, runs the
 * instructions and the tails. */
struct loop_program {
    size_t total; /* elements */
    size_t row;   /* elements per row of the batch; `total` if there are no rows */
    size_t block; /* elements processed at a time */
    int has_gemm;
    struct dense gemm; /* without pointers */
    /* Value numbers; gemm_c -1: the rows are written to scratch memory; bias and feature -1:
     * none. */
    int gemm_a, gemm_b, gemm_c, gemm_bias, gemm_feature;
    int gemm_sums;        /* tail whose column sums the product computes, or -1 */
    size_t gemm_b_offset; /* elements */
    int transpose_b;      /* b is transposed into scratch memory first */
    int by_blas;          /* OpenBLAS computes the whole product at once */
    int n_args, n_instrs, n_tails;
    struct loop_arg *args;
    struct loop_instr *instrs;
    struct loop_tail *tails;
    int n_temps;
    size_t temp_bytes;  /* of one block */
    size_t part_floats; /* of the sums of one block, for the tails */
    /* Value with the scratch memory: blocks, partial sums, transposed b, a chunk of the
     * product; -1: none. */
    int scratch;
    struct loop_state state;
};

struct step {
    const struct operation *op;
    kernel_fn call;          /* NULL: a loop */
    struct kernel_args args; /* of the call */
    struct loop_program *loop;
    int guard;      /* number of the guard that must hold for the step to run */
    int draws;      /* uses random numbers: needs a key */
    int sets_flag;  /* number of the variable that it marks initialised (or not), or -1 */
    int reads_flag; /* number of the variable whose flag it reads, or -1 */
    const struct err *refusal; /* struct kernel_args */
    int n_in, n_out;
    int *in, *out;       /* values of the call */
    struct tensor *view; /* in a stretch: the current rows of inputs and outputs */
};

/* Consecutive steps that work row by row. They run together for one chunk of rows after the
 * other, so that intermediate values stay in the cache. */
struct stretch {
    int first, n; /* steps */
    int64_t rows;
};

/* ---- the plan ---- */

enum { PLAN_MAX_BRANCHES = 256 }; /* that one operation depends on */

/* One branch of a Switch: holds if the predicate has the value `branch`. */
struct condition {
    struct output predicate;
    /* Which of the predicate's values: a variable that the run writes may decide about
     * Switches before and after a write (order.version). */
    int version;
    int branch;
    int value; /* of the predicate */
};

/* A guard holds if all its conditions hold. Outer conditions come first: the predicates
 * of inner ones are computed only if the outer ones hold. A condition without a predicate
 * never holds; it guards values that are fed dead. */
struct guard {
    int n;
    struct condition *conditions;
};

struct plan_feed {
    struct output output; /* index -1: of an operation that has run already */
    int is_dead;
    const struct operation *memory_of; /* struct feed */
    enum dtype dtype;
    struct shape shape;
    int64_t row_stride;
    int value;            /* -1: no operation reads it */
    struct tensor wanted; /* a copy of the fed value if shapes depend on it */
};

/* A fetch is the memory of the variable if the guard holds. */
struct handed {
    int guard;
    const struct operation *variable;
    struct handed *next;
};

struct plan {
    /* If valid, the plan cannot run: this output must be computed and fed first. */
    struct output probe;
    int needs_values;      /* planning failed because a value was unknown */
    unsigned char *lacked; /* by feed: that value depends on it; NULL: not known */
    struct arena arena;
    struct graph *graph;
    enum numerics numerics;
    uint64_t hash;
    size_t n_feeds, n_fetches, n_targets;
    struct plan_feed *feeds; /* in the caller's order */
    struct output *fetches;
    struct operation **targets;
    int *fetch_values;
    int *fetch_guards, *target_guards;
    /* Whether fetched memory of reference variables is handed on as such
     * (run_args.ret_memory_of), and which, by fetch. */
    int hands_on;
    struct handed **handed;
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
    int *checked; /* numbers of variables that must be initialised when the run starts */
    int n_guards; /* number 0 always holds */
    struct guard *guards;
    int never; /* number of the guard that never holds, or -1 */
    int n_owned, cap_owned;
    struct tensor *owned; /* folded constants */
    struct loop_notes notes;
    int n_fed;
    int *fed; /* values that point to fed data, set in each run */

    size_t buffer_bytes;
    const char *buffer; /* the values' addresses are valid for this buffer ... */
    unsigned var_moves; /* ... and this layout of the variables */
    struct rng_key key; /* from which the steps' keys were derived */
    int has_key;
};

static inline int plan_root(const struct plan *p, int v)
{
    return p->values[v].root;
}
static inline int64_t plan_elements(const struct plan *p, int v)
{
    return tensor_elements(&p->values[v].tensor);
}

/* Fed values are borrowed for the call. If the value of some output must be known first,
 * *ret only has `probe` set. */
int plan_build(struct plan **ret, struct graph *g, struct var_store *vars,
               enum numerics numerics, const struct run_args *args, struct err *err);
void plan_free(struct plan *p); /* NULL is fine */
uint64_t plan_key_hash(const struct run_args *args);
int plan_fits(const struct plan *p, const struct run_args *args, uint64_t hash);
/* Sets the address of every value. */
void plan_resolve(struct plan *p, struct var_store *vars, char *buffer);

/* The shape of op depends on an unknown value: sets p->probe to the output to compute, if it
 * can be computed before the run without side effects. known: the known inputs, or NULL. */
void plan_find_probe(struct plan *p, const struct operation *op,
                     const struct tensor *const *known);
/* Sets p->needs_values, and p->lacked for the feeds that input i of the operation depends
 * on. */
void plan_lacks(struct plan *p, const struct operation *op, int i);
/* Whether planning the run again, after the probe or with more of the fed values in the plan's
 * key, may know a value that was missing. */
int plan_may_learn(const struct plan *p);
/* Adds the feeds whose values the planner asked for to those that are part of the key:
 * by_value[feed]. Returns 0 if there are none left to add. */
int plan_take_wanted(const struct plan *p, const struct run_args *args,
                     unsigned char *by_value);
/* Whether planning knows the values of the operation, which follow from constants and shapes
 * alone. known: the same for all operations before it, by id. */
int plan_knows(const unsigned char *known, const struct operation *op);

/* How a loop of `shape` reads an operand (kind and period of *ret). Returns 0 if none of the
 * kinds applies. */
int loop_classify(const struct shape *operand, const struct shape *shape,
                  struct loop_arg *ret);
/* Runs a loop; the addresses of its values must be set. scratch: of the size of the value
 * l->scratch. */
void loop_run(struct loop_program *l, struct value *values, void *scratch);
/* loop_run in parts: loop_rows for chunks of rows in order. */
void loop_open(struct loop_program *l, struct value *values, void *scratch);
void loop_rows(struct loop_program *l, int64_t first, int64_t rows);
void loop_close(struct loop_program *l);
/* A loop of one node, to run it while planning; allocated in scratch. */
struct loop_program *plan_single_loop(struct plan *p, struct arena *scratch,
                                      const struct node *n);

/* After a run: the variable whose memory fetch i hands on; NULL: none. */
const struct operation *plan_handed(const struct plan *p, size_t i);
/* Runs all steps. ret_dead, for each fetch and then each target: whether it is on a branch
 * that was not taken, which for a fetch is an error if ret_dead is NULL. */
int plan_execute(struct plan *p, struct var_store *vars, const struct run_args *args,
                 void (*progress)(void *ctx), void *progress_ctx, unsigned char *ret_dead,
                 struct err *err);

/* Reports that fetch i has no value, because its branch was not taken: ERR_ARG. */
int plan_fail_dead(struct output x, size_t i, struct err *err);

/* ---- between the passes ---- */

/* plan_values.c */
int plan_add_value(struct plan *p, enum value_kind kind, enum dtype dtype,
                   struct shape shape);
int plan_feed_of(const struct plan *p, struct output x); /* its number, or -1: not fed */
/* Counts the uses of each root and marks unneeded nodes dead. */
void plan_count_uses(struct plan *p);

struct order {
    int n;
    struct operation **ops;
    /* by operation id: */
    unsigned char *copy;    /* a ReadVariableOp that must copy, as the variable is written
                               before the last use of the value */
    unsigned char *written; /* a variable that this run writes */
    /* of a Switch, if a reference variable that this run writes decides about it: the same
     * number for those of one predicate that no write comes between; otherwise 0 */
    int *version;
    int *guard;            /* number of the guard */
    struct check **checks; /* variables that must be initialised when it runs */
};

struct check {
    const struct operation *variable;
    struct check *next;
};

/* Numbers the guards of all operations in order. ERR_LIMIT: an operation is on more than
 * PLAN_MAX_BRANCHES branches at once. */
int plan_guards(struct plan *p, struct arena *scratch, struct order *order,
                struct err *err);
int guard_of_input(struct plan *p, const struct order *order,
                   struct output x);          /* or a feed */
int guard_both(struct plan *p, int a, int b); /* the guard that holds if both do */

/* For each operation of the graph, whether it has an effect or depends on an operation
 * that has one. */
unsigned char *plan_effects(const struct graph *g, struct arena *arena);
/* Whether the control edge counts: always if op has no outputs (such as a NoOp),
 * otherwise if `effects` is set for the operation waited for. Other control edges are
 * dropped, and those of an Enter: see flow/loops.c. */
int plan_awaits(const unsigned char *effects, const struct operation *op,
                int control_input);

/* ERR_UNSUPPORTED, naming the operation and its type. */
int plan_not_runnable(const struct operation *op, struct err *err);
/* Also fills p->checked. The order is allocated in the scratch arena. */
int plan_order(struct plan *p, struct arena *scratch, const struct run_args *args,
               const struct var_store *vars, struct order *ret, struct err *err);
int plan_lower(struct plan *p, struct arena *scratch, const struct order *order,
               const struct var_store *vars, struct err *err);
void plan_fuse(struct plan *p, struct arena *scratch);
void plan_chunk(struct plan *p, struct arena *scratch);
void plan_memory(struct plan *p, struct arena *scratch);

/* ---- for benchmarks: the matrix products of a plan ---- */

size_t plan_gemms(const struct plan *p, struct dense *ret, size_t max);

#endif
