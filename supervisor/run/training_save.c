#include "supervisor/run/training_internal.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* Fills in the agents' names, descriptions, graphs and blocks. hold: which version of the
 * blocks (rollout.h). UV_EAGAIN: an agent is being restarted, or a copy of its block is on its
 * way; all are asked for, so that they come together. */
static int gather_agents(struct training *t, enum rollout_hold hold,
                         struct checkpoint_agent *agents, struct err *err)
{
    int (*const block)(struct agent_table * t, size_t agent, const void **ret,
                       size_t *ret_len, struct err *err) =
        hold == ROLLOUT_HOLDS_KEPT ? agent_table_kept : agent_table_block;
    int rc = 0;

    for (size_t i = 0; i < agent_table_count(t->agents) && (rc == 0 || rc == UV_EAGAIN);
         i++) {
        int block_rc;

        agents[i].name = t->specs.spec[i].name;
        agents[i].description = &agent_table_description(t->agents, i)->body;
        graphs_metagraph(t->graphs, i, &agents[i].metagraph, &agents[i].metagraph_bytes);
        block_rc = block(t->agents, i, &agents[i].block, &agents[i].block_bytes, err);
        rc = block_rc < 0 ? block_rc : rc;
    }
    return rc;
}

/* state: the driver's saved state; NULL: its present one. Errors as gather_agents. */
static int begin_checkpoint(struct training *t, uint64_t step, enum rollout_hold hold,
                            const struct training_state *state, struct err *err)
{
    const size_t n = agent_table_count(t->agents);
    struct checkpoint_agent *agents = xcalloc(n, sizeof(*agents));
    struct training_state now = {0};
    struct wbuf evaluations = {0};
    int rc = gather_agents(t, hold, agents, err);

    if (rc == 0 && t->changes.is_unwritten &&
        t->rescue.dir == NULL) /* a resume compares it with the checkpoint */
        rc = training_write_config(t, err);
    if (rc == 0 && state == NULL)
        rollout_state_save(t->rollout, &now.bytes, &now.len);
    verdict_save(rollout_verdict(t->rollout), t->config, &evaluations);
    if (rc == 0) {
        const struct save_point point = {
            .step = step,
            .agents = agents,
            .n_agents = n,
            .rollout = state != NULL ? state->bytes : now.bytes,
            .rollout_bytes = state != NULL ? state->len : now.len,
            .build_id = t->args->binaries->build_id,
            .fingerprint = agent_table_fingerprint(t->agents),
            .config_yaml = training_config_yaml(t),
            .numerics = t->config->run.numerics,
            .inexact = t->inexact,
            .evaluations = evaluations.data,
            .evaluations_bytes = evaluations.len,
            .best = rollout_verdict(t->rollout)->kept.step,
            .histograms_unix = t->config->log.histograms ? training_now_unix() : 0};

        rc = run_saver_begin(t->saver, &point, err);
        graphs_release_former(t->graphs);
    }
    free(now.bytes);
    wbuf_done(&evaluations);
    free(agents);
    return rc;
}

/* A checkpoint that cannot be written leaves the older ones intact, and the run continues
 * until the next one is due. But if the experience log is damaged (ERR_CORRUPT), the
 * weights may depend on damaged rows: the run ends with the older checkpoints. */
static void on_checkpoint_over(struct training *t, uint64_t step, const struct err *why)
{
    struct run_event e = {
        .kind = why != NULL ? RUN_EVENT_CHECKPOINT_FAILED : RUN_EVENT_CHECKPOINT,
        .env_steps = step,
    };

    if (why == NULL) {
        t->saves.step = (int64_t)step;
        if (run_saver_is_redirected(t->saver))
            t->rescue.step = (int64_t)step;
        /* Every snapshot is of this step or a later one: no replay reads older rows. */
        if (t->cluster != NULL)
            cluster_forget(t->cluster, store_needed_first_at(t->store, step));
        if (t->args->keeper != NULL)
            keeper_send_checkpoint(t->args->keeper);
    } else if (why->code != ERR_CORRUPT || t->failure.code < 0) {
        training_log_error(t, "no checkpoint at step %llu: %s", (unsigned long long)step,
                           why->msg);
    }
    if (why != NULL) {
        t->saves.unsaved = *why;
        t->saves.unsaved_step = step;
        if (t->rollout != NULL)
            rollout_checkpoint_failed(t->rollout, step);
    }
    e.error = why != NULL ? why->msg : NULL;
    training_event_at(t, &e, NULL);
    training_answer_checkpoint(t, step, why);
    if (why != NULL && why->code == ERR_CORRUPT)
        training_fail(t, why);
}

static void on_graphs(void *ctx)
{
    training_feed(ctx, LIFE_EV_AGENT_READY, NULL);
}

/* Begins the checkpoint of this boundary. Returns 0 if it has to wait: for a checkpoint
 * that is being written, for an agent that is being restarted, or for the new graph of an
 * agent whose configuration has changed. */
static int take_checkpoint(struct training *t)
{
    const uint64_t step = training_steps(t);
    struct err err = {0};
    int rc;

    if (run_saver_is_busy(t->saver))
        return 0;
    rc = graphs_refresh(t->graphs, on_graphs, t, &err);
    if (rc > 0)
        return 0;
    if (rc == 0)
        rc = begin_checkpoint(t, step, ROLLOUT_HOLDS_NEWEST, NULL, &err);
    if (rc < 0 && rc != UV_EAGAIN)
        on_checkpoint_over(t, step, &err);
    return rc != UV_EAGAIN;
}

int training_on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    struct training *t = ctx;

    if (take_checkpoint(t))
        return 0;
    training_feed(t, LIFE_EV_CHECKPOINT_WAITS, NULL);
    return ROLLOUT_CHECKPOINT_WAITS;
}

void training_retry_checkpoint(struct training *t)
{
    if (!take_checkpoint(t))
        return;
    training_feed(t, LIFE_EV_CHECKPOINT_TAKEN, NULL);
    rollout_checkpoint_taken(t->rollout);
}

/* ---- the last checkpoint of a run that fails ---- */

/* 1 if the newest committed checkpoint is of the present state. */
static int is_saved(const struct training *t)
{
    struct rollout_progress at;

    rollout_progress(t->rollout, &at);
    return !at.is_midway && t->saves.step == (int64_t)at.env_steps;
}

/* Writes the state that training_save_last has kept, once the saver is free. The blocks
 * have not changed since: the agents are ending and get no more requests. */
void training_write_last(struct training *t)
{
    const uint64_t step = training_steps(t);
    struct err err = {0};
    int rc = 0;

    if (t->saves.last.bytes == NULL || run_saver_is_busy(t->saver))
        return;
    if (!is_saved(t))
        rc = begin_checkpoint(t, step, t->saves.last_hold, &t->saves.last, &err);
    free(t->saves.last.bytes);
    t->saves.last = (struct training_state){0};
    if (rc < 0)
        on_checkpoint_over(t, step, &err);
}

void training_save_last(struct training *t)
{
    struct checkpoint_agent *agents;
    struct err err = {0};
    int rc;

    if (!life_state_is_driven(t->state) || t->saves.last.bytes != NULL)
        return;
    rollout_take_back(t->rollout);
    t->saves.last_hold = rollout_hold(t->rollout);
    agents = xcalloc(agent_table_count(t->agents), sizeof(*agents));
    rc = t->saves.last_hold == ROLLOUT_HOLDS_NOTHING
             ? err_set(&err, ERR_STATE, "the agents' states belong to different moments")
             : gather_agents(t, t->saves.last_hold, agents, &err);
    free(agents);
    if (rc < 0) {
        training_log_error(t, "no checkpoint of step %llu: %s",
                           (unsigned long long)training_steps(t), err.msg);
        return;
    }
    rollout_state_save(t->rollout, &t->saves.last.bytes, &t->saves.last.len);
    training_write_last(t);
}

void training_fail_if_unsaved(struct training *t)
{
    struct training_result *r = t->result;
    const uint64_t step = training_steps(t);

    if ((r->end != TRAINING_DONE && r->end != TRAINING_STOPPED) || t->rescue.is_needed ||
        t->failure.code < 0 || t->saves.unsaved.code == 0 ||
        t->saves.unsaved_step != step || t->saves.step == (int64_t)step)
        return;
    r->end = TRAINING_FAILED;
    (void)err_set(&t->failure, t->saves.unsaved.code,
                  "the last checkpoint, of step %llu, could not be written: %s",
                  (unsigned long long)step, t->saves.unsaved.msg);
    training_record_failure(t, &t->failure);
}

/* ---- callbacks of the saver ---- */

static void on_written(void *ctx, uint64_t step, const struct err *why)
{
    struct training *t = ctx;

    training_check_dir(t);
    if (training_rescue(t))
        return;
    on_checkpoint_over(t, step, why);
    training_feed(t, LIFE_EV_WRITER_FREE, NULL);
}

static void on_log_checked(void *ctx, const struct err *why)
{
    if (why != NULL)
        training_fail(ctx, why);
    training_feed(ctx, LIFE_EV_WRITER_FREE, NULL);
}

static int is_all_drawn(void *ctx, uint64_t step)
{
    const struct training *t = ctx;

    return t->sinks.renders == NULL || renders_are_drawn(t->sinks.renders, step);
}

void training_make_saver(struct training *t)
{
    struct run_saver_args args = {
        .loop = &t->loop,
        .dir = run_dir_file(t->args->dir, "checkpoints"),
        .sides = {run_dir_file(t->args->dir, "metrics"),
                  run_dir_file(t->args->dir, "renders")},
        .weights = t->sinks.weights,
        .is_ready = is_all_drawn,
        .store = t->store,
        .keep = retention_of(t->config, run_dir_began_unix(t->args->dir)),
        .on_written = on_written,
        .on_log_checked = on_log_checked,
        .ctx = t};

    t->saver = run_saver_new(&args);
}
