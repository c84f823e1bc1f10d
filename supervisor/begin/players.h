/* players.h - the agents of a run with the values of a checkpoint, started to act: what `brood eval`
 * plays with, and `brood serve` answers with.
 *
 * Only the learners act, so no other process is started.
 *
 * Threads  main thread: the agents' parent-death signal is tied to it.
 */
#ifndef SUPERVISOR_BEGIN_PLAYERS_H
#define SUPERVISOR_BEGIN_PLAYERS_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/ask/ask.h"
#include "supervisor/begin/policies.h"
#include "supervisor/begin/weights.h"
#include "supervisor/env/env.h"

struct players_args {                /* all borrowed until players_close */
    const struct run_config *config; /* the run's, resolved */
    const struct policies *policies; /* NULL: no agent is frozen */
    int agent_exe_fd;                /* of binaries_open_agent */
    /* Of a checkpoint of the run, with every agent (weights_add). */
    const struct weights *weights;
    int resized;   /* the environment may have other numbers of agents than the run's */
    uint64_t seed; /* of the environment that the agents' spaces are read from */
};

struct players; /* opaque */

/* Returns when all agents have their values. Sets *ret even on failure, for players_close. The
 * errors of vec_env_new, ask_open (ERR_INTERRUPTED: by a signal) and restore_start. */
int players_open(struct players **ret, const struct players_args *args, struct err *err);
/* Ends the processes; NULL is fine. */
void players_close(struct players *p);

/* The environment's, owned by p. */
const struct env_spec *players_spec(const struct players *p);
/* The processes: their table and their loop. Owned by p. */
struct ask *players_ask(const struct players *p);

#endif
