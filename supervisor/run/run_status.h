/* run_status.h - where a run stands: what `brood status` shows and the control socket
 * answers.
 *
 * Plain data; who hands one out says how long its pointers live.
 */
#ifndef SUPERVISOR_RUN_RUN_STATUS_H
#define SUPERVISOR_RUN_RUN_STATUS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a run's process ends with. */
enum run_exit {
    RUN_EXIT_DONE = 0,
    RUN_EXIT_FAILED = 1,
    RUN_EXIT_CONFIG = 2,      /* wrong configuration */
    RUN_EXIT_STOPPED = 4,     /* on request, before its end */
    RUN_EXIT_SIGNALLED = 128, /* + signal that cut it off, or killed it */
};

#define RUN_UNKNOWN UINT64_MAX

struct run_agent_status {
    const char *name;
    const char *state;    /* agent_state_name; "gone" when the run is over */
    const char *given_up; /* "frozen", "noop"; NULL: it was not, or was taken back */
    pid_t pid;            /* 0: none */
    uint64_t restarts;
    int64_t rss_bytes;     /* -1: not known */
    uint64_t update;       /* updates it has taken part in; RUN_UNKNOWN */
    const char *last_exit; /* "SIGKILL", "code 3", "memory_limit"; NULL: it never ended */
};

/* A change of the configuration that is agreed and not yet in force. */
struct run_pending {
    const char *key, *value; /* value "": it will not be given any more */
    uint64_t at;             /* step of the first round that sees it; RUN_UNKNOWN: */
    const char *agent;       /* with the next respawn of this agent; otherwise NULL */
};

struct run_status {
    const char *run;
    /* Live: "starting", "running", "paused", "stopping", or "not answering": its
     * supervisor was stopped, or hangs. Over: "done", "stopped" (on request), "cut off"
     * (by a second interrupt), "failed", or "killed": its supervisor went without a word.
     */
    const char *state;
    int exit_code;         /* enum run_exit; -1: it lives */
    pid_t pid, keeper_pid; /* 0: none */
    uint64_t round;        /* RUN_UNKNOWN: of a run that was killed */
    uint64_t env_steps, episodes;
    uint64_t total_steps,
        total_episodes;      /* the run's length; the one that is no end: 0 */
    double steps_per_second; /* lately; 0 when it is over */
    double elapsed_s;        /* since this supervisor started */
    int64_t checkpoint_step; /* the newest complete one; -1: none */
    double team_return_mean; /* of the last row with finished episodes; NaN: none */
    int exact; /* the end will be that of an undisturbed run, byte for byte: not once an
                  agent was given up, for that depends on what died, and when */
    const char *numerics; /* run.numerics; NULL: an older build's run */
    /* Why its bytes are promised on this kind of machine only: run.numerics is native, an
     * environment is a program of others', a graph calls libm. NULL: they are those of
     * every machine of this numerics version (once it runs, which tells). */
    const char *not_portable;
    const struct run_agent_status *agents;
    size_t n_agents;
    const struct run_agent_status *environments; /* processes of a foreign one */
    size_t n_environments;
    const struct run_pending *pending; /* of a live run, in the order of their steps */
    size_t n_pending;
};

#endif
