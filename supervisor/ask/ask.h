/* ask.h - starts some processes to ask them one thing, and ends them.
 *
 *   ask_open()    spawns them and waits until each has answered its first request
 *   ask_answer()  that answer: an agent's description, a graph's, an environment's
 *   ask_wait()    waits for what is asked next (requests of agent_table.h), until the
 *                 caller's callback calls ask_done()
 *   ask_close()   ends them, all under one deadline
 *
 * The processes have an event loop of their own, which runs only inside these calls: the
 * caller's loop, if it has one, stands still meanwhile. ask_close() must follow every
 * ask_open(), also one that failed; it leaves no process, descriptor or handle behind.
 *
 * Errors   the first failure: that of a process is the report of agent_table.h (process,
 *          pid, how it ended, its last lines), that of others comes by ask_fail(). After
 *          one, every ask_wait() returns it.
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
    size_t n;
    void *ctx; /* of their pack_configure */
};

/* *ret is set in any case, for ask_close. */
int ask_open(struct ask **ret, const struct ask_args *args, struct err *err);
void ask_close(struct ask *a); /* NULL is fine */

/* What process i answered to its first request; valid until ask_close. */
const msgpack_object *ask_answer(const struct ask *a, size_t i);
/* Whether the failure is that of a process; if not, something was missing here. */
int ask_process_failed(const struct ask *a);

/* Whom to send requests to, and the loop that brings the answers. */
struct agent_table *ask_agents(const struct ask *a);
uv_loop_t *ask_loop(struct ask *a);

/* Runs the loop until ask_done() has been called, since the last ask_wait(). */
int ask_wait(struct ask *a, struct err *err);
void ask_done(struct ask *a);
void ask_fail(struct ask *a, const struct err *why);

#endif
