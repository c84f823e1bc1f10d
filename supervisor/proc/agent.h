/* agent.h - one worker, an agent or an environment process: the link to its process, what
 * brings it back, and the request it owes. Internal to proc/: users see agent_table.h.
 *
 * Drives proc_fsm.h: what happens to the process becomes an event, and the actions the
 * state table answers with are done here, through the link (worker_link.h). What differs
 * between the two kinds stands in worker_kinds.c. What concerns all workers is asked of the
 * host.
 */
#ifndef SUPERVISOR_PROC_AGENT_H
#define SUPERVISOR_PROC_AGENT_H

#include "common/msg/frame.h"
#include "common/msg/protocol.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/proc_fsm.h"
#include "supervisor/proc/replay.h"
#include "supervisor/proc/restart_policy.h"
#include "supervisor/proc/worker_link.h"

#define AGENT_CONFIGURE_ID 0u /* requests are numbered from 1 */

struct agent;

/* Who computes: under NUMERICS_NATIVE equal for all processes of a run, or its numbers
 * would not be. */
struct agent_identity {
    int known;
    char build_id[128];
    char fingerprint[128];
};

/* The table, as one agent sees it. */
struct agent_host {
    uv_loop_t *loop;
    void *ctx;                      /* for agent_spec.pack_configure */
    struct agent_identity identity; /* of the first process that said hello */
    enum numerics numerics;
    void (*on_event)(struct agent_host *h, const struct agent_event *e);
    void (*on_ready)(struct agent *a);
    void (*on_failed)(struct agent *a, const struct err *report);
    void (*on_gone)(struct agent *a);
    void (*on_due)(struct agent_host *h); /* agent_due_ns of some agent has changed */
};

struct agent_death {
    enum agent_state in; /* what it was doing when it died or was killed */
    char task[96];       /* the request it owed, for people; "" */
    uint32_t request;    /* that may be guilty; 0: none */
};

struct agent_replayed { /* a request; its frame is borrowed until it is answered */
    uint32_t id;
    const uint8_t *frame;
    size_t frame_len;
};

struct agent_planned {
    struct agent_turn turn;
    uint8_t *values; /* that it goes back to; NULL: none, or not come by yet */
};

struct agent_pending {
    int active, writes;
    int aside; /* it does not count */
    int core;  /* on which it is to wake the process; -1: any */
    uint32_t id;
    const uint8_t *frame;
    size_t frame_len;
    agent_response_fn fn;
    void *ctx;
};

/* What differs between the kinds of worker. */
struct worker_kind {
    const char *noun; /* for people */
    /* It has a block, and times its answers for the recording. */
    int has_block;
    /* Checks its hello. ERR_AGENT: no process of this program can serve. */
    int (*check_hello)(struct agent *a, struct err *err);
    /* Takes what only the first response to configure says. */
    int (*take_description)(struct agent *a, struct err *err);
    /* The next request that brings a new process to where the former one stood; 0: it is
     * there. */
    int (*next_replay)(struct agent *a, struct agent_replayed *ret);
    /* Checks the answer to that. */
    int (*judge_replay)(struct agent *a, struct err *err);
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
    uint64_t position;           /* agent_turn.c */
    uint64_t round_position;     /* where the newest round began */
    struct agent_standing kept;  /* of agent_table_keep */
    struct agent_planned *turns; /* in the order of their positions */
    size_t n_turns;
    struct agent_death death; /* of the former process, or of this one, being killed */
    struct worker_link *link;
    struct replay replay;
    size_t n_replayed;           /* by this process */
    struct agent_replayed asked; /* what it replays now */
    uint32_t shutdown_id;

    /* A request is built in the first, or, to be refused, in the second. */
    struct msg_out out[2];
    struct msg_out control; /* configure, revival, shutdown */
    uint32_t next_id;
    int writes; /* the request under construction */
    int aside;
    int core; /* on which that is to wake the process; -1: any */
    struct agent_pending pending;

    struct { /* agent_trace.c: the newest request that was answered */
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
    struct restart_memory restarts;
    enum restart_event wish; /* KILLED, REPLACED: this process ends on request */
    int has_outgrown;        /* it is being killed for the memory that it takes */
    int is_blameless;        /* it is being killed for no doing of its request */
    uint64_t n_restarts;
    uint64_t start_due_ns;            /* of the next process; 0: none waits */
    uint64_t ready_at_ns, sent_at_ns; /* 0: not yet; the newest request */

    uint64_t heard_at_ns;        /* sign of life, or beginning of what it owes */
    int is_overdue;              /* it was too late at the last look; then: */
    unsigned long overdue_ticks; /* its processor time */
    struct err trouble;          /* why this process was killed by us, or what it said of
                                    its end */
    struct err failure;          /* why there will be no other */
};

int agent_init(struct agent *a, struct agent_host *host, struct worker_site *site,
               size_t index, const struct agent_spec *spec, struct err *err);
void agent_done(struct agent *a); /* an all-zero struct is fine */

void agent_feed(struct agent *a, enum proc_event event);
void agent_bad(struct agent *a, const struct err *why);   /* feeds BAD */
void agent_fatal(struct agent *a, const struct err *why); /* feeds FATAL */
/* Sends a frame; what does not reach a process that goes away is no error. */
void agent_write(struct agent *a, const uint8_t *frame, size_t len, int core);
uint32_t agent_take_id(struct agent *a); /* of a new request */

void agent_emit(struct agent *a, enum agent_event_kind kind);
void agent_emit_turn(struct agent *a, enum agent_event_kind kind,
                     const struct agent_turn *turn);

/* ---- agent_end.c: what follows the end of a process ---- */

/* The process exited, or is about to be killed: remembers what it was at. */
void agent_note_death(struct agent *a);
/* Counts the death, then starts another process, or waits, or gives up. */
void agent_judge(struct agent *a);
/* Tells the host, if the agent has failed. */
void agent_report(struct agent *a);
/* KILLED or REPLACED: ends its process on request. ERR_STATE if there is none. */
int agent_kill(struct agent *a, enum restart_event wish, struct err *err);
/* It has given up, and no process of it answers such a request any more. */
int agent_is_absent_for(const struct agent *a, int writes);
/* When agent_wake has something to do; UINT64_MAX: never. */
uint64_t agent_due_ns(const struct agent *a);
/* Starts another process, at once. */
void agent_start_again(struct agent *a);
/* Starts the process whose delay is over; answers for the one that is not there. */
void agent_wake(struct agent *a, uint64_t now_ns);

/* ---- agent_turn.c ---- */

/* The pending request is answered, or nobody answers it (absent). */
int agent_advance(struct agent *a, int absent, struct err *err);
/* Makes the turns that are due before the next request. */
void agent_take_turns(struct agent *a);
/* The last turn that is planned takes it back. */
int agent_is_coming_back(const struct agent *a);
void agent_stand(struct agent *a, const struct agent_standing *s);
void agent_take_back(struct agent *a);
void agent_plan_turn(struct agent *a, const struct agent_turn *turn);
void agent_free_turns(struct agent *a);

/* ---- agent_watch.c ---- */

/* It gave a sign of life, or was given something new to do. */
void agent_heard(struct agent *a);
/* So long nobody could be heard, for the supervisor was stopped itself. */
void agent_forgive(struct agent *a, uint64_t ns);
/* Kills it if it has been silent, or takes more memory, than its limits allow. */
void agent_watch(struct agent *a, uint64_t now_ns);
/* ---- agent_messages.c ---- */

/* Judges what the process sent, and feeds the event that it makes. */
void agent_handle_message(struct agent *a, const uint8_t *data, size_t len);
/* The request whose answer is awaited, for people: "learn of update 17". */
void agent_name_awaited(const struct agent *a, char *ret, size_t size);

/* ---- agent_trace.c: what is recorded of a worker for `brood trace` ---- */

/* Asks the process to time its answers, or no longer; one that is not there is ignored. */
void agent_trace(struct agent *a, int on);
/* The pending request was answered by the message being handled. */
void agent_trace_answer(struct agent *a);
/* The message being handled, a notification "span", says when the process worked. */
void agent_trace_span(struct agent *a);

/* ---- agent.c ---- */

/* The block as it is now. */
struct replay_block agent_block(struct agent *a);
int agent_snapshot(struct agent *a, struct err *err);
enum agent_state agent_public_state(const struct agent *a);

#endif
