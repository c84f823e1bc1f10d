/* agent_table.h - the workers of a run as the rest of the supervisor sees them: its agents,
 * or the processes that its environments run in.
 *
 * The caller sends a request and gets its response, exactly once and in order, whatever
 * happens to the process in between. When an agent's process dies by a signal, the table
 * starts another one with the newest snapshot in its block, replays the writing requests
 * since that snapshot (their responses must have the same hash as the first time), and
 * sends the pending request again. The caller only learns of it through on_event.
 *
 * Kinds     a worker is an agent or an environment process (agent_spec.command). The latter
 *           has no block, its description has no fixed form, and the caller packs the
 *           requests that restore its state in a new process (agent_revival).
 * Where     agent_spec.site selects the operations by which the table reaches the worker
 *           (worker_link.h): a process of this machine (worker_local.h), or elsewhere.
 * Requests  at most one outstanding per agent (rounds are lock-step).
 * Snapshot  copied from the shared block after the response to a writing request, while no
 *           request is pending, as long as copying takes under 1 % of the time. The replay
 *           list is cut only when a newer snapshot is complete.
 * Give up   restart_policy.h decides when an agent is given up, its configuration what
 *           follows. stop: on_failed with one report (agent, pid, signal or exit code, and
 *           its last log lines unless its own answer gives the reason). frozen: a process
 *           with its newest values continues to answer pure requests. noop: there is no
 *           process. A request that no process can answer gets an absent response. An
 *           error response is a failure, except of a request that may fail. A frozen agent
 *           that is given up again becomes a noop.
 * Mode      a mode change is a give-up, or the return to learning at the start of a round.
 *           The event contains its position in the sequence of the agent's requests. A
 *           resumed run plans the change at the same position, so that the same responses
 *           are affected.
 * Watchdog  the table kills an agent that has a pending request and gives no sign of life
 *           for respond_within (ten times as long if a busy machine gives it no processor
 *           time), or that exceeds its memory limit; such a death counts
 *           (restart_policy.h). If the process was stopped from outside, its request is not
 *           blamed. Time during which the supervisor itself was stopped does not count.
 * Exit      AGENT_EVENT_EXIT reports a process's exit once, when everything that it started
 *           has been ended, too.
 * Stop      all agents under one deadline: shutdown message, SIGTERM (with SIGCONT),
 *           SIGKILL to the process group; on_stopped when every process has exited and every
 *           handle is closed.
 * Process   once a table of workers of this machine exists, the supervisor ignores SIGPIPE
 *           and is a child sub-reaper. When a worker exits, every child of the supervisor
 *           that no table started is treated as an orphan.
 * Threads   loop thread = main thread (the parent-death signal is tied to it).
 */
#ifndef SUPERVISOR_PROC_AGENT_TABLE_H
#define SUPERVISOR_PROC_AGENT_TABLE_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "common/msg/msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct agent_table; /* opaque */
struct worker_site; /* worker_link.h */

enum agent_state {
    AGENT_STARTING,    /* spawned, hello awaited */
    AGENT_CONFIGURING, /* configure sent */
    AGENT_REPLAYING,   /* repeating the writing requests since the snapshot */
    AGENT_IDLE,        /* no request pending */
    AGENT_BUSY,        /* a request is pending */
    AGENT_STOPPING,
    AGENT_GONE,    /* no process, and none will follow */
    AGENT_WAITING, /* no process now; the restart is delayed, or the agent is a noop */
    AGENT_STATE_COUNT,
};
const char *agent_state_name(enum agent_state s);

enum agent_event_kind {
    AGENT_EVENT_SPAWN,        /* pid */
    AGENT_EVENT_HELLO,        /* acceptable hello received: configure is next */
    AGENT_EVENT_READY,        /* hello and configure done, replay over */
    AGENT_EVENT_EXIT,         /* pid, exit_code or signal; expected or not */
    AGENT_EVENT_RESPAWN,      /* pid of the new process */
    AGENT_EVENT_WAIT,         /* delay_ms until the next process */
    AGENT_EVENT_GIVE_UP,      /* frozen or noop from now on; change; text: why */
    AGENT_EVENT_REINSTATE,    /* the user asked for its return to learning; change */
    AGENT_EVENT_MODE_CHANGED, /* a planned or requested mode change is made; change */
    AGENT_EVENT_SLOW,     /* its answer took more than half of respond_within: busy_ns */
    AGENT_EVENT_COPYABLE, /* agent_table_block returned UV_EAGAIN, and may succeed now */
};

/* What an agent does for the run. */
enum agent_mode {
    AGENT_LEARNS,
    AGENT_FROZEN, /* given up: answers pure requests only */
    AGENT_NOOP,   /* given up: answers nothing */
};
const char *agent_mode_name(enum agent_mode m); /* "learns", "frozen", "noop" */

struct agent_mode_change {
    enum agent_mode mode;
    uint64_t position; /* at which it is made (see agent_resume_point) */
    uint64_t lost;     /* FROZEN, NOOP: how many of the newest writing requests have no
                          effect on the values, because no process could repeat them */
};

#define AGENT_LAST_LINES_BYTES 512

struct agent_event {
    enum agent_event_kind kind;
    size_t agent;
    pid_t pid;
    int exit_code;     /* -1 if it died by a signal */
    int signal;        /* 0 if it exited */
    int state;         /* enum agent_state in which it died */
    uint64_t replayed; /* READY: requests replayed */
    uint64_t delay_ms; /* WAIT */
    uint64_t
        busy_ns; /* SLOW; EXIT: time spent on the request during which it ended, or 0 */
    int failed;  /* EXIT: no other process follows; on_failed is next */
    const char *limit; /* EXIT: key of the limit for which we killed it, or NULL */
    /* EXIT: why we killed it, or the error with which it answered `shutdown`, or NULL;
     * borrowed */
    const char *text;
    const char *lines; /* EXIT: its last output (capture_last_lines); borrowed */
    const struct agent_mode_change *change; /* borrowed */
};

/* The part of an agent's configuration that concerns its process. */
struct agent_limits {
    struct restart_config restart;
    int64_t memory_limit_bytes; /* of private resident memory (resident.h); 0: none */
    double respond_within_s;    /* 0: no limit */
    int may_differ;             /* repeated requests may be answered differently */
};

/* Restores the state of a former environment process in a new one, by requests that the
 * caller packs one after the other. */
struct agent_revival {
    /* Packs request number i with this id into o (msg_begin_request and one map) and
     * returns 1; 0: there are no more. */
    int (*pack)(void *ctx, size_t agent, size_t i, uint32_t id, struct msg_out *o);
    /* Checks its response; an error makes the worker fail. */
    int (*check)(void *ctx, size_t agent, size_t i, const struct msg *response,
                 struct err *err);
    /* Called before the pending request is sent, perhaps for the second time: packs it
     * again with this id and returns 1; 0: the packed request is still right. */
    int (*repack)(void *ctx, size_t agent, uint32_t id, struct msg_out *o);
    /* The process died of the caller's request: `why`. Returns 1 if the caller has changed the
     * request (repack follows): the death is forgotten, and another process starts at once. 0:
     * the restart policy decides. is_last: it has decided, and the worker is given up unless
     * this returns 1. NULL: never. */
    int (*pardon)(void *ctx, size_t agent, int is_last, const struct err *why);
};

/* A program of which a process is prepared, from which agents are forked (prepared.h). */
struct agent_program {
    uint8_t *frame; /* the request `prepare`: equal ones are of the same program */
    size_t len;
};

struct agent_spec {
    /* Where it runs; NULL: on this machine. Must outlive the table. */
    struct worker_site *site;
    const char *name;
    const char *role; /* "learner", "central" or "ps" */
    /* Memory of the group that it shares parameters with (protocol.h: AGENT_FD_SHARED);
     * borrowed; 0: none. */
    int shared_fd;
    /* Captured stderr is appended to this file; NULL: kept in memory only. */
    const char *log_path;
    const char *method; /* of the first request; NULL: "configure", otherwise "import" */
    /* Packs the params of that request as one map; called at every (re)start. `restored` is
     * the value for the key of that name; ctx is that of the callbacks. */
    void (*pack_configure)(void *ctx, size_t agent, int restored, struct msg_out *o);
    const struct agent_limits *limits; /* NULL: the configuration's defaults; copied */
    /* NULL: an agent. Otherwise an external program with its arguments (at most
     * PROC_MAX_COMMAND words and a NULL). Borrowed. */
    const char *const *command;
    const char *mode; /* the program is the agent executable in this mode (proc_spec) */
    const char *directory; /* in which the program starts; NULL: ours; borrowed */
    /* Gets all that the process writes to stdout and stderr; NULL: nobody does. */
    void (*on_output)(void *ctx, const char *text, size_t len);
    void *output_ctx;
    const struct agent_revival *revival;  /* of such a program; NULL: it has no state */
    const struct agent_program *prepared; /* NULL: none is; borrowed */
    /* The folder of its program's files, RUN/programs/<hash>, which nodes get; NULL: it is no
     * program, or the run keeps none. It lives as long as the process. */
    const char *kept;
    int is_trial; /* started only to try it: never restarted */
};

struct agent_callbacks {
    void (*on_event)(void *ctx, const struct agent_event *e);
    /* All agents have answered configure: their descriptions can be looked up. */
    void (*on_ready)(void *ctx);
    void (*on_failed)(void *ctx, size_t agent, const struct err *report);
    void (*on_stopped)(void *ctx);
    void *ctx; /* for these, for pack_configure and for the revival */
};

/* agent_exe_fd: the agent executable, opened once; every agent of this machine runs from it
 * (borrowed). log_fd: read-only descriptor of the experience log, or -1 (borrowed).
 * ERR_LIMIT: n workers need more open files than this process may have. */
int agent_table_new(struct agent_table **ret, uv_loop_t *loop, int agent_exe_fd,
                    int log_fd, const struct agent_spec *specs, size_t n,
                    const struct agent_callbacks *cb, struct err *err);
/* Before the start. NUMERICS_NATIVE: every process must have the build id and the numeric
 * fingerprint of the first one. NUMERICS_PORTABLE, the default: the same numerics version
 * is enough. */
void agent_table_set_numerics(struct agent_table *t, enum numerics numerics);
/* Before the start: copies these bytes into the agent's block; `configure` then has
 * "restored". The agent fails if its block has another size. ERR_LIMIT, ERR_NOMEM, -errno. */
int agent_table_preload(struct agent_table *t, size_t agent, const void *block,
                        size_t block_bytes, struct err *err);
/* A number N: snapshots of all agents are due after N writing requests each, instead of when
 * copying costs little. For tests and benches of long replays. Read by agent_table_new. */
#define SNAPSHOT_VARIABLE "BROOD_SNAPSHOT_AFTER"
/* Keeps at most that many writing requests of an agent for its next process: a snapshot is
 * taken before there would be more. At least 1. */
void agent_table_limit_replay(struct agent_table *t, size_t agent, size_t max_requests);
/* Starts all workers. A failed start is reported through on_failed. */
int agent_table_start(struct agent_table *t, struct err *err);

/* The response to the first `configure`; its body is valid as long as the table. */
const struct msg *agent_table_description(const struct agent_table *t, size_t agent);

/* The agents' numeric fingerprint: a hash, in hex, of what differs between machines.
 * Known once the table is ready. */
const char *agent_table_fingerprint(const struct agent_table *t);

typedef void (*agent_response_fn)(void *ctx, size_t agent, const struct msg *response);

/* No process answered because the agent was given up (see Give up): the body is nil. */
static inline int agent_response_is_absent(const struct msg *response)
{
    return response->body.type == MSGPACK_OBJECT_NIL && response->error.code == 0;
}

/* Begins a request: pack the params as one map into the result, then send. One per agent,
 * owned by the table. writes: the request changes the agent's variables. */
struct msg_out *agent_request_begin(struct agent_table *t, size_t agent,
                                    const char *method, int writes);
/* Asks that the request under construction wake the agent on this processor core (numbered
 * as for sched_setaffinity(2)); the kernel may move the process afterwards. Only a hint:
 * failure is ignored. */
void agent_request_wake_on(struct agent_table *t, size_t agent, int core);
/* Does not count the request under construction, which must not be a writing one, in the
 * agent's position: a resumed run may send it elsewhere, or not at all. */
void agent_request_uncounted(struct agent_table *t, size_t agent);
/* The request under construction, which must not be a writing one, may fail without the agent: an
 * error response is delivered (msg.error). So is one that says why, if the request has ended its
 * process RESTART_REQUEST_DEATHS times; another process then takes the next request. */
void agent_request_may_fail(struct agent_table *t, size_t agent);
/* The callback runs once, later, from the loop; the response is borrowed for the call.
 * An error response is not delivered but makes the agent fail, unless the request may. ERR_STATE
 * if a request is already outstanding. */
int agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                       void *ctx, struct err *err);

/* The newest values of the agent's block, consistent with every response so far; *ret is
 * valid until the response to the next writing request. ERR_STATE while a writing request
 * is outstanding, unless the agent has failed and will never answer it. UV_EAGAIN while a
 * new process replays requests, or if the link cannot copy the block now: try again when
 * the agent is ready. */
int agent_table_block(struct agent_table *t, size_t agent, const void **ret,
                      size_t *ret_len, struct err *err);

/* Keeps a copy of the present values of all blocks until the next call. No writing request
 * may be outstanding. Leaves out agents for which the copy would cost more than 1 % of the
 * time. */
void agent_table_keep(struct agent_table *t);
/* The kept values; as agent_table_block. ERR_STATE: this agent was left out. */
int agent_table_kept(struct agent_table *t, size_t agent, const void **ret,
                     size_t *ret_len, struct err *err);

/* While on, the agents time their responses for `brood trace` (supervisor/trace/trace.h). */
void agent_table_trace(struct agent_table *t, int on);

/* Stops all workers in order, within one deadline for all. Idempotent; a shorter deadline
 * replaces a longer one. 0: SIGKILL at once. */
void agent_table_stop(struct agent_table *t, uint64_t deadline_ms);
/* After on_stopped, or if the table was never started. */
void agent_table_free(struct agent_table *t);

/* Sends a signal to the agent's process. A death from it counts, as if the signal came from
 * outside. */
int agent_table_signal(struct agent_table *t, size_t agent, int signum);
/* Kills and reaps every agent and every other descendant of this process, also processes
 * of other tables, but not programs of program.h. To be called last, when this process exits
 * or closes its loop without running the loop again. */
void agent_table_end(struct agent_table *t);
/* Stops (1) or continues (0) the processes of all tables, around a stop of this process. */
void agent_tables_pause(int on);
/* Kills the agent's process. Its restart policy decides what follows, but the death does
 * not count. ERR_STATE: there is no process. */
int agent_table_kill(struct agent_table *t, size_t agent, struct err *err);
/* Replaces the agent's process, or cuts short the restart delay. ERR_STATE: the agent is
 * being stopped, or is a noop whose return to learning was not requested. */
int agent_table_respawn(struct agent_table *t, size_t agent, struct err *err);
/* Changes the limits from now on; a running restart delay stays as it is. */
void agent_table_set_limits(struct agent_table *t, size_t agent,
                            const struct agent_limits *limits);

/* ---- modes ---- */

/* What a checkpoint has to store of an agent beside its block. */
struct agent_resume_point {
    enum agent_mode mode;
    uint64_t position; /* number that grows with every response (agent_mode.c) */
};
/* The present one, or (kept) that of the last agent_table_keep. */
void agent_table_get_resume_point(const struct agent_table *t, size_t agent, int kept,
                                  struct agent_resume_point *ret);
/* Takes the requests since the last agent_table_keep, none of which wrote and all of which
 * are answered, out of the positions: a resumed run makes them again. */
void agent_table_uncount(struct agent_table *t);
/* Sets the position alone, before the processes start: the agent is started, and described,
 * whatever its mode will be. */
void agent_table_set_position(struct agent_table *t, size_t agent,
                              const struct agent_resume_point *s);
/* Sets mode and position, before the first request of a resumed run. Ends the process of a
 * noop. */
void agent_table_resume_at(struct agent_table *t, size_t agent,
                           const struct agent_resume_point *s);
/* Plans a mode change that the original run made later on; after agent_table_resume_at. */
void agent_table_plan_mode_change(struct agent_table *t, size_t agent,
                                  const struct agent_mode_change *change);
/* Lets a given-up agent learn again from the next round on, with the values that it has
 * then. Ignored for an agent that learns or will learn again. */
void agent_table_reinstate(struct agent_table *t, size_t agent);
/* The agent's next request begins a round: makes a requested return to learning now. */
void agent_table_begin_round(struct agent_table *t, size_t agent);

struct agent_info {
    const char *name;
    enum agent_state state;
    enum agent_mode mode;
    pid_t pid; /* 0: none */
    uint64_t restarts;
    int64_t rss_bytes; /* private resident memory (resident.h); -1: unknown */
    const char *host;  /* the machine that it runs on; NULL: this one */
};
void agent_table_info(const struct agent_table *t, size_t agent, struct agent_info *ret);
size_t agent_table_count(const struct agent_table *t);
/* The agent's index; the count if there is none of that name. */
size_t agent_table_find(const struct agent_table *t, const char *name);

#endif
