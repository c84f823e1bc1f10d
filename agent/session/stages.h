/* stages.h - runs what no plan can: loops, tensor arrays and stacks. Private to
 * agent/session.
 *
 * The operations with OP_STAGED change values that plans do not know, or have results whose
 * shapes only they know. A run that needs some of them is cut into stages. Each stage is an
 * ordinary plan, which computes what the staged operations behind it take; then these are
 * executed, and later stages are fed their results. An operation runs in the first stage
 * that needs it, and what it computed is fed to later ones. Each runs once, but for those
 * that cost nothing (constants, reads of variables).
 *
 * A loop (loops.h) is one staged operation. Its condition and its body are cut into stages
 * themselves, with the loop's variables and constants as feeds, so that each iteration runs
 * plans of the session's cache: a variable that changes its shape leads to one plan a
 * shape. Random operations draw other numbers in each iteration: from a key derived from the
 * name of the LoopCond and the number of the iteration.
 *
 * Dead     values on branches not taken: an operation with a dead input does not run, and
 *          its results are fed dead.
 * Bounds   the session's max_iterations of all loops of a run; tensor arrays and stacks as in
 *          containers.h. Each plan is progress (session_set_progress).
 */
#ifndef AGENT_SESSION_STAGES_H
#define AGENT_SESSION_STAGES_H

#include "agent/session/containers.h"
#include "agent/session/loops.h"
#include "agent/session/session.h"
#include "common/mem/arena.h"

struct schedule;

/* A value that a run has: of a feed, of a staged operation or of an earlier stage. */
struct slot {
    struct feed
        feed;   /* its value may be owned; output.index -1: an operation, no value */
    int handle; /* of a resource: the number of the container; -1: none */
};

/* A staged operation, or a loop. */
struct unit {
    struct operation *op; /* of a loop: the first Exit */
    struct while_loop *loop;
    struct schedule *condition, *body; /* of the loop */
    int n_in, n_out;
    int *in;   /* slots: its inputs; of a loop, of the Enters of its variables and its
                  constants; then what it waits for */
    int *out;  /* slots: its outputs; of a loop, of the Exits; -1: not used */
    int *done; /* slots of the operations themselves, -1: not used; like `out` for a loop,
                  otherwise one */
};

struct stage {
    int n_feeds, n_fetches, n_targets;
    int *feeds;             /* slots */
    int *fetched;           /* slots */
    struct output *fetches; /* of the last stage: the caller's */
    struct operation **targets;
    int *done; /* slots of the targets; -1: none */
    int n_units;
    struct unit **units; /* after the plan */
};

struct schedule {
    struct arena arena;
    size_t n_given, n_wanted, n_targets; /* the key */
    struct output *given, *wanted;
    struct operation **targets;
    uint64_t last_used;
    int n_slots, cap_slots; /* the first n_given are given */
    struct slot *slots;     /* outputs only */
    int *same_handle;       /* by slot: that of an earlier slot, or -1 */
    int *wanted_handle;     /* by wanted output: the slot with its handle, or -1 */
    int n_stages;           /* 1: an ordinary run */
    struct stage *stages;
    int n_units;
    struct unit *units;
};

struct schedule_query {
    const struct graph *graph;
    const struct output *given; /* what is fed */
    size_t n_given;
    const struct output *wanted;
    size_t n_wanted;
    struct operation *const *targets;
    size_t n_targets;
    /* of the condition or the body of a loop: its LoopCond, and the loops around it */
    const struct operation *of_loop;
    const struct schedule_query *around;
};

/* Cuts a run into stages. ERR_FORMAT, ERR_LIMIT: its loops are malformed. */
int schedule_build(struct schedule **ret, const struct schedule_query *q,
                   struct err *err);
void schedule_free(struct schedule *s); /* NULL is fine */

/* The state of a run in stages. */
struct staged_run {
    struct session *session;
    struct containers containers;
    int64_t n_iterations, max_iterations;
};

/* args: as of session_run; what is fed are the given outputs. */
int schedule_run(struct staged_run *r, const struct schedule *sc,
                 const struct run_args *args, struct tensor *ret, struct err *err);

/* Runs one plan. ret_dead: see plan_execute. Fetched resources have no data. */
int session_run_plan(struct session *s, const struct run_args *args, struct tensor *ret,
                     unsigned char *ret_dead, struct err *err);

#endif
