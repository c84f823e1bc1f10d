/* prepared.h - a process of a program that has imported what the program needs, and forks the
 * program's agents.
 *
 * To import a large library takes a second and some hundred megabytes. A prepared process does it
 * once; the agents that it forks begin within milliseconds and share its memory. It has one
 * thread, no graph, no session, no device: whatever an agent computes with begins after the
 * fork. One that has more threads refuses to be one.
 *
 *     prepared process        fork      child     fork      agent
 *           |  <- socket: descriptors ------------------------ |  its pid, by the kernel's word
 *           |                             exits               | is adopted by the supervisor
 *
 * Start    when the first agent of the program is to start, which waits for it.
 * Failure  agents are executed, as if there were none: if the program cannot be prepared, does
 *          not answer in time, or fails to fork. One that is killed, or dies later, is started
 *          anew with the next agent, three times.
 * Owner    worker_local.c, which gives the new processes to proc.h.
 * Threads  the main thread only.
 */
#ifndef SUPERVISOR_PROC_PREPARED_H
#define SUPERVISOR_PROC_PREPARED_H

#include "common/err/err.h"
#include "common/msg/prepared_msg.h"
#include "supervisor/proc/agent_table.h"

#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

struct prepared; /* opaque */

/* An agent that waits for its process. Embedded in its owner. */
struct prepared_wait {
    void *owner;                /* for the caller's use */
    int fds[PREPARED_FD_COUNT]; /* borrowed until the answer; the last may be -1 */
    /* One of the two is called, unless prepared_cancel is. */
    void (*on_born)(struct prepared_wait *w, pid_t pid);
    void (*on_none)(struct prepared_wait *w);
    TAILQ_ENTRY(prepared_wait) entry; /* private from here on */
    struct prepared *of;              /* NULL: it does not wait */
};

/* Starts nothing yet. exe_fd, program: must outlive it. sweep: kills the orphans that there are,
 * and returns their number. */
struct prepared *prepared_new(uv_loop_t *loop, int exe_fd,
                              const struct agent_program *program, size_t (*sweep)(void));
const struct agent_program *prepared_program(const struct prepared *p);
/* Whether processes can still be asked for. */
int prepared_is_usable(const struct prepared *p);
/* Asks for a process. Its answer comes from the loop, never from within this call. */
void prepared_ask(struct prepared *p, struct prepared_wait *w);
/* Forgets what was asked for. Returns 0 if that is too late: the answer is under way. */
int prepared_cancel(struct prepared_wait *w);

/* Kills the process. on_closed(ctx) follows when nothing of it is left, at once if nothing is.
 * Nobody waits any more. Then prepared_free. */
void prepared_close(struct prepared *p, void (*on_closed)(void *ctx), void *ctx);
void prepared_free(struct prepared *p);

#endif
