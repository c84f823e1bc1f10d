/* run_status.h - the status of a run, live or over, and its only encoding: the result of
 * `status` on the control socket, and what every command shows or prints as JSON.
 *
 * Map      run, began?, state, done_why?, failure?, failure_agent?, failure_file?,
 *          failure_line?, stalled_since?, stalled_why?, exit_code?, pid,
 *          keeper_pid, round?, env_steps, episodes?, total_steps, total_episodes,
 *          steps_per_second, seconds_left?, elapsed_seconds, total_seconds, total_restarts?,
 *          checkpoint_step, team_return_mean?, returns: [{team, trained?, evaluated?}],
 *          exact, numerics?, not_portable?, learners?,
 *          agents and environments: [{name, pid, state, given_up?, restarts, rss_bytes, update?,
 *          last_exit?, host?, total_restarts, hangs, slow_answers, skipped_episodes,
 *          lost_seconds}], nodes: [{name, host?, state, agents?, restarts, pid, why?}],
 *          pending: [{key, value, at_step?, agent?}]. Keys with a question mark are nil if
 *          they are unknown.
 * New field a member of the struct and a row of the table in run_status.c.
 * Lifetime  plain data; the function that returns one defines how long its pointers live.
 */
#ifndef SUPERVISOR_EVENTS_RUN_STATUS_H
#define SUPERVISOR_EVENTS_RUN_STATUS_H

#include "supervisor/events/members.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The exit code of a run's process. */
enum run_exit {
    RUN_EXIT_DONE = 0,
    RUN_EXIT_FAILED = 1,
    RUN_EXIT_CONFIG = 2,      /* wrong configuration */
    RUN_EXIT_STOPPED = 4,     /* on request, before its end */
    RUN_EXIT_SIGNALLED = 128, /* + the signal that cut the run off, or killed it */
};

#define RUN_UNKNOWN MEMBER_NO_U64

/* What has happened to a process over the whole run. */
struct process_count {
    uint64_t restarts; /* processes in the place of former ones */
    uint64_t hangs;    /* ended for respond_within */
    uint64_t slow;     /* slow answers */
    uint64_t skipped;  /* of an environment: episodes that failed (env.on_failure) */
    double lost_s;     /* run_model.h */
};

struct run_agent_status {
    const char *name;
    const char *state;    /* agent_state_name; "gone" when the run is over */
    const char *given_up; /* "frozen", "noop"; NULL: it was not, or was reinstated */
    pid_t pid;            /* 0: none */
    uint64_t restarts;
    int64_t rss_bytes;     /* -1: not known */
    uint64_t update;       /* updates it has taken part in, or RUN_UNKNOWN */
    const char *last_exit; /* "SIGKILL", "code 3", "memory_limit"; NULL: never exited */
    const char *host;      /* the machine that it runs on; NULL: not known */
    struct process_count count; /* over the whole run; `restarts` is of this supervisor */
    double ended_unix; /* private to run_model.c: when the last process ended, if another
                          one is awaited; else 0 */
};

struct run_node_status {
    const char *name;  /* "node-2", as its log */
    const char *host;  /* as it calls itself, or as configured; NULL: not known */
    const char *state; /* cluster_info.state */
    uint64_t agents;   /* processes whose place it is, or RUN_UNKNOWN */
    uint64_t restarts; /* starts after the first */
    pid_t pid;         /* of `brood node`, on its machine; 0: it is not connected */
    const char *why;   /* why it was lost the last time; NULL: it never was */
};

/* A change of the configuration that was accepted and is not yet in force. */
struct run_pending {
    const char *key, *value; /* value "": the key is removed */
    uint64_t at;             /* step of the first round with it; or RUN_UNKNOWN */
    const char *agent;       /* it waits for the next respawn of this agent; or NULL */
};

/* A team's return, of the newest row, and of the newest evaluation; NaN: there was none. */
struct run_return {
    const char *team;
    double trained, evaluated;
};
#define RUN_RETURNS_MAX       16 /* teams; others are left out */
#define RUN_RETURN_TEXT_BYTES 256
#define RUN_DONE_WHY_BYTES    512 /* of done_why as it is printed */

/* All that `state` of a run can be, for people who look for some; ends with NULL. */
extern const char *const run_states[];

struct run_status {
    const char *run;
    const char *began; /* the time of its first event */
    /* Live: "starting", "running", "paused", "stopping", "suspended": its supervisor was stopped
     * by a signal, or "not answering": it hangs. Over: "done", "stopped" (on request), "cut off"
     * (by a second interrupt), "failed", or "killed": its supervisor recorded no end. What the
     * caller may not, or cannot read: "no permission", "unreadable". */
    const char *state;
    /* Why it ended, or is about to, before its length: the words of run.stop_when; or NULL. */
    const char *done_why;
    /* Why the newest supervisor gave up, in one line; NULL: it did not. Of whom, and where in its
     * program or configuration: NULL and RUN_UNKNOWN where that is not known. */
    const char *failure, *failure_agent, *failure_file;
    uint64_t failure_line;
    /* Suspended, or not answering: since when, as a time of the journal (NULL: not known), and what
     * it waits for (supervisor/proc/stall.h). Otherwise NULL. */
    const char *stalled_since, *stalled_why;
    int exit_code;         /* enum run_exit; -1: the run is live */
    pid_t pid, keeper_pid; /* 0: none */
    uint64_t round;        /* RUN_UNKNOWN: of a run that was killed */
    uint64_t env_steps, episodes;
    uint64_t total_steps,
        total_episodes;      /* the run's length: one of them, the other is 0 */
    double steps_per_second; /* smoothed; 0 when the run is over */
    double seconds_left;     /* at that speed (run_status_left); NaN: not known */
    double elapsed_s;        /* since this supervisor started */
    double total_s;          /* that all supervisors of the run together have run */
    uint64_t total_restarts; /* of all processes, under all supervisors */
    int64_t checkpoint_step; /* the newest complete one; -1: none */
    double team_return_mean; /* of the last row with finished episodes, over all teams,
                              * also if they play against each other; NaN: none */
    const struct run_return *returns; /* of each team */
    size_t n_returns;
    int exact; /* the run will end with the bytes of an undisturbed run. 0 once an agent
                  was given up: the bytes then depend on which process died, and when */
    const char *numerics; /* run.numerics; NULL: an older build's run */
    /* Why only this kind of machine gives these bytes: run.numerics is native, the
     * environment is external, or a graph calls libm. NULL: every machine with this
     * numerics version does (unknown before the agents are ready). */
    const char *not_portable;
    uint64_t
        learners; /* agents of the environment, each with a process; or RUN_UNKNOWN */
    const struct run_agent_status *agents; /* also of central and ps processes */
    size_t n_agents;
    const struct run_agent_status *environments; /* processes of an external one */
    size_t n_environments;
    const struct run_node_status *nodes; /* of a run with a cluster */
    size_t n_nodes;
    const struct run_pending *pending; /* of a live run, in the order of their steps */
    size_t n_pending;
};

/* Nothing is known of the run: all is unknown, zero or NULL, also its name and state. */
struct run_status run_status_unknown(void);
/* The completed part of the run, 0 to 1; -1 if its length is not limited. */
double run_status_part(const struct run_status *s);
/* The returns in one line: "-27.84" of one team, "adversary 4.25, agent -26.86" of several; where
 * there is none of training, "(evaluated -25.10)". "" if there are none. */
const char *run_status_returns(const struct run_status *s,
                               char ret[RUN_RETURN_TEXT_BYTES]);
/* Seconds until a live run gets to its length at its present speed. NaN: that is not known; it has
 * no length or no speed, or has not begun to learn in its first tenth, where it is much faster. */
double run_status_left(const struct run_status *s, int has_learned);
/* The state to show: "frozen" rather than "busy" for an agent that was given up. */
static inline const char *run_agent_shown_state(const struct run_agent_status *a)
{
    return a->given_up != NULL ? a->given_up : a->state;
}

/* Packs the list of pending changes, as run_status_pack does. */
void run_status_pack_pending(struct msg_out *o, const struct run_pending *list, size_t n);
/* Packs the status as one map. */
void run_status_pack(struct msg_out *o, const struct run_status *s);
/* Reads a map; keys that are missing or malformed are unknown. The arena owns all that
 * ret points to. */
void run_status_unpack(struct run_status *ret, const msgpack_object *map,
                       struct arena *arena);
/* Sets only ret->pending, from the list that the map has under `key`. */
void run_status_unpack_pending(struct run_status *ret, const char *key,
                               const msgpack_object *map, struct arena *arena);
void run_status_copy(struct run_status *ret, const struct run_status *from,
                     struct arena *arena);
/* Writes all pairs of the map, or those of n keys in the order of keys, into an object
 * that is open. */
void run_status_json(struct json *j, const struct run_status *s);
void run_status_json_some(struct json *j, const struct run_status *s,
                          const char *const *keys, size_t n);

/* The sum over all processes. */
struct process_count run_status_counts(const struct run_status *s);
void process_count_add(struct process_count *to, const struct process_count *c);
/* "28 restarts, 1 hang, 5 skipped episodes, 3.2 s lost"; "" if nothing has happened. Returns
 * ret. */
#define PROCESS_COUNT_TEXT_BYTES 160
const char *process_count_text(const struct process_count *c,
                               char ret[PROCESS_COUNT_TEXT_BYTES]);

/* Whether the run's processes are on more than one machine. */
int run_status_is_spread(const struct run_status *s);

#endif
