/* program.h - an agent that is a program of the user's.
 *
 * Everything that starts an agent (a run, a node, a trial, an evaluation) starts brood-agent.
 * It says hello and reads the first request. If that has the key "program" (protocol.h), it
 * goes on as that program: in the same process, with the same descriptors and limits, and
 * with the requests that it has read in the memfd AGENT_FD_REQUEST.
 *
 *   starts in    the run's copy of its files, if the run keeps one that can be reached from
 *                this machine, or that its node was sent (BROOD_PROGRAMS, node_programs.h):
 *                there, what was in the given directory is, and an absolute path
 *                to a file that was copied means the copy. Otherwise in the given directory.
 *                The first word, if it has a slash, may also be a path from the latter: the
 *                Python of a virtual environment is not copied
 *   environment  PATH, HOME, LANG=C, BROOD_*, BROOD_DIRECTORY (the given directory), the given
 *                variables; PYTHONPATH with the package `brood` in front (the run's copy of it,
 *                or the installed one), PYTHONHASHSEED=0, PYTHONDONTWRITEBYTECODE=1, one thread for
 *                OpenMP, MKL and OpenBLAS
 *   confined     as foreign environments are (CONFINE_ENVIRONMENT), and it can open files only
 *                for reading, and signal only what it started
 */
#ifndef AGENT_PROGRAM_H
#define AGENT_PROGRAM_H

#include "common/msg/msg.h"

/* Whether the request starts a program. */
int program_is_wanted(const struct msg *request);

/* frame: the bytes of that request, with what was read behind it. Returns only on failure:
 * ERR_CONFIG with the key "command" or "directory", ERR_PROTOCOL, -errno. */
int program_execute(const struct msg *request, const void *frame, size_t len,
                    struct err *err);

#endif
