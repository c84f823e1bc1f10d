/* binaries.h - where the two executables are, and which build they are of. */
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

/* The path (PATH_MAX bytes) that a file of that name has, or would have, in the folder of
 * this executable. */
int binaries_beside(const char *name, char *ret, struct err *err);

/* The agent stands beside brood (installed) or in ../agent (a build folder).
 * ERR_NOT_FOUND names both places. */
int binaries_find(struct binaries *ret, struct err *err);

/* Opens the agent executable (close-on-exec): agents are started from this descriptor, so
 * that rebuilding never changes a live run. */
int binaries_open_agent(const struct binaries *b, struct err *err);

#endif
