/* restart_policy.h - decides what follows the death of an agent's process: another process
 * at once, another one later, or none. A pure table, state x event; it reads no clock.
 *
 * Progress  a process makes progress when it completes a writing request that no earlier
 *           process had completed, or runs for RESTART_HEALTHY_MS. The death of a process
 *           that made progress does not count and is followed by another process at once;
 *           earlier deaths no longer count either, as their cause was overcome.
 * Count     counts deaths without progress in between. More than max_restarts of them
 *           within `within` is a give-up; the second one is followed by `delay`, which
 *           doubles from then on, up to max_delay. By default (delay 100 ms, 5 restarts), five
 *           deaths in a row are restarted after 0, 100, 200, 400 and 800 ms; the sixth is a give-up.
 * Memory    a death for exceeding the memory limit, or for want of memory (exit code 111), counts
 *           even after progress, and progress after it does not reset the count until `within`
 *           has passed, because memory use grows slowly.
 * Request   the third death during the same request is a give-up, progress or not; a SIGKILL from
 *           outside is not blamed on the request.
 * Exits     exit code 0 ends a transient agent; 100 ends any agent; 111 (no memory) is
 *           followed by a delay and counts even after progress.
 *           A temporary agent is restarted only if the user requests it.
 * Terms     permanent, transient, temporary, intensity and period: Erlang/OTP's
 *           supervisor; delay: systemd's RestartSec; exit codes: s6.
 * Units     nanoseconds of any monotonic clock.
 */
#ifndef SUPERVISOR_PROC_RESTART_POLICY_H
#define SUPERVISOR_PROC_RESTART_POLICY_H

#include "common/config/run_config.h"

#include <stddef.h>
#include <stdint.h>

#define RESTART_HEALTHY_MS     1000u
#define RESTART_REQUEST_DEATHS 3u

enum restart_state {
    RESTART_DOWN,       /* no process was started yet */
    RESTART_TRYING,     /* a process runs and has not made progress yet */
    RESTART_PROGRESSED, /* a process runs and has made progress */
    RESTART_WAITING,    /* the last process died; the delay runs */
    RESTART_OVER,       /* given up */
    RESTART_STATE_COUNT,
};

enum restart_event {
    RESTART_EV_STARTED,
    RESTART_EV_PROGRESS,
    RESTART_EV_CRASHED,     /* by a signal, an undefined exit code, or a protocol error */
    RESTART_EV_POISONED,    /* the same, for the third time during one request */
    RESTART_EV_OVER_MEMORY, /* killed for exceeding its memory limit */
    RESTART_EV_DONE,        /* exit code 0 without having been asked to exit */
    RESTART_EV_REFUSED,     /* exit code 100 */
    RESTART_EV_LATER,  /* exit code 111: it had no memory; or it could not be started for
                               want of memory, processes or descriptors */
    RESTART_EV_KILLED, /* on request, or from outside while it had no pending request, or
                            with its node: the policy decides, the death does not count */
    RESTART_EV_REPLACED, /* on request: another process follows, whatever the policy */
    RESTART_EV_DELAY_OVER,
    RESTART_EVENT_COUNT,
};

enum restart_action {
    RESTART_DO_NOTHING,
    RESTART_DO_START,   /* another process at once */
    RESTART_DO_COUNT,   /* only in the table: start, wait or give up, by the count */
    RESTART_DO_WAIT,    /* only in a verdict: another process after the delay */
    RESTART_DO_GIVE_UP, /* no other process */
    RESTART_ACTION_COUNT,
};

enum restart_reason {
    RESTART_NO_REASON,
    RESTART_TOO_OFTEN,
    RESTART_ONE_REQUEST,  /* RESTART_REQUEST_DEATHS deaths during one request */
    RESTART_BY_EXIT_CODE, /* exit code 100 */
    RESTART_BY_POLICY,    /* transient or temporary */
};

struct restart_step {
    enum restart_state next;
    enum restart_action action;
    enum restart_reason reason; /* GIVE_UP only */
};

/* Looks up one cell of the table. With COUNT, the caller decides between WAITING and OVER.
 * An event that is impossible in a state leaves the state unchanged. */
struct restart_step restart_policy_step(enum restart_policy policy,
                                        enum restart_state state,
                                        enum restart_event event);

struct restart_history {
    enum restart_state state;
    unsigned n_in_row; /* deaths since the last progress, regardless of time */
    uint32_t request;  /* during which the last death happened; 0: none */
    unsigned n_request_deaths;
    int over_memory;     /* the newest deaths were for exceeding the memory limit */
    uint64_t *deaths_ns; /* times of the deaths that count, oldest first; private */
    size_t n_deaths, cap;
};

#define RESTART_HISTORY_ZERO ((struct restart_history){0})

struct restart_verdict {
    enum restart_action action; /* never COUNT */
    enum restart_reason reason;
    uint64_t delay_ns; /* WAIT */
};

void restart_history_done(struct restart_history *m);
/* Records the event and decides. request: for CRASHED, OVER_MEMORY and DONE, the id of the
 * request that may have caused the death (0: none). */
struct restart_verdict restart_history_feed(struct restart_history *m,
                                            const struct restart_config *config,
                                            enum restart_event event, uint64_t now_ns,
                                            uint32_t request);

const char *restart_policy_name(enum restart_policy policy);

#endif
