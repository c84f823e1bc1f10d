/* proc.h - one process of this machine, from its spawn until its last handle is closed.
 * Used by worker_local.c alone.
 *
 * The process runs in a session of its own, with the descriptors of protocol.h's enum
 * agent_fd and nothing else but a clean environment. Messages travel on real pipes;
 * stdout and stderr go to the owner's capture. It is an agent, or an external program
 * that the agent executable prepares the ground for and becomes.
 *
 * Exit     on_exited when the kernel reports it; on_closed when also both streams are at
 *          their end of file and every handle is closed, or PROC_DRAIN_MS after the exit if a
 *          stream stays open.
 * Signals  by pidfd, so that none can hit a process that got an exited one's pid.
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
    void (*on_exited)(struct proc *p); /* exit_code and signal are set */
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
    int exited;    /* the kernel has reported its exit, or it was never started */
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
    int chan_eof, capture_eof;
    int closing;
    LIST_ENTRY(proc) entry; /* of those that run */
};

/* Started or not, on_closed comes in the end (on failure: with pid 0, or with a process
 * that is being killed). */
int proc_spawn(struct proc *p, uv_loop_t *loop, const struct proc_spec *spec,
               struct capture *capture, const struct proc_callbacks *cb, void *owner,
               struct err *err);
/* UV_ESRCH once it has exited. */
int proc_signal(struct proc *p, int signum);
/* SIGKILL to the process and all of its group; nothing once it has exited. */
void proc_kill(struct proc *p);
/* Is it a process that was started here, of whatever owner, and has not exited? */
int proc_is_known(pid_t pid);

#endif
