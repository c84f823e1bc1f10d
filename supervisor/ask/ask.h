/* ask.h - starts some processes, sends them requests, and ends them.
 *
 *   ask_open()    spawns them and waits until each has responded to its first request
 *   ask_answer()  that response: an agent's description, a graph's, an environment's
 *   ask_wait()    waits for the responses to further requests (agent_table.h), until the
 *                 caller's callback calls ask_done()
 *   ask_close()   ends them, all under one deadline
 *
 * The processes have an event loop of their own, which runs only inside these calls: the
 * caller's loop, if it has one, does not run meanwhile. ask_close() must follow every
 * ask_open(), also one that failed; it leaves no process, descriptor or handle behind.
 *
 * Signals  in a supervisor, SIGINT and SIGTERM end the wait with ERR_INTERRUPTED; they stay
 *          pending (signals.h), so that the run stops as well.
 * Errors   the first failure counts: every later ask_wait() returns it. The error of a
 *          failed process is the report of agent_table.h (process, pid, how it ended, its
 *          last lines); the caller adds its own failures with ask_fail().
 * Threads  main thread: the processes' parent-death signal is tied to it.
 */
#ifndef SUPERVISOR_ASK_ASK_H
#define SUPERVISOR_ASK_ASK_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "supervisor/proc/agent_table.h"

#include <stddef.h>
#include <uv.h>

/* A process that takes longer to end is killed. */
#define ASK_END_WITHIN_MS 2000

struct ask; /* opaque */

struct ask_args {
    int agent_exe_fd;               /* of binaries_open_agent; borrowed for the call */
    const struct agent_spec *specs; /* [n]; copied, but not what they point to */
    size_t n;                       /* 0: the caller starts its own in ask_loop() */
    void *ctx;                      /* passed to their pack_configure */
};

/* If a signal that nobody here sent ends a process before it responds, which says nothing about
 * what it was asked, all are started anew, twice at most. Sets *ret even on failure, for
 * ask_close. */
int ask_open(struct ask **ret, const struct ask_args *args, struct err *err);
void ask_close(struct ask *a); /* NULL is fine */

/* The response of process i to its first request; valid until ask_close. */
const msgpack_object *ask_answer(const struct ask *a, size_t i);
/* 1 if a process failed; 0 if the supervisor could not start or serve it. */
int ask_process_failed(const struct ask *a);
/* 1 if that process died by a signal that the supervisor did not send. */
int ask_process_was_killed(const struct ask *a);

/* The table to send requests with, and the loop that delivers the responses. */
struct agent_table *ask_agents(const struct ask *a);
uv_loop_t *ask_loop(struct ask *a);

/* Runs the loop until ask_done() is called, or returns at once if it was called since the
 * last ask_wait(). */
int ask_wait(struct ask *a, struct err *err);
void ask_done(struct ask *a);
void ask_fail(struct ask *a, const struct err *why);

#endif
