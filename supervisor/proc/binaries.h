/* binaries.h - where the two executables are, and the build id of the agent. */
#ifndef SUPERVISOR_PROC_BINARIES_H
#define SUPERVISOR_PROC_BINARIES_H

#include "common/err/err.h"

#include <limits.h>

#define BUILD_ID_TEXT 41 /* hex digits of a 20-byte GNU build id, terminator */

struct binaries {
    char supervisor[PATH_MAX];    /* this executable */
    char agent[PATH_MAX];         /* brood-agent */
    char build_id[BUILD_ID_TEXT]; /* the agent's GNU build id */
};

/* The path (PATH_MAX bytes) of a file of this name: beside this executable or in libexec,
 * where `meson install` puts it. If it is in neither, the path beside. */
int binaries_beside(const char *name, char *ret, struct err *err);

/* The agent is beside brood, in ../agent (a build folder), or in libexec (installed).
 * ERR_NOT_FOUND names the places. */
int binaries_find(struct binaries *ret, struct err *err);

/* Opens the agent executable (close-on-exec) and returns the descriptor. Agents are started
 * from it, so that a rebuild does not affect a run that is in progress. */
int binaries_open_agent(const struct binaries *b, struct err *err);

#endif
