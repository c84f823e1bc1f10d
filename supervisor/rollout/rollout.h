/* rollout.h - the driver: plays rounds and stages; knows no algorithm.
 *
 * Round    every agent acts for all E copies, every copy makes one step, E rows go into
 *          the log; then the updates that are due, at most one evaluation, one row of
 *          metrics, one checkpoint (schedule.h). All requests of a step go out at once;
 *          the next begins when every response is in hand.
 * Update   the list of stages that the learners declared: the same for all. An agent goes
 *          on to its next stage once what that reads is there, without waiting for others.
 * Agents   the table's first A are the environment's agents, in its order, as learners; a
 *          further one named "central", if there is one, runs the central stages.
 * Starts   when the table is ready (descriptions known); rollout_new describes the log,
 *          or checks the one that was opened. To resume: rollout_state_load before
 *          rollout_start.
 * Groups   G = 1: one batch for all. If an agent's settings say own_batches, G = A: every
 *          agent is sent all groups and group a is for agent a; so a proposal covers the
 *          rows of everybody.
 * Threads  loop thread only. Callbacks come from the loop; those of rollout_start and of
 *          requests made while paused may come from within the call.
 */
#ifndef SUPERVISOR_ROLLOUT_ROLLOUT_H
#define SUPERVISOR_ROLLOUT_ROLLOUT_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "common/msg/msg.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/evaluation.h"
#include "supervisor/store/store.h"

#include <stddef.h>
#include <stdint.h>

struct rollout; /* opaque */

struct rollout_progress {
    uint64_t round;     /* finished rounds */
    uint64_t env_steps; /* one is one joint step of one copy */
    uint64_t episodes;  /* finished */
    uint64_t updates;
    const char *state; /* "act", "update", ..., "paused", "done", "failed" */
    int is_midway;     /* something is left to do at the boundary (rollout_hold) */
};

enum { ROLLOUT_CHECKPOINT_WAITS = 1, ROLLOUT_CHANGE_WAITS = 1 };

struct rollout_callbacks {
    /* A row of metrics is closed; borrowed for the call. An error ends the run; on a full
     * disk (on_full) the same row comes again. */
    int (*on_row)(void *ctx, const struct metrics_row *row, struct err *err);
    /* A round boundary where a checkpoint is due (also at step 0 and at the end): all
     * blocks are consistent and nothing is outstanding. ROLLOUT_CHECKPOINT_WAITS: the
     * driver stays at this boundary until rollout_checkpoint_taken. An error ends the
     * run. */
    int (*on_checkpoint)(void *ctx, const struct rollout_progress *at, struct err *err);
    /* The round that begins now was planned to see a change (rollout_plan_change):
     * answered with rollout_change, or with 0. ROLLOUT_CHANGE_WAITS: the driver stays
     * until rollout_change_made. An error ends the run. May be NULL: nothing is planned.
     */
    int (*on_change)(void *ctx, const struct rollout_progress *at, struct err *err);
    /* The disk is full: why says whose file it was. The driver waits where it is until
     * rollout_try_again. NULL: that is an error like any other. */
    void (*on_full)(void *ctx, const struct err *why);
    /* The driver stands still at a boundary, as was asked; may be NULL. */
    void (*on_paused)(void *ctx, const struct rollout_progress *at);
    /* A boundary was reached, everything due is done; may be NULL. */
    void (*on_round)(void *ctx, const struct rollout_progress *at);
    void (*on_evaluation)(void *ctx,
                          const struct evaluation_result *result); /* or NULL */
    /* stopped: on request, before its end. The last of all callbacks, as on_failed is. */
    void (*on_done)(void *ctx, int stopped);
    void (*on_failed)(void *ctx, const struct err *err);
    void *ctx;
};

struct rollout_args { /* all borrowed until rollout_free */
    const struct run_config *config;
    struct agent_table *agents;
    struct vec_env *env;       /* training copies, just reset or loaded; not started */
    struct env_host *env_host; /* for foreign ones; may be NULL where there are none */
    struct store *store;       /* created, not yet described; or opened */
    struct metrics *metrics;
    uint64_t (*now_ns)(void); /* monotonic; NULL: uv_hrtime */
    size_t cores; /* so many agents compute at a time in an update; 0: all there are */
    struct rollout_callbacks callbacks;
};

/* Reads the agents' descriptions (stages, columns, carry) and describes the log.
 * ERR_PROTOCOL: they do not fit together, with the agent named. */
int rollout_new(struct rollout **ret, const struct rollout_args *args, struct err *err);
/* Begins: the environments' processes if there are any, the checkpoint of step 0, then
 * the first round. */
int rollout_start(struct rollout *r, struct err *err);
void rollout_free(struct rollout *r); /* agents must owe nothing, or be gone */

/* Honoured at the next round boundary; calling them again changes nothing. A stop ends
 * with a last row and a checkpoint, also out of a pause. */
void rollout_request_stop(struct rollout *r);
void rollout_request_pause(struct rollout *r);
void rollout_request_continue(struct rollout *r);
void rollout_request_checkpoint(struct rollout *r);
/* The checkpoint for which on_checkpoint made the driver wait is taken: on it goes. */
void rollout_checkpoint_taken(struct rollout *r);
/* After on_full: there may be space again; if not, on_full comes again. */
void rollout_try_again(struct rollout *r);

/* ---- runs without an environment (env.id none): rollout_serve.c ----
 *
 * Clients drive the agents; the driver keeps their requests in order, one at a time per
 * agent, and makes a boundary, once nobody is at work, when something is due or asked
 * for. A step is a writing request that was answered; a round, what lies between
 * boundaries.
 */

/* result: the body of the answer to `run` (protocol.h), borrowed for the call; or NULL
 * and why. */
typedef void (*rollout_run_fn)(void *ctx, const msgpack_object *result,
                               const struct err *why);
/* params: a map of feeds, fetches, targets as in `run` (protocol.h), copied; writing if
 * it has targets. fn comes later, once, from the loop. ERR_STATE, ERR_PROTOCOL,
 * ERR_LIMIT: then it does not come. */
int rollout_run(struct rollout *r, size_t agent, const msgpack_object *params,
                rollout_run_fn fn, void *ctx, struct err *err);
/* To be called now and then: a checkpoint by time may be due. */
void rollout_tick(struct rollout *r);

/* ---- changes of the configuration: rollout_change.c ---- */

/* The first step before which a change can still be made: that of the next round which
 * has not begun. */
uint64_t rollout_next_change_step(const struct rollout *r);
/* on_change is due before the first round that begins at `step` or after it; replaces
 * what was planned before. UINT64_MAX: nothing is. */
void rollout_plan_change(struct rollout *r, uint64_t step);
/* In on_change: the schedule is as `to` says from here on, and every agent is sent its
 * settings that are not as in `from`, a writing request. Returns what on_change is to
 * return; `to` is borrowed until the next change. Settings that an agent's algorithm has
 * no variable for mean nothing to it and are not sent. */
int rollout_change(struct rollout *r, const struct run_config *from,
                   const struct run_config *to, struct err *err);
/* The change for which on_change made the driver wait is made: on it goes. */
void rollout_change_made(struct rollout *r);

/* The table gave up on an agent, or the supervisor must end: no callback comes after
 * this, late responses are ignored. */
void rollout_abort(struct rollout *r);

void rollout_progress(const struct rollout *r, struct rollout_progress *ret);

/* What can be saved, also after a failure: the state that the driver is in, or failed in,
 * as it was when it began, together with these values of the agents' blocks. */
enum rollout_hold {
    ROLLOUT_HOLDS_NOTHING, /* that it could go on from */
    ROLLOUT_HOLDS_KEPT,    /* agent_table_kept */
    ROLLOUT_HOLDS_NEWEST,  /* agent_table_block: without an environment */
};
enum rollout_hold rollout_hold(const struct rollout *r);
/* Counters, what is left to do at the boundary, environment state, carry, metric
 * accumulators and the agents' standing (agent_table.h), for run.state; no clock inside.
 * malloc'd by save. load: before rollout_start. */
void rollout_state_save(const struct rollout *r, uint8_t **ret, size_t *ret_len);
int rollout_state_load(struct rollout *r, const uint8_t *data, size_t len,
                       struct err *err);
/* How far the run of such a state was. ERR_FORMAT. */
int rollout_state_progress(struct rollout_progress *ret, const uint8_t *data, size_t len,
                           struct err *err);

struct rollout_policy { /* of a frozen agent */
    const void *metagraph;
    size_t metagraph_bytes;
    const char *prefix; /* of the checkpoint with its values; NULL: they come otherwise */
};
/* The params of `configure` for the table's agent number `agent` (n_agents of the
 * environment: the central process), as one map: what agent_spec.pack_configure must do.
 * policy: NULL for an agent that makes its own. */
void rollout_pack_configure(const struct run_config *config, const struct env_spec *spec,
                            size_t agent, int restored,
                            const struct rollout_policy *policy, struct msg_out *o);

#endif
