/* worker_link.h - the operations by which the table reaches a worker, wherever it runs.
 *
 * A worker is an agent or an environment process; the table (agent_table.h) decides what
 * happens to it and when. A link carries out these decisions: it starts the worker's processes, one
 * after another, passes frames, copies the variable block and reports the end. worker_local.c
 * implements links to processes of this machine. A second set of operations needs no change
 * to the table: agent_spec.site selects the set for each worker.
 *
 * Calls     come from the loop's thread and return at once. An operation may be called from
 *           within a callback of the same link; a callback never comes from within an
 *           operation. Operations on one worker take effect in the order of the calls.
 * Process   start ... on_exit. Between these two there is one process; after on_exit, and
 *           before the first start, there is none. Without a process,
 *           operations that need one do nothing or return the error stated below.
 * Exit      the end of a process is reported once, by on_exit, whatever the cause: it ended
 *           by itself, was killed, or the link to it was lost. The set calls it when
 *           the process can have no further effect: its last frames were delivered,
 *           everything that it started is dead, its block no longer changes. (This also
 *           holds for a set that lost its connection: the table starts the next process at
 *           once, and two processes would corrupt the block.) There is no deadline, but the
 *           run waits. The set fills in exit_code and signal before the call.
 * Broken    on_broken: the process runs but cannot be used any more (it sent garbage instead
 *           of a frame, or closed its end of the connection). The table kills it;
 *           on_exit follows.
 * Block     the variables of an agent, shared between the process and the set. It outlives
 *           processes: the next one finds what put or clear wrote there. Its length is known
 *           from the first hold or put on. Only agents have one: agent_spec.command is NULL.
 * Inside    whatever the set, a process finds its frames, block and experience log at the
 *           descriptors of protocol.h's enum agent_fd. Frames pass unchanged, but for the clock in
 *           `span` notifications, which must be that of this machine (CLOCK_MONOTONIC).
 * Errors    a negative code and a message without the worker's name, which the table adds.
 *           If start or an operation on the block fails, at once or later (on_failed), the
 *           worker fails for good; the only exception is UV_EAGAIN.
 */
#ifndef SUPERVISOR_PROC_WORKER_LINK_H
#define SUPERVISOR_PROC_WORKER_LINK_H

#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/capture.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct worker_link;

/* Implemented by the table. */
struct worker_link_callbacks {
    /* The process whose start returned without a pid has one now. Called before anything
     * else of it is reported. */
    void (*on_started)(void *worker);
    /* One whole message, without its length; borrowed for the call. */
    void (*on_message)(void *worker, const uint8_t *data, size_t len);
    void (*on_broken)(void *worker, const struct err *why);
    /* Start, hold, snapshot, put or clear, which had returned, has failed. */
    void (*on_failed)(void *worker, const struct err *why);
    void (*on_exit)(void *worker);
    /* The copy that snapshot did not wait for; borrowed for the call. */
    void (*on_copied)(void *worker, const void *bytes, size_t len_bytes);
};

/* What a silent process is doing, for the watchdog. */
struct worker_activity {
    char state;              /* as in proc(5): R, S, D, T, ... */
    unsigned long ticks;     /* of processor time so far */
    uint64_t resident_bytes; /* all memory that it has, shared one included; 0: unknown */
    uint64_t space_limit_bytes; /* of its address space; 0: none */
};

struct worker_link_ops {
    /* Before the table starts: creates the block and opens the log, but starts no process.
     * spec, cb: must outlive the link. */
    int (*open)(struct worker_site *site, const struct agent_spec *spec,
                const struct worker_link_callbacks *cb, void *worker,
                struct worker_link **ret, struct err *err);
    /* After the last on_exit, or if no process was started. */
    void (*close)(struct worker_link *l);

    /* ---- the process ---- */

    /* Starts a process; sets pid and is_running, exit_code to -1 and signal to 0. With pid 0,
     * on_started follows, or on_failed. If it fails, on_exit is still called later, with pid 0
     * if there never was a process. */
    int (*start)(struct worker_link *l, struct err *err);
    /* Sends a whole frame, including its length; borrowed for the call: bytes that cannot be
     * written at once are copied and queued. core: the processor core on which the process
     * should wake up, -1: any; a hint, which a set may ignore. Frames arrive in order, or
     * the process ends. ERR_STATE, UV_EPIPE, UV_ECONNRESET: the process is exiting; on_exit
     * follows and the table sends the frame to the next process. Any other error: the table
     * kills the process. */
    int (*send)(struct worker_link *l, const uint8_t *frame, size_t len, int core,
                struct err *err);
    /* Sends SIGTERM and SIGCONT in an orderly stop, any signal for agent_table_signal.
     * UV_ESRCH: there is no process. */
    int (*signal)(struct worker_link *l, int signum);
    /* Kills the process and its process group by SIGKILL. */
    void (*kill)(struct worker_link *l);
    /* Stops (1) or continues (0) the process and its group, as the terminal does. */
    void (*pause)(struct worker_link *l, int on);

    /* ---- the block ---- */

    /* Sets the length of the block as reported by the process; later snapshots have this
     * length. Called once, when the first process has answered `configure`, unless put was
     * called before. ERR_LIMIT: the machine cannot hold a block of that length and a copy.
     * UV_EAGAIN: the process is lost. */
    int (*hold)(struct worker_link *l, uint64_t len_bytes, struct err *err);
    /* Copies the block, as of the last response, into dst; len_bytes is its length. No
     * writing request is pending. If it fails, dst must be unchanged, because dst may hold
     * the only other copy. The table measures how long copies take and, where it has the
     * choice, asks for one only as often as costs 1 % of the time. Also called between on_exit
     * and the next start, for a process that was killed from outside. UV_EAGAIN: dst is
     * unchanged; a copy of these values follows (on_copied), or the process is lost
     * (is_block_lost, or on_exit). The copy is dropped without a callback by put, by clear, by
     * another call of snapshot, and if the process ends. The table then keeps the
     * writing requests since the last snapshot, and replays them to the next process; if it
     * may keep no more of them (replay.h), the last response waits for the copy. */
    int (*snapshot)(struct worker_link *l, void *dst, size_t len_bytes, struct err *err);
    /* Writes the block: the running process, which has no pending request, and the next one
     * find these values. Before the first start it also sets the length. src: borrowed for
     * the call. */
    int (*put)(struct worker_link *l, const void *src, size_t len_bytes, struct err *err);
    /* Zeroes the block for the next process; the length is unknown again. Called only while
     * no process runs. */
    int (*clear)(struct worker_link *l, struct err *err);

    /* ---- watching ---- */

    /* Private resident memory of the process in bytes (resident.h); -1: unknown. Called by
     * the watchdog at most every 20 ms and by `status`: must not wait for anything. */
    int64_t (*memory)(struct worker_link *l);
    /* Sets the configured limit, 0: none; called after every start and when it changes. A
     * set may let the kernel enforce it; the watchdog enforces it in any case. */
    void (*limit_memory)(struct worker_link *l, int64_t limit_bytes);
    /* Reports what a silent process is doing; called several times, to distinguish a busy
     * process from a hanging one. Must not wait for anything. Returns -1 if unknown; the process is
     * then not killed. */
    int (*activity)(struct worker_link *l, struct worker_activity *ret);
};

/* Where workers run. A set embeds this in a struct of its own. */
struct worker_site {
    const struct worker_link_ops *ops;
};

/* A set embeds this in a struct of its own and keeps it up to date; the table only reads, and
 * adds lines of its own to the log. */
struct worker_link {
    const struct worker_link_ops *ops;
    const struct worker_link_callbacks *cb;
    void *worker;   /* for the callbacks */
    pid_t pid;      /* of the newest process, for messages and to check its hello; 0: none
                       yet */
    int is_running; /* as far as is known, the newest process runs; becomes 0 some time
                       before on_exit */
    int exit_code;  /* of the process that exited; -1: a signal ended it */
    int signal;     /* 0: none */
    /* The machine that it runs on; NULL: this one. */
    const char *host;
    /* Which start of its node the newest process belongs to (node_protocol.h); 0: none. */
    uint64_t generation;
    /* The newest process was lost with its machine, or before it began: its end is no fault of
     * its own. */
    int was_lost;
    /* The block was lost with its machine: before the next start, the table puts the newest
     * snapshot, or clears the block. snapshot is then not possible (UV_EAGAIN). */
    int is_block_lost;
    /* What the process writes to stdout and stderr, also after on_exit, until the next start. */
    struct capture capture;
};

#endif
