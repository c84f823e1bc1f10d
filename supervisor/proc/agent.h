/* agent.h - one worker, an agent or an environment process: the link to its process, what
 * is needed to restart it, and its pending request. Internal to proc/: other folders use
 * agent_table.h.
 *
 * Drives proc_fsm.h: everything that happens to the process is turned into an event, and
 * this module performs the actions that the state table returns, through the link
 * (worker_link.h). worker_kinds.c has what differs between agents and environment
 * processes. What concerns all workers goes through struct agent_host.
 */
#ifndef SUPERVISOR_PROC_AGENT_H
#define SUPERVISOR_PROC_AGENT_H

#include "common/msg/frame.h"
#include "common/msg/protocol.h"
#include "common/wire/cursor.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/proc_fsm.h"
#include "supervisor/proc/replay.h"
#include "supervisor/proc/restart_policy.h"
#include "supervisor/proc/worker_link.h"

#define AGENT_CONFIGURE_ID 0u /* requests are numbered from 1 */

struct agent;

/* The build that computes. Under NUMERICS_NATIVE all processes of a run must have the same
 * identity, or their results would differ. */
struct agent_identity {
    int known;
    char build_id[128];
    char fingerprint[128];
};

/* The table, as one agent sees it. */
struct agent_host {
    uv_loop_t *loop;
    void *ctx;                      /* for agent_spec.pack_configure */
    struct agent_identity identity; /* of the first process that sent hello */
    enum numerics numerics;
    void (*on_event)(struct agent_host *h, const struct agent_event *e);
    void (*on_ready)(struct agent *a);
    void (*on_failed)(struct agent *a, const struct err *report);
    void (*on_gone)(struct agent *a);
    void (*on_due)(struct agent_host *h); /* agent_due_ns of some agent has changed */
};

struct agent_death {
    enum agent_state in; /* what it was doing when it died or was killed */
    char task[96];       /* the pending request, for messages; "" if none */
    uint32_t request;    /* id of the request that may have caused the death; 0: none */
};

struct agent_replayed { /* a replayed request; the frame is borrowed until its response */
    uint32_t id;
    const uint8_t *frame;
    size_t frame_len;
};

struct agent_planned_change {
    struct agent_mode_change change;
    uint8_t *values; /* the block's values to restore when the change is made; NULL: none,
                        or that position was not reached yet */
};

struct agent_pending {
    int active, writes;
    int uncounted; /* does not advance the agent's position */
    int may_fail;  /* agent_request_may_fail */
    int core;      /* processor core on which the process should wake up; -1: any */
    uint32_t id;
    const uint8_t *frame;
    size_t frame_len;
    agent_response_fn fn;
    void *ctx;
    int has_failed; /* may_fail: it is answered with request_failure */
};

/* What differs between the kinds of worker. */
struct worker_kind {
    const char *noun; /* for messages */
    /* Of the configuration, with its respond_within, also of one that is only tried; NULL: that
     * of the agent's name, and trials have a limit of their own. */
    const char *section;
    /* Has a variable block, and can time its responses for `brood trace`. */
    int has_block;
    /* Checks the hello. ERR_AGENT: restarting cannot help. */
    int (*check_hello)(struct agent *a, struct err *err);
    /* Reads what only the first response to configure contains. */
    int (*take_description)(struct agent *a, struct err *err);
    /* Fills in the next request that restores the state of the former process in a new one
     * and returns 1; 0: the state is restored. */
    int (*next_replay)(struct agent *a, struct agent_replayed *ret);
    /* Checks the response to that request. */
    int (*check_replay)(struct agent *a, struct err *err);
};
extern const struct worker_kind worker_is_agent, worker_is_environment;

struct agent {
    size_t index;
    const struct worker_kind *kind;
    char name[AGENT_NAME_MAX];
    struct agent_spec spec;
    struct agent_host *host;

    enum proc_state state;
    enum agent_mode mode;
    uint64_t position;                    /* see agent_mode.c */
    uint64_t round_position;              /* position at the start of the newest round */
    struct agent_resume_point kept;       /* of agent_table_keep */
    struct agent_planned_change *changes; /* planned mode changes, ordered by position */
    size_t n_changes;
    struct agent_death
        death; /* of the former process, or of this one while it is killed */
    struct worker_link *link;
    struct replay replay;
    struct { /* of the block, that the link makes */
        int is_under_way;
        size_t n_covered; /* of replay's requests, when it is complete */
        uint64_t asked_ns;
    } copy;
    struct wbuf answer; /* whose effect or description waits for that copy */
    int holds_back;     /* a mode change that is due waits for it, and so do requests */
    int is_block_whole; /* the process began with the newest values, and replays nothing */
    size_t n_replayed;  /* requests that this process has replayed */
    struct agent_replayed asked; /* the request that it replays now */
    uint32_t shutdown_id;

    /* Requests are built in out[0]; in out[1] while out[0] is in use, so that
     * agent_request_send can refuse the second request. */
    struct msg_out out[2];
    struct msg_out control; /* configure, revival, shutdown */
    uint32_t next_id;
    int writes; /* the request under construction */
    int uncounted, may_fail;
    int core; /* for that request; as in struct agent_pending */
    struct agent_pending pending;
    struct err request_failure; /* pending.has_failed */

    struct { /* agent_trace.c: the newest answered request */
        uint32_t id;
        uint64_t sent_ns, answered_ns;
        size_t bytes;
    } traced;

    struct msg in; /* the message being handled, and its bytes */
    const uint8_t *in_data;
    size_t in_len;

    struct msg description; /* response to the first configure */
    uint8_t *description_data;
    struct replay_digest description_digest;

    struct agent_limits limits;
    struct restart_history restarts;
    enum restart_event requested_end; /* KILLED, REPLACED: the user asked to end this
                                         process; RESTART_EV_STARTED: nobody did */
    int is_over_memory; /* the process is being killed for exceeding its memory limit */
    int was_refused; /* another process could not be started, for want of what may come back */
    int is_blameless; /* the process is being killed, but not because of its request */
    uint64_t n_restarts;
    uint64_t start_due_ns; /* when to start the next process; 0: no start is scheduled */
    uint64_t start_delay_ns; /* how long after the death that is */
    uint64_t ready_at_ns;    /* 0: not ready yet */
    uint64_t sent_at_ns;     /* the newest request; 0: none yet */

    uint64_t last_sign_ns;       /* last sign of life, or when its current work began */
    int is_sampled;              /* it was silent for half of its time, when it had: */
    uint64_t sampled_bytes;      /* resident memory */
    int is_overdue;              /* the last check found it overdue, with: */
    unsigned long overdue_ticks; /* the processor time it had used */
    struct err cause;            /* why we killed this process, or the error with which it
                                    answered `shutdown` */
    struct err failure;          /* why no other process follows */
};

int agent_init(struct agent *a, struct agent_host *host, struct worker_site *site,
               size_t index, const struct agent_spec *spec, struct err *err);
void agent_done(struct agent *a); /* an all-zero struct is fine */

void agent_feed(struct agent *a, enum proc_event event);
void agent_feed_bad(struct agent *a, const struct err *why);   /* feeds BAD */
void agent_feed_fatal(struct agent *a, const struct err *why); /* feeds FATAL */
uint32_t agent_take_id(struct agent *a); /* the id for a new request */

void agent_emit(struct agent *a, enum agent_event_kind kind);
void agent_emit_mode_change(struct agent *a, enum agent_event_kind kind,
                            const struct agent_mode_change *change);

/* ---- agent_end.c: what follows the exit of a process ---- */

/* Records what the process was doing when it exited, or when it is about to be killed. */
void agent_note_death(struct agent *a);
/* Counts the death, then starts another process, or waits, or gives up. */
void agent_decide_restart(struct agent *a);
/* Calls the host's on_failed if the agent has failed. */
void agent_report(struct agent *a);
/* Ends the process on request; `reason` is KILLED or REPLACED. ERR_STATE if there is none. */
int agent_kill(struct agent *a, enum restart_event reason, struct err *err);
/* The agent was given up and has no process that answers this kind of request. */
int agent_is_absent_for(const struct agent *a, int writes);
/* Its pending request is answered without a process: the agent was given up, or the request. */
int agent_answers_itself(const struct agent *a);
/* When agent_run_timers is next needed; UINT64_MAX: never. */
uint64_t agent_due_ns(const struct agent *a);
/* Starts a process, with its block prepared if that was lost. */
void agent_begin(struct agent *a);
/* Starts another process immediately. */
void agent_restart(struct agent *a);
/* Starts the process if its restart delay is over; if the agent is absent, delivers an
 * absent response to the pending request. */
void agent_run_timers(struct agent *a, uint64_t now_ns);

/* ---- agent_mode.c ---- */

/* Whether a planned change needs the values that the pending request has made. */
int agent_must_copy(const struct agent *a);
/* Ends the pending request and advances the position. absent: no process answered it. */
void agent_advance(struct agent *a, int absent);
/* Makes the mode changes that are due before the next request; holds_back is set if one
 * waits for a copy of the block. */
void agent_apply_mode_changes(struct agent *a);
/* The last planned mode change returns the agent to learning. */
int agent_will_learn_again(const struct agent *a);
void agent_resume_at(struct agent *a, const struct agent_resume_point *s);
void agent_reinstate(struct agent *a);
void agent_plan_mode_change(struct agent *a, const struct agent_mode_change *change);
void agent_free_mode_changes(struct agent *a);

/* ---- agent_watch.c ---- */

/* The process gave a sign of life, or got new work: its time to answer starts again. */
void agent_note_sign_of_life(struct agent *a);
/* The supervisor itself was stopped for `ns` nanoseconds: adds them to the deadline. */
void agent_extend_deadline(struct agent *a, uint64_t ns);
/* Kills the process if it was silent for longer, or takes more memory, than its limits
 * allow. */
void agent_watch(struct agent *a, uint64_t now_ns);

/* ---- agent_messages.c ---- */

/* Checks a message from the process and feeds the resulting event. */
void agent_handle_message(struct agent *a, const uint8_t *data, size_t len);
/* Names the pending request for messages: "learn of update 17". */
void agent_name_awaited(const struct agent *a, char *ret, size_t size);

/* ---- agent_trace.c: what `brood trace` records about a worker ---- */

/* Asks the process to start (1) or stop (0) timing its responses; ignored if there is no
 * process. */
void agent_trace(struct agent *a, int on);
/* Records that the message being handled answers the pending request. */
void agent_trace_answer(struct agent *a);
/* Records the interval of work in the message being handled, a "span" notification. */
void agent_trace_span(struct agent *a);

/* ---- agent.c ---- */

/* The agent's block, to be copied in its present state. UV_EAGAIN: the copy follows, or the
 * process is lost. */
struct replay_block agent_block(struct agent *a);
int agent_snapshot(struct agent *a, struct err *err);
/* Tells the log of a snapshot that was taken; request: the newest one whose effect it has. */
void agent_log_snapshot(const struct agent *a, uint32_t request);
/* Writes these values into the block; they are the newest snapshot, too, if it succeeds. */
int agent_put(struct agent *a, const struct replay_block *values, struct err *err);
/* Sends the pending request to a process that is idle, unless it is held back or the agent is
 * absent. */
void agent_send_pending(struct agent *a);
enum agent_state agent_public_state(const struct agent *a);

#endif
