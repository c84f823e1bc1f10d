/* stages.h - runs what no plan can: loops, tensor arrays and stacks. Private to
 * agent/flow.
 *
 * An operation with OP_STAGED changes values that plans do not know, or it computes lists
 * (operation_is_staged); values decide the sizes of the results of another (Unique, Where;
 * op_def.sized_by), unless planning knows them (plan_knows). A run that needs such operations,
 * the staged ones, is cut into
 * stages. Each stage is an ordinary plan, which computes the inputs of the staged
 * operations that follow it; then these run, and their results are fed to later stages.
 * Any other operation runs in the first stage that needs it, and its results are fed to
 * later stages. Each operation runs once, except those that cost nothing (constants,
 * reads of variables).
 *
 * A loop (loops.h) is one staged operation. Its condition and its body are cut into stages
 * themselves, with the loop's variables and constants as feeds, so that each iteration runs
 * plans from the session's cache: a variable whose shape changes needs one plan for each
 * shape. Random operations draw different numbers in each iteration: from a key derived
 * from the name of the LoopCond and the number of the iteration.
 *
 * Memory   where a stage or a loop passes on what passes a reference variable's bytes on
 *          (uses.h), it passes on the memory, not a copy: the feed of the next plan, or of the
 *          next iteration, is that variable (struct feed, memory_of). Blocks that use a
 *          variable run before those that write it, if no path orders them otherwise, as in
 *          a plan. The iterations of a loop run one after another.
 * Dead     a value on a branch not taken is dead. A staged operation with a dead input
 *          does not run, and its results are fed as dead.
 * Bounds   the session's max_iterations counts the iterations of all loops of a run; for
 *          tensor arrays and stacks see containers.h, for tensor lists lists.h. Each plan
 *          reports progress (session_set_progress).
 */
#ifndef AGENT_FLOW_STAGES_H
#define AGENT_FLOW_STAGES_H

#include "agent/flow/containers.h"
#include "agent/flow/lists.h"
#include "agent/flow/loops.h"
#include "agent/plan/plans.h"
#include "agent/plan/uses.h"
#include "common/mem/arena.h"

struct schedule;

/* A value in a run: fed, or computed by a staged operation or an earlier stage. */
struct slot {
    struct feed
        feed;   /* may own its value; output.index -1: the operation itself, no value */
    int handle; /* of a resource: the number of the container; -1: none */
};

/* A staged operation, or a loop. */
struct unit {
    struct operation *op; /* of a loop: the first Exit */
    struct while_loop *loop;
    struct schedule *condition, *body; /* of the loop */
    int n_in, n_out;
    int *in;   /* slots: of the inputs; of a loop, of the inputs of its variables' and
                  constants' Enters; then of the operations it waits for */
    int *out;  /* slots: of the outputs; of a loop, of the Exits; -1: not used */
    int *done; /* slots of the operations themselves: of a loop, of the Exits; otherwise
                  done[0], of op; -1: not used */
};

struct stage {
    int n_feeds, n_fetches, n_targets;
    int *feeds;             /* slots */
    int *fetched;           /* slots */
    struct output *fetches; /* in the last stage, those of the caller */
    struct operation **targets;
    int *done; /* slots of the targets; NULL in the last stage */
    int n_units;
    struct unit **units; /* in the order in which they run, after the plan */
};

struct schedule {
    struct arena arena;
    struct run_kind kind;
    uint64_t last_used;
    int n_slots, cap_slots; /* the first are those of kind.given */
    struct slot *slots;     /* only the outputs are set */
    int *same_handle;       /* by slot: the slot whose handle it has, or -1 */
    int *wanted_handle;     /* by wanted output: the slot with its handle, or -1 */
    int n_stages;           /* 1: an ordinary run */
    struct stage *stages;
    int n_units;
    struct unit *units;
};

struct schedule_query {
    const struct graph *graph;
    struct run_kind kind;
    /* for the condition or the body of a loop: its LoopCond, and the query around it */
    const struct operation *of_loop;
    const struct schedule_query *around;
};

/* What blocks_order is asked: the blocks of a run are its operations, by id, then its units
 * (stages.c). */
struct block_order {
    const struct graph *graph;
    const unsigned char *effects; /* plan_effects */
    int n_blocks, n_units;
    const struct unit *units;
    const void *ctx;
    /* The block of an operation outside of loops; -1: the run does not need it. */
    int (*block_of)(const void *ctx, int id);
    /* Need i of the block; *ret -1: none. Returns 0 past the last. */
    int (*need)(const void *ctx, int block, int i, int *ret);
    int (*is_given)(const void *ctx, struct output x);
    /* the answer: */
    int writes; /* the run writes variables, perhaps in loops */
    struct edge *
        *before; /* [blocks] blocks that must run before it, though it needs none */
};
/* Orders blocks that use variables and blocks that write them. */
void blocks_order(struct block_order *q, struct arena *arena);

/* Whether the operation is a staged one; known: by id, plan_knows. */
int stages_cut_at(const struct operation *op, const unsigned char *known);
/* Cuts a run into stages. ERR_FORMAT, ERR_LIMIT: its loops are malformed. */
int schedule_build(struct schedule **ret, const struct schedule_query *q,
                   struct err *err);
void schedule_free(struct schedule *s); /* NULL is fine */

/* The state of a run in stages. */
struct staged_run {
    struct plans *plans;
    struct containers containers;
    struct lists lists;
    int64_t n_iterations, max_iterations;
};

/* args: as for session_run; the feeds are of the given outputs, in their order. ret_dead:
 * see plan_execute. */
int schedule_run(struct staged_run *r, const struct schedule *sc,
                 const struct run_args *args, struct tensor *ret, unsigned char *ret_dead,
                 struct err *err);

#endif
