/* run_event.h - the events of a run: one typed stream, which the run sends (training_event)
 * to all readers: journal, live view, `run --json`, control socket.
 *
 * New kind  add a value to the enum, its fields to the union if no member has them, and a
 *           row to the table in run_event.c, which has its members, its readers, and how it
 *           changes what is known of the run.
 * Names     "give-up" in the journal; "give_up" in JSON and msgpack.
 * Lifetime  an event is borrowed for the call, and so is all it points to.
 */
#ifndef SUPERVISOR_EVENTS_RUN_EVENT_H
#define SUPERVISOR_EVENTS_RUN_EVENT_H

#include "common/err/err.h"
#include "common/log/log.h"
#include "supervisor/events/members.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/rollout/evaluation.h"

#include <sys/types.h>

enum run_event_kind {
    /* Beginning and end of a supervisor. */
    RUN_EVENT_START,     /* begin */
    RUN_EVENT_RESUME,    /* begin */
    RUN_EVENT_FORK,      /* name: of the run and checkpoint that the run begins with */
    RUN_EVENT_UNDER_WAY, /* the first round is over, or clients can drive agents */
    RUN_EVENT_DONE,      /* why: it ends before its length; the last round is over */
    RUN_EVENT_STOPPED,   /* the last round is over, on request */
    RUN_EVENT_FAILED,    /* failure */
    RUN_EVENT_END,       /* end; the last of a supervisor */
    RUN_EVENT_SUPERVISOR_EXIT, /* end; the keeper starts another one */
    /* The keeper writes these two. */
    RUN_EVENT_STALLS,  /* stall: the supervisor does not go on */
    RUN_EVENT_GOES_ON, /* stall: it does again */
    /* Whether its bytes are reproducible. */
    RUN_EVENT_INEXACT,      /* why: they differ from those of an undisturbed run */
    RUN_EVENT_EXACT,        /* why: another build or CPU, but the bytes are the same */
    RUN_EVENT_NOT_PORTABLE, /* why: only this kind of machine gives them */
    RUN_EVENT_WARNING, /* why: what an external environment does that is hardly meant */
    RUN_EVENT_OPENED,  /* why: which agent may do what besides, by its key `confine` */
    /* Its processes: agents, and those of an external environment. */
    RUN_EVENT_SPAWN,   /* process: pid */
    RUN_EVENT_HELLO,   /* process: pid; it sent its first message */
    RUN_EVENT_READY,   /* process: pid, replayed */
    RUN_EVENT_EXIT,    /* process: pid, signal or code, in, limit, seconds, why, lines */
    RUN_EVENT_SLOW,    /* process: pid, seconds; an answer took so long */
    RUN_EVENT_RESPAWN, /* process: pid of the new one */
    RUN_EVENT_WAIT,    /* process: delay_ms until the next one */
    RUN_EVENT_GIVE_UP, /* process: mode, position, lost, why */
    RUN_EVENT_REINSTATE, /* process: the same; it will learn again */
    RUN_EVENT_MODE,      /* process: mode; its mode has changed, or did so in a replay */
    RUN_EVENT_SKIP,      /* skip: an episode in which the environment fails is skipped */
    /* Its nodes (supervisor/node/cluster.h). */
    RUN_EVENT_NODE_START,   /* node: pid of what was launched, generation */
    RUN_EVENT_NODE_RESTART, /* node: the same, in the place of one that was lost */
    RUN_EVENT_NODE_CONNECT, /* node: pid of `brood node`, on its host */
    RUN_EVENT_NODE_UP,      /* node: it has what its processes need */
    RUN_EVENT_NODE_LOST,    /* node: why */
    RUN_EVENT_NODE_FENCE,   /* node: what was launched has ended */
    RUN_EVENT_NODE_WAIT,    /* node: delay_ms until the next start */
    RUN_EVENT_NODE_GIVE_UP, /* node: why; to: which other node takes its processes */
    /* Its configuration. */
    RUN_EVENT_SET,     /* change: accepted, takes effect at step `at` */
    RUN_EVENT_WAITS,   /* change: accepted, takes effect with a respawn of its agent */
    RUN_EVENT_CANCEL,  /* change: these pending changes were cancelled */
    RUN_EVENT_CHANGED, /* change: in force now */
    RUN_EVENT_REFUSED, /* error: an edited config.yaml was refused */
    /* Requests of users. */
    RUN_EVENT_PAUSE,
    RUN_EVENT_CONTINUE,
    RUN_EVENT_STOP,
    RUN_EVENT_SIGNAL, /* name */
    /* Its files. */
    RUN_EVENT_CHECKPOINT,        /* on the disk; env_steps is the checkpoint's */
    RUN_EVENT_CHECKPOINT_FAILED, /* error; env_steps is the checkpoint's */
    RUN_EVENT_FULL,              /* error: the disk is full, the run waits for space */
    RUN_EVENT_SPACE,             /* there is space again */
    RUN_EVENT_LOG_DROPPED,       /* the run is done, and its experience log was removed */
    RUN_EVENT_DELETED,           /* the run directory was deleted */
    /* Results and messages. */
    RUN_EVENT_ROW,        /* row */
    RUN_EVENT_EVALUATION, /* evaluation */
    RUN_EVENT_MESSAGE,    /* message: a line for people */
    RUN_EVENT_COUNT,
};

/* One of the two names is NULL. Unused fields are absent (run_event_process_init). */
struct run_event_process {
    const char *agent, *environment;
    pid_t pid;
    uint64_t replayed; /* requests; absent: none */
    int signal, code;  /* how it ended: one of the two */
    const char *in;    /* the state in which it ended */
    const char *limit; /* the key of the limit that it was killed for */
    const char *why;   /* why it was killed, or its own error message */
    const char *lines; /* the last lines of its output */
    uint64_t delay_ms;
    double
        seconds; /* spent on the request that it answered late, or ended in; NaN: none */
    const char *mode; /* agent_mode_name */
    uint64_t position, lost;
};

/* Unused fields are absent (run_event_node_init). */
struct run_event_node {
    const char *node, *host; /* "node-2"; host: NULL if it is not known */
    uint64_t generation;     /* number of the start, from 1 */
    pid_t pid;
    uint64_t delay_ms;
    const char *why, *to;
};

struct run_event {
    enum run_event_kind kind;
    char time[LOG_TIME_BYTES]; /* "2026-01-31T12:00:00.123Z" */
    uint64_t env_steps;
    union {
        const char *why, *error, *name;
        struct { /* of struct err */
            const char *error, *agent, *file;
            uint64_t line;
        } failure;
        struct {
            pid_t pid, keeper;
            const char *build, *numerics;
            int version;        /* of the numerics */
            const char *anyway; /* only read: how earlier builds wrote "inexact" */
        } begin;
        struct {
            const char *state; /* run_status.h */
            int code;          /* of the run's process */
            pid_t pid;
            uint64_t episodes, rounds, updates, restarts;
            double seconds, team_return;
            int signal; /* what killed the supervisor; the keeper writes it */
        } end;
        struct {
            pid_t pid;
            const char *since, *why; /* time of its last sign of life, stall_text */
        } stall;
        struct run_event_process process;
        struct run_event_node node;
        struct { /* struct env_skip */
            const char *environment;
            uint64_t copy, episode;
            int evaluation;
            uint64_t seed, at, sum; /* struct env_failure */
            const char *why;
        } skip;
        struct {
            uint64_t at;
            const char *changes; /* as of MEMBER_CHANGES */
        } change;
        const struct metrics_row *row;
        struct {
            const struct evaluation_result *result;
            const char *const *agents; /* [result->n_agents] */
        } evaluation;
        struct {
            const char *text;
            int error; /* something went wrong: shown also when quiet */
        } message;
    };
};

/* Sets the name; all other fields become absent. */
void run_event_process_init(struct run_event_process *p, const char *agent,
                            const char *environment);

/* Sets the failure; the event borrows the texts. */
void run_event_set_failure(struct run_event *e, const struct err *why);

void run_event_node_init(struct run_event_node *n, const char *node, const char *host);

/* The readers of a kind. */
enum run_event_reader {
    RUN_EVENT_IN_JOURNAL = 1,
    RUN_EVENT_COMMITTED =
        2,                 /* in the journal, and on the disk before the run continues */
    RUN_EVENT_PRINTED = 4, /* `run --json` */
    /* A run's record (facts/record.h): what users asked for; what died or failed. */
    RUN_EVENT_CHANGES_RUN = 8,
    RUN_EVENT_HAPPENS_TO_RUN = 16,
};
unsigned run_event_readers(enum run_event_kind kind); /* bits of run_event_reader */

struct run_model;
/* Folds the event into the model (run_model.h), whose kind may be RUN_EVENT_COUNT. Returns 0 if
 * it is left out of a run's record: nothing is new with it. */
int run_event_fold(struct run_model *m, const struct run_event *e);

/* The event's line in the journal, without the newline; free(). NULL: the journal does
 * not record this kind. */
char *run_event_line(const struct run_event *e);
/* Packs one map: {"time", "event", "env_steps", and the event's fields}. */
void run_event_pack(struct msg_out *o, const struct run_event *e);
/* Packs a row as one map: {"env_steps", "episodes", column: number...}. */
void run_event_pack_row(struct msg_out *o, const struct run_event *row);
/* Writes one object with the keys of run_event_pack. */
void run_event_json(struct json *j, const struct run_event *e);

/* The kind with this name in the journal; RUN_EVENT_COUNT: there is none. */
enum run_event_kind run_event_kind_of(const char *name);
/* Sets the fields of an event whose kind, ret->kind, is set. `find` returns the text of a
 * key (NULL: absent); ret borrows the texts. */
void run_event_parse(struct run_event *ret,
                     const char *(*find)(const void *ctx, const char *key),
                     const void *ctx);
/* The type of a key in the journal: that of the first kind with such a field; MEMBER_TEXT
 * if no kind has it. */
enum member_type run_event_type_of(const char *key);

#endif
