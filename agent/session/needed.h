/* needed.h - which operations a run needs: from its fetches and targets back to its feeds. */
#ifndef AGENT_SESSION_NEEDED_H
#define AGENT_SESSION_NEEDED_H

#include "agent/session/session.h"

int run_is_fed(const struct run_args *args, struct output x);
/* Visits all of them; a walk's `added` then marks them (op_walk_begin was called). */
void run_walk_needed(struct op_walk *w, const struct run_args *args);

#endif
