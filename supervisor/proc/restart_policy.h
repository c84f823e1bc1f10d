/* restart_policy.h - what follows the death of an agent's process: another one at once,
 * another one later, or none. A pure table, state x event; it knows no clock.
 *
 * Progress  a process gets somewhere when it completes a writing request that no earlier
 *           process had completed, or serves in health for RESTART_HEALTHY_MS. Its death
 *           is followed by another process at once and counts for nothing, and so do,
 *           from then on, the deaths before: what they died of has been overcome.
 * Count     of deaths without progress in between. More than max_restarts of them within
 *           `within` is the end; the second is followed by `delay`, which doubles from
 *           then on up to max_delay.
 * Memory    a death for too much of it counts, progress or not, and what gets done after it
 *           overcomes nothing until `within` has passed: memory takes its time.
 * Request   the third death in the midst of one request is the end, progress or not.
 * Exits     0 ends a transient agent; 100 ends any; 111 (no memory) is waited out, and
 *           counts whatever got done in between.
 *           A temporary agent is never started again, unless somebody asks for it.
 * Terms     permanent, transient, temporary, intensity and period: Erlang/OTP's
 *           supervisor; delay: systemd's RestartSec; exit codes: s6.
 * Units     nanoseconds of any clock that does not go back.
 */
#ifndef SUPERVISOR_PROC_RESTART_POLICY_H
#define SUPERVISOR_PROC_RESTART_POLICY_H

#include "common/config/run_config.h"

#include <stddef.h>
#include <stdint.h>

#define RESTART_HEALTHY_MS     1000u
#define RESTART_REQUEST_DEATHS 3u

enum restart_state {
    RESTART_DOWN,    /* no process was started yet */
    RESTART_TRYING,  /* one runs that has not got anywhere yet */
    RESTART_GETTING, /* one runs that has */
    RESTART_WAITING, /* the last one died; the delay runs */
    RESTART_OVER,    /* given up */
    RESTART_STATE_COUNT,
};

enum restart_event {
    RESTART_EV_STARTED,
    RESTART_EV_PROGRESS,
    RESTART_EV_CRASHED,  /* by a signal, an exit code of no meaning, or for misbehaving */
    RESTART_EV_POISONED, /* the same, as the third in the midst of one request */
    RESTART_EV_OUTGROWN, /* for taking more memory than it may */
    RESTART_EV_DONE,     /* exit code 0, though nobody had asked it to end */
    RESTART_EV_REFUSED,  /* exit code 100 */
    RESTART_EV_LATER,    /* exit code 111: it had no memory */
    RESTART_EV_KILLED,   /* on request, or from outside while it owed nothing and only
                            waited for others: the policy decides, nothing is counted */
    RESTART_EV_REPLACED, /* on request: another one, whatever the policy */
    RESTART_EV_DELAY_OVER,
    RESTART_EVENT_COUNT,
};

enum restart_action {
    RESTART_DO_NOTHING,
    RESTART_DO_START,   /* another process, at once */
    RESTART_DO_COUNT,   /* of the table alone: start, wait or give up, by the count */
    RESTART_DO_WAIT,    /* of a verdict alone: another process after the delay */
    RESTART_DO_GIVE_UP, /* none */
    RESTART_ACTION_COUNT,
};

enum restart_reason {
    RESTART_NO_REASON,
    RESTART_TOO_OFTEN,
    RESTART_ONE_REQUEST, /* killed it RESTART_REQUEST_DEATHS times */
    RESTART_ITS_WISH,    /* exit code 100 */
    RESTART_BY_POLICY,   /* transient or temporary */
};

struct restart_step {
    enum restart_state next;
    enum restart_action action;
    enum restart_reason reason; /* GIVE_UP only */
};

/* One cell. COUNT leaves open whether WAITING or OVER follows. An event that cannot come
 * in a state changes nothing there. */
struct restart_step restart_policy_step(enum restart_policy policy,
                                        enum restart_state state,
                                        enum restart_event event);

struct restart_memory {
    enum restart_state state;
    unsigned n_in_row; /* deaths since the last progress, whenever they were */
    uint32_t request;  /* the one it last died in; 0: none */
    unsigned n_request_deaths;
    int outgrown;        /* the newest deaths were for memory */
    uint64_t *deaths_ns; /* those that count, oldest first; private */
    size_t n_deaths, cap;
};

#define RESTART_MEMORY_ZERO ((struct restart_memory){0})

struct restart_verdict {
    enum restart_action action; /* never COUNT */
    enum restart_reason reason;
    uint64_t delay_ns; /* WAIT */
};

void restart_memory_done(struct restart_memory *m);
/* request: CRASHED or OUTGROWN, the one whose doing the death may be (0: none). */
struct restart_verdict restart_memory_feed(struct restart_memory *m,
                                           const struct restart_config *config,
                                           enum restart_event event, uint64_t now_ns,
                                           uint32_t request);

const char *restart_policy_name(enum restart_policy policy);

#endif
