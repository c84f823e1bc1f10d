/* rollout.h - the driver of training: steps environments and agents through rounds and
 * updates. It does not know any algorithm.
 *
 * Round    every agent acts for all E copies, every copy makes one step, and E rows are
 *          appended to the log; then come the updates that are due, and at most one
 *          evaluation, one row of metrics and one checkpoint (due.h). All requests
 *          of a step are sent at once; the next step begins when all are answered.
 * Update   runs the stages that the groups of learners declared (learning_groups.h,
 *          update_plan.h). Each group has its own rows, warm-up, interval and count of
 *          updates; if several are due at a boundary, an update has the stages of all, one
 *          group after the other. An agent starts its next stage as soon as that stage's
 *          inputs exist; it does not wait for the other agents.
 * Agents   the table's first A are the environment's agents, in its order, as learners; a
 *          further one named "central", if there is one, runs the central stages; then
 *          come the ps processes of the groups that share parameters (sharing.h).
 * Starts   when the table is ready (descriptions known); rollout_new writes the header of
 *          a new log, or checks that of an existing one. To resume a run, call
 *          rollout_state_load before rollout_start.
 * End      the boundary at which the run's length is reached (run_length.h), or whose evaluation
 *          ends it by run.stop_when (verdict.h).
 * Batches  G = 1: one batch for all agents of a group. If a member's settings have
 *          own_batches, G = A: every agent is sent all batches, so that its proposals cover
 *          the rows of all agents; agent a learns only from its own batch, batch a.
 * Resume   the state has each group's count of updates, and its updates still due at the
 *          boundary: a run that ended in an update plays it again from its beginning.
 * Threads  loop thread only. Callbacks come from the loop; those of rollout_start and of
 *          requests made while paused may come from within the call.
 */
#ifndef SUPERVISOR_ROLLOUT_ROLLOUT_H
#define SUPERVISOR_ROLLOUT_ROLLOUT_H

#include "common/config/run_config.h"
#include "common/config/run_length.h"
#include "common/err/err.h"
#include "common/msg/msg.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/metrics.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/description.h"
#include "supervisor/rollout/evaluation.h"
#include "supervisor/rollout/probe.h"
#include "supervisor/rollout/sharing.h"
#include "supervisor/rollout/verdict.h"
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
    int is_midway;     /* work is left at the current boundary (rollout_hold) */
};

enum { ROLLOUT_CHECKPOINT_WAITS = 1, ROLLOUT_CHANGE_WAITS = 1 };

struct rollout_callbacks {
    /* A row of metrics is closed; it is borrowed for the call. An error ends the run, but
     * after a full disk (on_full) the same row is passed again. */
    int (*on_row)(void *ctx, const struct metrics_row *row, struct err *err);
    /* A checkpoint is due at this round boundary (also at step 0 and at the end): all
     * blocks are consistent and no request is outstanding. If it returns
     * ROLLOUT_CHECKPOINT_WAITS, the driver waits for rollout_checkpoint_taken. An error
     * ends the run. */
    int (*on_checkpoint)(void *ctx, const struct rollout_progress *at, struct err *err);
    /* A planned change (rollout_plan_change) is due before the round that begins now.
     * Return the result of rollout_change, or 0 to make no change. On
     * ROLLOUT_CHANGE_WAITS the driver waits for rollout_change_made. An error ends the
     * run. May be NULL if no change is ever planned. */
    int (*on_change)(void *ctx, const struct rollout_progress *at, struct err *err);
    /* Returns the length of the run that is in force at the boundary of that step: a change
     * that is planned for it counts (run_length.h). NULL: the configuration's. */
    struct run_length (*length)(void *ctx, uint64_t env_steps);
    /* The disk is full; `why` names the file. The driver waits for rollout_try_again.
     * NULL: a full disk is an error like any other. */
    void (*on_full)(void *ctx, const struct err *why);
    /* The driver has paused at a boundary, on request; may be NULL. */
    void (*on_paused)(void *ctx, const struct rollout_progress *at);
    /* All work that was due at a boundary is done; may be NULL. */
    void (*on_round)(void *ctx, const struct rollout_progress *at);
    void (*on_evaluation)(void *ctx,
                          const struct evaluation_result *result); /* or NULL */
    /* For drawing evaluations: their callbacks on_begin and on_step; may be NULL. */
    void (*on_evaluation_begin)(void *ctx, const struct vec_env *env, size_t copy);
    void (*on_evaluation_step)(void *ctx, const struct vec_env *env,
                               const struct env_step *step);
    /* stopped: 1 if the run was stopped on request before its end. Either on_done or
     * on_failed is the last callback. */
    void (*on_done)(void *ctx, int stopped);
    void (*on_failed)(void *ctx, const struct err *err);
    void *ctx;
};

struct rollout_args { /* all borrowed until rollout_free */
    const struct run_config *config;
    struct agent_table *agents;
    struct vec_env *env;       /* training copies, just reset or loaded; not started */
    struct env_host *env_host; /* for external environments; otherwise NULL */
    struct store *store;       /* from store_create, not yet described; or store_open */
    struct metrics *metrics;
    uint64_t (*now_ns)(void); /* monotonic; NULL: uv_hrtime */
    uint64_t until; /* stops at the first boundary at or after that step; 0: at none */
    const struct probe *probe; /* NULL: not a replay */
    /* 1: in evaluations, an external environment runs in one process, which sends
     * pictures */
    int draws;
    size_t cores; /* most agents that compute at a time in an update; 0: one per core */
    struct rollout_callbacks callbacks;
};

/* Reads the agents' descriptions (stages, columns, carry) and describes the log.
 * ERR_PROTOCOL names an agent whose description does not fit the others, or the log. */
int rollout_new(struct rollout **ret, const struct rollout_args *args, struct err *err);
/* The columns of the log that a process of the table reads (description.h): [n_columns], owned by
 * the driver. */
const uint8_t *rollout_reads(const struct rollout *r, size_t place);
/* Starts the environment processes, if any, then the checkpoint of step 0, then the first
 * round. */
int rollout_start(struct rollout *r, struct err *err);
void rollout_free(struct rollout *r); /* no request may be outstanding */

/* Requests take effect at the next round boundary; repeating one changes nothing. A stop,
 * also of a paused run, writes a checkpoint and then, unless a row of metrics was due
 * there, a row of what came since the last one. A resume removes that row: its own next
 * row covers it. */
void rollout_request_stop(struct rollout *r);
void rollout_request_pause(struct rollout *r);
void rollout_request_continue(struct rollout *r);
void rollout_request_checkpoint(struct rollout *r);
/* Lets the driver continue: the checkpoint that it waited for (on_checkpoint) is
 * taken. */
void rollout_checkpoint_taken(struct rollout *r);
/* The checkpoint of that step could not be written: if the run is still there, another one may
 * be due or requested. */
void rollout_checkpoint_failed(struct rollout *r, uint64_t step);
/* After on_full: tries to write again; calls on_full again if the disk is still full. */
void rollout_try_again(struct rollout *r);

/* ---- runs without an environment (env.id none): rollout_serve.c ----
 *
 * Clients drive the agents. The driver queues their requests per agent and sends one at a
 * time. When something is due or requested, it waits until no agent is busy and makes a
 * boundary. Each answered writing request counts as one step; a round is the time between
 * two boundaries.
 */

/* In a run with an environment clients may only fetch: requests without targets are sent
 * before the next round, or at once while the run is paused. They change nothing: neither
 * the agents' variables, nor later requests, nor what a resume repeats.
 *
 * result: the body of the answer to `run` (protocol.h), borrowed for the call; or NULL,
 * and `why` has the reason. */
typedef void (*rollout_run_fn)(void *ctx, const msgpack_object *result,
                               const struct err *why);
/* Queues a request. params: a map of feeds, fetches, targets as in `run` (protocol.h),
 * copied; the request writes if it has targets. The loop calls fn once, later. If an
 * error is returned (ERR_STATE, ERR_PROTOCOL, ERR_LIMIT), fn is not called. */
int rollout_run(struct rollout *r, size_t agent, const msgpack_object *params,
                rollout_run_fn fn, void *ctx, struct err *err);
/* Call it regularly: a checkpoint by time may be due. */
void rollout_tick(struct rollout *r);

/* ---- changes of the configuration: rollout_change.c ---- */

/* The earliest step at which a change can still take effect: the first step of the next
 * round. */
uint64_t rollout_next_change_step(const struct rollout *r);
/* Plans a call of on_change before the first round that begins at `step` or later;
 * replaces an earlier plan. UINT64_MAX: no change is planned. */
void rollout_plan_change(struct rollout *r, uint64_t step);
/* Whether the run has reached its length, and only the work of its last boundary is left. */
int rollout_is_at_end(const struct rollout *r);
/* Call it in on_change, and return its result from there. The intervals follow `to` from
 * here on, and each agent is sent the settings in which `to` differs from `from`, as a
 * writing request. Settings for which an agent's algorithm has no variable have no effect
 * on it and are not sent. `to` is borrowed until the next change. */
int rollout_change(struct rollout *r, const struct run_config *from,
                   const struct run_config *to, struct err *err);
/* After ROLLOUT_CHANGE_WAITS: the change is made, the driver continues. */
void rollout_change_made(struct rollout *r);

/* Ends the driver at once, because the table gave up on an agent or the supervisor must
 * end. No callback is called after this; late responses are ignored. */
void rollout_abort(struct rollout *r);

void rollout_progress(const struct rollout *r, struct rollout_progress *ret);

/* What can be saved, also after a failure: the driver's state as of when it entered its
 * current state (after a failure: the state in which it failed), together with these
 * values of the agents' blocks. */
enum rollout_hold {
    ROLLOUT_HOLDS_NOTHING, /* no state from which the run could continue */
    ROLLOUT_HOLDS_KEPT,    /* agent_table_kept */
    ROLLOUT_HOLDS_NEWEST,  /* agent_table_block: without an environment */
};
enum rollout_hold rollout_hold(const struct rollout *r);
/* For a run that cannot go on, before rollout_hold: if its environments are in a step, takes the
 * round back to its beginning, where a run can continue. Without effect if it cannot be taken
 * back, as that of a built-in environment. Only rollout_hold, rollout_state_save and
 * rollout_abort may follow. */
void rollout_take_back(struct rollout *r);
/* Saves, for run.state: counters, the work left at the boundary, environment state,
 * carry, metric accumulators and the agents' resume points (agent_table.h); nothing that
 * depends on a clock. *ret is malloc'd. load: before rollout_start. */
void rollout_state_save(const struct rollout *r, uint8_t **ret, size_t *ret_len);
int rollout_state_load(struct rollout *r, const uint8_t *data, size_t len,
                       struct err *err);
/* What follows from the evaluations so far. A run that is resumed gets that of its checkpoint,
 * before rollout_start. */
const struct verdict *rollout_verdict(const struct rollout *r);
void rollout_set_verdict(struct rollout *r, const struct verdict *v);
/* Sets the agents' positions from a saved state: an agent may be given up before
 * rollout_state_load, and that is journaled with its position. learners: agents of the
 * environment. ERR_FORMAT. */
int rollout_state_positions(struct agent_table *agents, size_t learners,
                            const uint8_t *data, size_t len, struct err *err);
/* Reads the run's progress from a saved state. ERR_FORMAT. */
int rollout_state_progress(struct rollout_progress *ret, const uint8_t *data, size_t len,
                           struct err *err);

/* Checks the agents' descriptions [A] as rollout_new does: whether their stages and rows
 * fit together, and their columns. err->agent names an agent. sharing: the
 * configuration's. */
int rollout_check(const struct run_config *config, const struct env_spec *spec,
                  const struct sharing *sharing, const struct description *descriptions,
                  struct err *err);

/* 1 if the algorithm of some agent has stages that run in a central process. */
int rollout_needs_central(const struct run_config *config);
/* The agent whose settings the central process has: the first one whose algorithm needs it;
 * n_agents: none does. */
size_t rollout_central_settings(const struct run_config *config);

struct rollout_policy { /* of a frozen agent, or one that hosts a graph */
    const void *metagraph;
    size_t metagraph_bytes;
    const char *prefix; /* of the checkpoint with its values; NULL: restored otherwise */
};
/* Packs the params of `configure` for the process at a place of the table of agents, as one
 * map, for agent_spec.pack_configure. Places from the environment's n_agents on: the
 * central process, if there is one, then the ps processes. The configuration's sharing
 * must have been checked. policy: NULL for an agent that builds its own graph. */
void rollout_pack_configure(const struct run_config *config, const struct env_spec *spec,
                            size_t place, int restored,
                            const struct rollout_policy *policy, struct msg_out *o);

#endif
