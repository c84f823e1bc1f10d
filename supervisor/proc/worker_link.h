/* worker_link.h - what the table of processes asks of the place where a worker runs.
 *
 * A worker is an agent or an environment process; the table (agent_table.h) decides what
 * happens to it and when. A link carries that out: it starts the worker's processes, one
 * after another, passes frames, copies the variable block and reports the end. worker_local.c
 * has the links to processes of this machine. A second set of operations needs no change
 * to the table: agent_spec.site says by which set a worker is linked.
 *
 * Calls     come from the loop's thread and return at once unless an operation says
 *           otherwise. An operation may be called from within a callback of the same link;
 *           a callback never comes from within an operation.
 * Process   start ... on_exit. Between these two there is one process; after on_exit, and
 *           before the first start, there is none. Operations that need a process are
 *           ignored without one, or return what they say.
 * Exit      the end of a process is reported once, by on_exit, whatever the cause: it ended
 *           by itself, was killed, or the link to it was lost. The set calls it when nothing
 *           is left that could still act for the process: its last frames were delivered,
 *           everything that it started is dead, its block changes no more. (A set that
 *           lost its connection must be sure of that, too, before it calls: the table starts
 *           the next process at once, and two at work would spoil the block.) There is no
 *           deadline, but the run waits. Before it, the set fills exit_code and signal.
 * Broken    on_broken: the process runs, but nothing sensible will come from it (garbage
 *           instead of a frame, its end of the connection closed). The table kills it;
 *           on_exit follows.
 * Block     the variables of an agent, shared between the process and the set. It outlives
 *           processes: the next one finds what put or clear left there. Its length is known
 *           from the first hold or put on. Only agents have one: agent_spec.command is NULL.
 * Inside    a process finds its frames, block and experience log where protocol.h's enum
 *           agent_fd says, whatever the set. Frames pass unchanged, but for the clock in
 *           `span` notifications, which must be that of this machine (CLOCK_MONOTONIC).
 * Errors    a negative code with a text for people, without the worker's name, which the
 *           table adds. start and the operations on the block make the worker fail for
 *           good; UV_EAGAIN of snapshot is the only exception.
 */
#ifndef SUPERVISOR_PROC_WORKER_LINK_H
#define SUPERVISOR_PROC_WORKER_LINK_H

#include "supervisor/proc/agent_table.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct worker_link;

/* The table's side. */
struct worker_link_callbacks {
    /* One whole message, without its length; borrowed for the call. */
    void (*on_message)(void *worker, const uint8_t *data, size_t len);
    void (*on_broken)(void *worker, const struct err *why);
    void (*on_exit)(void *worker);
};

/* What an overdue process does, for the watchdog's message. */
struct worker_activity {
    char state;                 /* as in proc(5): R, S, D, T, ... */
    unsigned long ticks;        /* of processor time so far */
    uint64_t space_limit_bytes; /* of its address space; 0: none */
};

struct worker_link_ops {
    /* Before the table starts; makes the block, opens the log. spec, cb: borrowed as long as
     * the link. No process is started. */
    int (*open)(struct worker_site *site, const struct agent_spec *spec,
                const struct worker_link_callbacks *cb, void *worker,
                struct worker_link **ret, struct err *err);
    /* After the last on_exit, or without any start. */
    void (*close)(struct worker_link *l);

    /* ---- the process ---- */

    /* Starts a process; sets pid and is_running, exit_code to -1 and signal to 0. When that
     * fails, on_exit comes all the same, later, with pid 0 if no process was there at all. */
    int (*start)(struct worker_link *l, struct err *err);
    /* A whole frame, its length included; borrowed for the call: what cannot be written at
     * once is copied and queued. core: the processor core on which the process should wake
     * up, -1: any; a wish, which a set may ignore. Frames arrive in order, or the process
     * ends. ERR_STATE, UV_EPIPE, UV_ECONNRESET: it is going away; on_exit follows and the
     * table sends the frame to the next process. Any other error: it is killed. */
    int (*send)(struct worker_link *l, const uint8_t *frame, size_t len, int core,
                struct err *err);
    /* SIGTERM, SIGCONT in an orderly stop, anything for agent_table_signal. UV_ESRCH: there
     * is no process. */
    int (*signal)(struct worker_link *l, int signum);
    /* Ends the process and everything in its process group; nothing can refuse. */
    void (*kill)(struct worker_link *l);
    /* Stops (1) or continues (0) the process and its group, as the terminal does. */
    void (*pause)(struct worker_link *l, int on);

    /* ---- the block ---- */

    /* The process says that its block has that length: from now on the set copies so much.
     * Called once, when the first process has answered `configure`, unless put was called
     * before. ERR_LIMIT: the machine cannot hold a block of that length and a copy. */
    int (*hold)(struct worker_link *l, uint64_t len_bytes, struct err *err);
    /* Copies the block, as it is after the last answer, into dst; len_bytes is its length.
     * The process owes no answer to a writing request. All or nothing: when it fails, dst is
     * as before, for the only other copy may stand there. May take its time: the table
     * measures it and, where it has the choice, asks only as often as costs 1 % of the time.
     * Also called between on_exit and the next start, for a process that was killed from
     * outside. UV_EAGAIN: not now. The table then keeps the writing requests since the
     * last snapshot, which it sends to the next process. But a checkpoint then waits until
     * the worker becomes ready the next time, and where the values of this very moment are
     * needed (agent_turn.c) the worker fails: a set should rather wait for the bytes than
     * return this always. */
    int (*snapshot)(struct worker_link *l, void *dst, size_t len_bytes, struct err *err);
    /* Writes the block; the next process finds these values, and so does the one that runs
     * (it owes no answer). Also before the first start, when it sets the length. */
    int (*put)(struct worker_link *l, const void *src, size_t len_bytes, struct err *err);
    /* The next process finds zeros; the length is unknown again. No process runs. */
    int (*clear)(struct worker_link *l, struct err *err);

    /* ---- watching ---- */

    /* What the process holds itself (resident.h); -1: unknown. Called by the watchdog at
     * most every 20 ms and by `status`: answer from what is known, do not ask anybody. */
    int64_t (*memory)(struct worker_link *l);
    /* The limit of its configuration, 0: none; after every start and when it changes. A set
     * may have the kernel enforce it; the watchdog kills who is above it anyhow. */
    void (*limit_memory)(struct worker_link *l, int64_t limit_bytes);
    /* Called twice about a process that is overdue, to tell a busy one from a hanging one;
     * as memory. -1: unknown: it is not accused. */
    int (*activity)(struct worker_link *l, struct worker_activity *ret);
    /* What the process wrote last to stdout and stderr, as capture_last_lines has it; also
     * after on_exit, until the next start. */
    void (*last_lines)(const struct worker_link *l, char *ret, size_t size);
    /* Adds text to the worker's log, as if the process had written it. */
    void (*log)(struct worker_link *l, const char *text, size_t len);
};

/* Where workers run. A set embeds this in a struct of its own. */
struct worker_site {
    const struct worker_link_ops *ops;
};

/* A set embeds this in a struct of its own and keeps it up to date; the table reads. */
struct worker_link {
    const struct worker_link_ops *ops;
    const struct worker_link_callbacks *cb;
    void *worker;   /* for the callbacks */
    pid_t pid;      /* of the newest process, for people and to be compared with its
                       hello; 0: none yet */
    int is_running; /* the newest process runs, as far as is known: 0 some time before
                       on_exit */
    int exit_code;  /* of the process that exited; -1: it died by a signal */
    int signal;     /* 0: none */
};

#endif
