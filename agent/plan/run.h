/* run.h - what a run is given, and which operations it needs: from its fetches and targets back
 * to its feeds. */
#ifndef AGENT_PLAN_RUN_H
#define AGENT_PLAN_RUN_H

#include "agent/graph/graph.h"
#include "common/mem/arena.h"
#include "common/rng/rng.h"

struct feed {
    struct output output;
    struct tensor value; /* borrowed for the run; 64-byte alignment is faster */
    /* Elements from one row to the next, for a matrix that consists of some columns of a
     * wider one; products and concatenations read it without a copy. 0: dense. */
    int64_t row_stride;
    /* Only in a part of a run (flow/stages.h): on a branch not taken, without a value; the
     * memory of this reference variable, not a value of its own, or the handle of this
     * resource variable. */
    int is_dead;
    const struct operation *memory_of;
};

struct run_args {
    const struct feed *feeds;
    size_t n_feeds;
    const struct output *fetches;
    size_t n_fetches;
    struct operation *const *targets;
    size_t n_targets;
    struct rng_key key;
    uint64_t counter;
    /* Only in a part of a run. [n_fetches] the variable whose memory, or handle, the run hands
     * on instead of a value; NULL for the others. */
    const struct operation **ret_memory_of;
};

/* Whether the graph has all that is fed, fetched and run, and the values fit. ERR_ARG,
 * ERR_DTYPE, ERR_SHAPE, naming the tensor. */
int run_check(const struct graph *g, const struct run_args *args, struct err *err);

/* What is fed, fetched and run, without values: what follows from it alone is worked out once
 * for all such runs. */
struct run_kind {
    const struct output *given; /* the outputs that are fed */
    size_t n_given;
    const struct output *wanted;
    size_t n_wanted;
    struct operation *const *targets;
    size_t n_targets;
};

int run_is_of_kind(const struct run_kind *kind, const struct run_args *args);
/* That of a run; all of it is in the arena. */
struct run_kind run_kind_of(const struct run_args *args, struct arena *a);
struct run_kind run_kind_copy(const struct run_kind *kind, struct arena *a);

int run_is_fed(const struct run_args *args, struct output x);
/* Visits all of them; a walk's `added` then marks them (op_walk_begin was called). */
void run_walk_needed(struct op_walk *w, const struct run_args *args);

#endif
