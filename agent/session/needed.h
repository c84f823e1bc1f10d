/* needed.h - which operations a run needs: from its fetches and targets back to its feeds. */
#ifndef AGENT_SESSION_NEEDED_H
#define AGENT_SESSION_NEEDED_H

#include "agent/session/session.h"
#include "common/mem/arena.h"

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
