/* proc.h - one process of this machine, from its spawn until its last handle is closed.
 * Used by worker_local.c alone.
 *
 * The process runs in a session of its own, with a clean environment and only the
 * descriptors of protocol.h's enum agent_fd. Messages travel on real pipes; stdout and
 * stderr go to the owner's capture. The process is an agent, or an external program that
 * the agent executable executes after setting up its process.
 *
 * Origin   proc_spawn executes it. A process that another one of this run has forked
 *          (prepared.h) is given its streams by proc_expect and joins by proc_adopt.
 * Exit     on_exited when the kernel reports it; on_closed when, in addition, both streams
 *          reached end of file (or PROC_DRAIN_MS passed since the exit) and every handle is
 *          closed.
 * Signals  are sent by pidfd, so that they cannot hit another process that got the same pid.
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

/* How long the streams may stay open after the exit, and how long the exit may take after
 * the streams were closed. */
#define PROC_DRAIN_MS  200
#define PROC_LINGER_MS 1000

struct proc;

struct proc_callbacks {
    void (*on_message)(struct proc *p, const uint8_t *data, size_t len);
    /* The process runs but sends garbage or closed its pipe: the owner should kill it. */
    void (*on_broken)(struct proc *p, const struct err *err);
    void (*on_exited)(struct proc *p); /* exit_code and signal are set */
    void (*on_closed)(struct proc *p);
};

#define PROC_MAX_COMMAND 64 /* words */

struct proc_spec {
    const char *name;
    int exe_fd;    /* at least AGENT_FD_COUNT: low numbers are taken in the child */
    int block_fd;  /* becomes AGENT_FD_BLOCK; -1: none */
    int log_fd;    /* becomes AGENT_FD_LOG; -1: none */
    int shared_fd; /* becomes AGENT_FD_SHARED; -1: none */
    /* NULL: an agent. Otherwise a program, found by our PATH, with its arguments,
     * NULL-terminated; it has neither block nor log. */
    const char *const *command;
    /* NULL, or the program is the agent executable in this mode: it is started as
     * `brood-agent MODE PARENT` followed by the words of the command. */
    const char *mode;
    const char *directory; /* working directory; NULL: ours */
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
    uv_poll_t watch; /* of pidfd */
    uv_timer_t timer;
    int pidfd;
    int ends[3];    /* of the process that is expected: see proc_expect; -1 */
    int open_parts; /* number of open ones of timer, watch, chan, capture */
    int has_watch, has_chan, has_capture;
    int chan_eof, capture_eof;
    int is_looking; /* an adopted process has ended, and is no child yet: the timer looks */
    int closing;
    LIST_ENTRY(proc) entry; /* in the list of running processes */
};

/* Starts the process. on_closed is called in the end even if the start fails (then with pid
 * 0, or with a process that is being killed). */
int proc_spawn(struct proc *p, uv_loop_t *loop, const struct proc_spec *spec,
               struct capture *capture, const struct proc_callbacks *cb, void *owner,
               struct err *err);

/* Opens the streams of a process that is still to come. p->ends are what it reads messages
 * from, what it writes messages to, and its stdout and stderr; borrowed. Then follows one of the
 * next three. on_closed is called in the end even if this fails. */
int proc_expect(struct proc *p, uv_loop_t *loop, struct capture *capture,
                const struct proc_callbacks *cb, void *owner, struct err *err);
/* It is this process, which has been started with the ends, and which is or will soon be a
 * child of this one. If it fails, the process is not known, and proc_forget must follow. */
int proc_adopt(struct proc *p, uv_loop_t *loop, pid_t pid, struct err *err);
/* It is started here after all. If it fails, proc_forget must follow. */
int proc_spawn_expected(struct proc *p, uv_loop_t *loop, const struct proc_spec *spec,
                        struct err *err);
/* None comes: on_closed follows. */
void proc_forget(struct proc *p);

/* UV_ESRCH once it has exited. */
int proc_signal(struct proc *p, int signum);
/* Sends SIGKILL to the process and its group; does nothing once it has exited. */
void proc_kill(struct proc *p);
/* Whether pid is a process that was started here, for any owner, and has not exited. */
int proc_is_known(pid_t pid);

#endif
