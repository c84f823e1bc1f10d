/* agent_table.h - the workers of a run as everything above sees them: its agents, or the
 * processes that its environments run in.
 *
 * A request goes in, its response comes out, once, in order, whatever happens to the
 * process meanwhile: an agent that dies by a signal is started again with its newest
 * snapshot in its block, the writing requests since are replayed (answers compared by
 * hash with the first ones, and dropped), and the pending request is sent again. The
 * caller never learns of it, except through on_event.
 *
 * Kinds     a worker is an agent, or an environment process (agent_spec.command): that one
 *           has no block and describes itself as it likes, and the caller packs the requests
 *           that bring a new process to where the last one stood (agent_revival).
 * Where     agent_spec.site: the operations that the table links the worker by
 *           (worker_link.h): here (worker_local.h), or elsewhere.
 * Requests  at most one outstanding per agent (rounds are lock-step).
 * Snapshot  taken from the shared block after a writing response while the agent owes
 *           nothing, as long as that costs under 1 % of the time; the replay list is cut
 *           only when a newer snapshot is whole.
 * Give up   restart_policy.h decides when an agent is given up; its configuration, what
 *           follows. stop: on_failed with one report (agent, pid, signal or exit code, and
 *           its last log lines unless its own answer gives the reason). frozen: a process
 *           with its newest values goes on answering pure requests. noop: there is no
 *           process. A request that nobody answers gets an absent response. An error
 *           response is a failure. A frozen agent that is given up again becomes a noop.
 * Turns     a turn is a change of mode: a give-up, or the return to learning at the
 *           beginning of a round. Its position in the sequence of the agent's requests is
 *           in the event; a resumed run plans the turn at the same position, so that the
 *           same answers change.
 * Watchdog  an agent that owes an answer and gives no sign of life for respond_within (ten
 *           times as long where a busy machine gives it no processor), or takes more
 *           memory than its limit, is killed, which counts (restart_policy.h); one
 *           that was stopped from outside is not blamed for its request. Time that this
 *           process was itself stopped does not count.
 * Exit      a process's end is reported once, by AGENT_EVENT_EXIT, when nothing that it
 *           started is left either.
 * Stop      all agents under one deadline: shutdown message, SIGTERM (with SIGCONT),
 *           SIGKILL to the process group; on_stopped when every process has exited and every
 *           handle is closed.
 * Process   ignores SIGPIPE and is a child sub-reaper once a table of workers of this
 *           machine exists. When one exits, every child of this process that no table
 *           started is taken for an orphan.
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
    AGENT_REPLAYING,   /* writing requests since the snapshot */
    AGENT_IDLE,        /* owes nothing */
    AGENT_BUSY,        /* owes a response */
    AGENT_STOPPING,
    AGENT_GONE,    /* no process, and none will follow */
    AGENT_WAITING, /* no process now; the next one is delayed, or there is none (noop) */
    AGENT_STATE_COUNT,
};
const char *agent_state_name(enum agent_state s);

enum agent_event_kind {
    AGENT_EVENT_SPAWN,     /* pid */
    AGENT_EVENT_HELLO,     /* it lives, and is the right one: configure is next */
    AGENT_EVENT_READY,     /* hello and configure done, replay over */
    AGENT_EVENT_EXIT,      /* pid, exit_code or signal; expected or not */
    AGENT_EVENT_RESPAWN,   /* pid of the new process */
    AGENT_EVENT_WAIT,      /* delay_ms until the next process */
    AGENT_EVENT_GIVE_UP,   /* frozen or noop from now on; turn; text: why */
    AGENT_EVENT_TAKE_BACK, /* somebody asked for it: it will learn again; turn */
    AGENT_EVENT_TURNED,    /* a turn that was planned, or asked for, is made; turn */
};

/* What an agent does for the run. */
enum agent_mode {
    AGENT_LEARNS,
    AGENT_FROZEN, /* given up: answers pure requests only */
    AGENT_NOOP,   /* given up: answers nothing */
};
const char *agent_mode_name(enum agent_mode m); /* "learns", "frozen", "noop" */

struct agent_turn {
    enum agent_mode mode;
    uint64_t position; /* once so much was answered (agent_standing) */
    uint64_t lost;     /* FROZEN, NOOP: the effect of so many of the newest writing
                          requests, which no process could repeat */
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
    int failed;        /* EXIT: no other process follows; on_failed comes */
    const char *limit; /* EXIT: the key of the limit that we killed it for, or NULL */
    /* EXIT: why we killed it, or what it said of its end (`shutdown` was answered with an
     * error), or NULL; borrowed */
    const char *text;
    const char *lines; /* EXIT: what it wrote last (capture_last_lines); borrowed */
    const struct agent_turn *turn; /* borrowed */
};

/* What of its configuration concerns its process. */
struct agent_limits {
    struct restart_config restart;
    int64_t memory_limit_bytes; /* resident and its own; 0: none */
    double respond_within_s;    /* 0: any time */
};

/* How a new environment process gets to where the last one stood: by requests that the
 * caller packs, one after the other. */
struct agent_revival {
    /* Packs the i-th request, with this id, into o (msg_begin_request and one map).
     * Returns 0 if there are none left. */
    int (*pack)(void *ctx, size_t agent, size_t i, uint32_t id, struct msg_out *o);
    /* Judges its answer; an error is a failure. */
    int (*judge)(void *ctx, size_t agent, size_t i, const struct msg *response,
                 struct err *err);
    /* The pending request is sent, perhaps again: packs it anew, with this id, and returns
     * 1; or 0: it stays as it was. */
    int (*repack)(void *ctx, size_t agent, uint32_t id, struct msg_out *o);
};

struct agent_spec {
    struct worker_site
        *site; /* where it runs; NULL: here; borrowed as long as the table */
    const char *name;
    const char *role; /* "learner" or "central" */
    const char
        *log_path;      /* captured stderr is appended here; NULL: kept in memory only */
    const char *method; /* the first request: NULL: "configure"; "import" */
    /* Packs the params of that request as one map object; called at every (re)start, and
     * `restored` says what to put under that key. ctx is that of the callbacks. */
    void (*pack_configure)(void *ctx, size_t agent, int restored, struct msg_out *o);
    const struct agent_limits *limits; /* NULL: the configuration's defaults; copied */
    /* An external program, with its arguments (at most PROC_MAX_COMMAND, and a NULL),
     * and where it starts (NULL: here); borrowed. NULL: an agent. */
    const char *const *command;
    const char *mode; /* it is the agent executable itself, in this mode (proc_spec) */
    const char *directory;
    const struct agent_revival *revival; /* of such a program; NULL: it has no state */
    int is_trial; /* it is asked what it is, and ended: no policy of its limits' starts it
                     again */
};

struct agent_callbacks {
    void (*on_event)(void *ctx, const struct agent_event *e);
    /* All agents have answered configure: their descriptions can be looked up. */
    void (*on_ready)(void *ctx);
    void (*on_failed)(void *ctx, size_t agent, const struct err *report);
    void (*on_stopped)(void *ctx);
    void *ctx; /* of these, of pack_configure and of the revival */
};

/* agent_exe_fd: the agent executable, opened once; every agent of this machine runs from it
 * (borrowed). log_fd: read-only descriptor of the experience log, or -1 (borrowed).
 * ERR_LIMIT: so many take more open files than are allowed. */
int agent_table_new(struct agent_table **ret, uv_loop_t *loop, int agent_exe_fd,
                    int log_fd, const struct agent_spec *specs, size_t n,
                    const struct agent_callbacks *cb, struct err *err);
/* Before the start. Under NUMERICS_NATIVE every process must be of the build and of the
 * numeric fingerprint of the first; under NUMERICS_PORTABLE, as they begin, its numerics
 * version is enough. */
void agent_table_set_numerics(struct agent_table *t, enum numerics numerics);
/* Before the start: the agent finds these bytes in its block and in `configure` "restored".
 * A process whose block has another size is a failure. ERR_LIMIT, ERR_NOMEM, -errno. */
int agent_table_preload(struct agent_table *t, size_t agent, const void *block,
                        size_t block_bytes, struct err *err);
/* Spawns all. A failed spawn is reported through on_failed. */
int agent_table_start(struct agent_table *t, struct err *err);

/* The response to `configure` as first given; body is valid as long as the table. */
const struct msg *agent_table_description(const struct agent_table *t, size_t agent);

/* Hash of what differs between machines in the agents' processes, as hex; once the table
 * is ready. */
const char *agent_table_fingerprint(const struct agent_table *t);

typedef void (*agent_response_fn)(void *ctx, size_t agent, const struct msg *response);

/* Nobody answered, for the agent was given up (see Ends): the body is nil. */
static inline int agent_response_is_absent(const struct msg *response)
{
    return response->body.type == MSGPACK_OBJECT_NIL;
}

/* A request under construction: pack the params as one map, then send. One per agent,
 * owned by the table. method is recorded; writes says if it is a writing one. */
struct msg_out *agent_request_begin(struct agent_table *t, size_t agent,
                                    const char *method, int writes);
/* The request under construction is to wake the agent on that processor core (a number of
 * sched_setaffinity(2)), from where the kernel may move it as any process. A wish: that it
 * cannot be met is no error. */
void agent_request_on(struct agent_table *t, size_t agent, int core);
/* The request under construction, which must not be a writing one, does not count in the
 * row of the agent's requests: a resumed run may make it elsewhere, or not at all. */
void agent_request_aside(struct agent_table *t, size_t agent);
/* The callback runs once, later, from the loop; the response is borrowed for the call.
 * An error response is not delivered: it is a failure. ERR_STATE if one is outstanding.
 */
int agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                       void *ctx, struct err *err);

/* The newest values of the agent's block, consistent with everything answered so far;
 * *ret is valid until the agent's next writing response. ERR_STATE while a writing
 * request is outstanding, unless the agent has failed and never answers it. UV_EAGAIN
 * while a new process replays requests, or when its link cannot copy the block now: ask
 * again when it is ready. */
int agent_table_block(struct agent_table *t, size_t agent, const void **ret,
                      size_t *ret_len, struct err *err);

/* Keeps the values of all blocks as they are now, beside newer ones, until it is called
 * again; nobody owes the answer to a writing request. An agent for which that would cost
 * more than 1 % of the time is left out. */
void agent_table_keep(struct agent_table *t);
/* The values kept; as agent_table_block. ERR_STATE: it was left out. */
int agent_table_kept(struct agent_table *t, size_t agent, const void **ret,
                     size_t *ret_len, struct err *err);

/* While on, the agents time their answers for the recording (supervisor/trace/trace.h). */
void agent_table_trace(struct agent_table *t, int on);

/* Orderly end of all; deadline for everything together. Idempotent; a shorter deadline
 * replaces a longer one. now: SIGKILL at once. */
void agent_table_stop(struct agent_table *t, uint64_t deadline_ms);
/* After on_stopped, or when never started. */
void agent_table_free(struct agent_table *t);

/* As if from outside: whatever comes of it counts. */
int agent_table_signal(struct agent_table *t, size_t agent, int signum);
/* Kills every agent and whatever descends from this process, also processes of other
 * tables, and reaps it all: the last thing before this process exits, or its loop is
 * closed, without another turn of that. */
void agent_table_end(struct agent_table *t);
/* Stops (1) or continues (0) the processes of all tables, around a stop of this process. */
void agent_tables_pause(int on);
/* Ends the agent's process; its restart policy decides what follows, but nothing is
 * counted. ERR_STATE: it has none. */
int agent_table_kill(struct agent_table *t, size_t agent, struct err *err);
/* Replaces the agent's process, or starts the one that is being waited for, now.
 * ERR_STATE: the agent ends, or is a noop that nobody took back. */
int agent_table_respawn(struct agent_table *t, size_t agent, struct err *err);
/* From now on; a delay that runs already is not changed. */
void agent_table_set_limits(struct agent_table *t, size_t agent,
                            const struct agent_limits *limits);

/* ---- modes ---- */

/* What of an agent outlives this process beside its block. */
struct agent_standing {
    enum agent_mode mode;
    uint64_t position; /* in its requests: grows with every one that is answered */
};
/* As of now, or, kept, of the last agent_table_keep. */
void agent_table_standing(const struct agent_table *t, size_t agent, int kept,
                          struct agent_standing *ret);
/* It goes on from there: to be called before the first of these requests. A noop's process
 * ends. */
void agent_table_stand(struct agent_table *t, size_t agent,
                       const struct agent_standing *s);
/* A turn of the run that is resumed, to be made again; after agent_table_stand. */
void agent_table_plan_turn(struct agent_table *t, size_t agent,
                           const struct agent_turn *turn);
/* A given-up agent learns again from the next round on, with the values that it has then.
 * Nothing, for one that learns, or will. */
void agent_table_take_back(struct agent_table *t, size_t agent);
/* Its next request begins a round: a return to learning that was asked for happens now. */
void agent_table_begin_round(struct agent_table *t, size_t agent);

struct agent_info {
    const char *name;
    enum agent_state state;
    enum agent_mode mode;
    pid_t pid; /* 0: none */
    uint64_t restarts;
    int64_t rss_bytes; /* what it holds itself (resident.h); -1 unknown */
};
void agent_table_info(const struct agent_table *t, size_t agent, struct agent_info *ret);
size_t agent_table_count(const struct agent_table *t);
size_t agent_table_find(const struct agent_table *t,
                        const char *name); /* count if none */

#endif
