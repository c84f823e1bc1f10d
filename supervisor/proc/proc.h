/* proc.h - one child process, from its spawn until its last handle is closed.
 *
 * The process runs in a session of its own, with the descriptors of protocol.h's enum
 * agent_fd and nothing else but a clean environment. Messages travel on real pipes;
 * stdout and stderr go to the owner's capture. It is an agent, or a program of others'
 * that the agent executable prepares the ground for and becomes.
 *
 * Ends     a process is closed when it has been reaped and both its streams have ended,
 *          or PROC_DRAIN_MS after the first if a stream stays open.
 * Signals  by pidfd, so that none can hit a process that got a reaped one's pid.
 * Lifetime the struct is embedded in its owner, does not move, and may be used for the
 *          next process from on_closed on.
 * Threads  the main thread only: the agent's parent-death signal is tied to it.
 */
#ifndef SUPERVISOR_PROC_PROC_H
#define SUPERVISOR_PROC_PROC_H

#include "supervisor/chan/chan.h"
#include "supervisor/proc/capture.h"

#include <sys/queue.h>
#include <sys/types.h>
#include <uv.h>

/* How long an end may wait for its other half: streams for the exit, and back. */
#define PROC_DRAIN_MS  200
#define PROC_LINGER_MS 1000

struct proc;

struct proc_callbacks {
    void (*on_message)(struct proc *p, const uint8_t *data, size_t len);
    /* Nothing sensible will come any more, but the process goes on: kill it. */
    void (*on_broken)(struct proc *p, const struct err *err);
    void (*on_reaped)(struct proc *p); /* reaped: exit_code and signal are set */
    void (*on_closed)(struct proc *p);
};

#define PROC_MAX_COMMAND 64 /* words */

struct proc_spec {
    const char *name;
    int exe_fd;   /* at least AGENT_FD_COUNT: low numbers are taken in the child */
    int block_fd; /* becomes AGENT_FD_BLOCK; -1: none */
    int log_fd;   /* becomes AGENT_FD_LOG; -1: none */
    /* Instead of an agent: a program with its arguments, NULL-terminated, found by our
     * PATH; it has neither block nor log. Or NULL. */
    const char *const *command;
    /* That program is the agent executable, in this mode: `brood-agent MODE PARENT` and
     * the words of the command. Or NULL. */
    const char *mode;
    const char *directory; /* to start in; NULL: ours */
};

struct proc {
    void *owner;
    pid_t pid;     /* 0: none was started */
    int exited;    /* reaped */
    int exit_code; /* -1: it died by a signal, or runs */
    int signal;    /* 0: none */
    struct chan chan;

    const struct proc_callbacks *cb; /* private from here on */
    struct capture *capture;
    uv_process_t process;
    uv_timer_t timer;
    int pidfd;
    uint64_t pipe_marks[3]; /* of its pipes */
    int open_parts;         /* of timer, process, chan, capture */
    int has_process, has_chan, has_capture;
    int chan_ended, capture_ended;
    int closing;
    LIST_ENTRY(proc) unreaped;
};

/* Started or not, on_closed comes in the end (on failure: with pid 0, or with a process
 * that is being killed). */
int proc_spawn(struct proc *p, uv_loop_t *loop, const struct proc_spec *spec,
               struct capture *capture, const struct proc_callbacks *cb, void *owner,
               struct err *err);
/* UV_ESRCH once it is reaped. */
int proc_signal(struct proc *p, int signum);
/* SIGKILL to the process and all of its group; nothing once it is reaped. */
void proc_kill(struct proc *p);
/* To every process there is, of whatever owner, and all of its group: SIGSTOP and SIGCONT,
 * around a stop of this process. */
void proc_signal_all(int signum);
/* Is it a process that was started here and is not reaped yet? */
int proc_is_known(pid_t pid);

#endif
