/* descriptors.h - as many open files as many agents take.
 *
 * A shell's usual soft limit, 1024, is for the sake of select() and too few for two
 * hundred agents; this program has no select(), and takes what the hard limit allows.
 * Children begin with the usual limit again (agent/launch.h).
 */
#ifndef SUPERVISOR_PROC_DESCRIPTORS_H
#define SUPERVISOR_PROC_DESCRIPTORS_H

#include "common/err/err.h"

#include <stddef.h>

/* Of an agent, while it lives: block, log, two message pipes, its stderr, its pidfd; and
 * the other ends of the pipes while it starts. */
#define DESCRIPTORS_PER_AGENT 9
/* Of all the rest: clients, files, the loop. */
#define DESCRIPTORS_OTHERS    256

/* Raises the soft limit as far as is allowed, or to 65536. ERR_LIMIT: the hard one is too
 * low. */
int descriptors_reserve(size_t n_agents, struct err *err);

#endif
