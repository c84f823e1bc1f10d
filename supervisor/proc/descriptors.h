/* descriptors.h - raises the limit on open files to what many agents need.
 *
 * The usual soft limit of a shell, 1024, exists for select() and is too low for two hundred
 * agents. This program does not use select() and raises the soft limit to what the hard
 * limit allows. Children get the usual limit back (agent/launch.h).
 */
#ifndef SUPERVISOR_PROC_DESCRIPTORS_H
#define SUPERVISOR_PROC_DESCRIPTORS_H

#include "common/err/err.h"

#include <stddef.h>

/* Per running agent: block, log, two message pipes, stderr, pidfd; while it starts also the
 * other ends of the pipes. */
#define DESCRIPTORS_PER_AGENT 9
/* For everything else: clients, files, the loop. */
#define DESCRIPTORS_OTHERS    256

/* Raises the soft limit to the hard limit, at most to 65536, as far as that is possible. */
void descriptors_raise(void);
/* descriptors_raise. -EMFILE: the hard limit is too low for n_agents. */
int descriptors_reserve(size_t n_agents, struct err *err);

#endif
