#include "supervisor/run/training.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/begin/run_metrics.h"
#include "supervisor/chan/event_loop.h"
#include "supervisor/env/env_trial.h"
#include "supervisor/run/training_internal.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* Allocations of at least this size go back to the system when freed, so that a long
 * run's heap stays small. */
enum { LARGE_BYTES = 128 << 10 };

static void on_agents_ended(void *ctx)
{
    training_feed(ctx, LIFE_EV_AGENTS_ENDED, NULL);
}

static void on_agent_failed(void *ctx, size_t agent, const struct err *report)
{
    training_on_failed(ctx, report);
}

/* ---- the first round ---- */

static void send_under_way(struct training *t)
{
    if (!t->sent_under_way)
        training_event(t, UNDER_WAY);
    t->sent_under_way = 1;
}

/* A resumed run first passes the boundary of its checkpoint, which counts as no round. */
static void on_round(void *ctx, const struct rollout_progress *at)
{
    struct training *t = ctx;
    const struct resume *from = t->args->resume;

    if (t->kind->begin_round(t, at->env_steps) < 0)
        return;
    training_trace_round(t, at->round);
    if (!t->sent_under_way && (from == NULL || at->round > resume_progress(from)->round))
        send_under_way(t);
}

static int start_driver(struct training *t, const struct rollout_args *args,
                        struct err *err)
{
    int rc = rollout_new(&t->rollout, args, err);

    training_check_portable(t);
    training_note_opened(t);
    if (rc == 0)
        training_pass_reads(t);
    if (rc == 0 && t->args->resume != NULL)
        rc = training_load_state(t, err);
    if (rc == 0)
        rc = t->kind->open_outputs(t, err);
    training_plan_changes(t);
    if (rc == 0) {
        training_begin_requests(t);
        training_feed(t, LIFE_EV_DRIVEN, NULL);
        if (training_steps(t) == 0) { /* the first round has no boundary before it */
            (void)t->kind->begin_round(t, 0);
            training_trace_round(t, 0);
        }
        rc = rollout_start(t->rollout, err);
    }
    if (rc == 0 && training_is_driven(t))
        send_under_way(t);
    return rc;
}

void training_start_rollout(struct training *t)
{
    struct rollout_args args = {
        .config = t->config,
        .agents = t->agents,
        .env = t->env,
        .env_host = t->env_host,
        .store = t->store,
        .metrics = t->metrics,
        .until = t->args->until,
        .probe = t->args->probe,
        .draws = t->draws_env,
        /* On nodes, all agents may compute: this machine's cores do not bound them. */
        .cores = t->cluster != NULL ? agent_table_count(t->agents) : 0,
        .callbacks = {.on_row = t->kind->on_row,
                      .on_checkpoint = t->kind->on_checkpoint,
                      .on_change = training_on_change,
                      .length = training_length,
                      .on_full = training_on_full,
                      .on_paused = training_on_paused,
                      .on_round = on_round,
                      .on_evaluation = training_on_evaluation,
                      .on_evaluation_begin = training_on_evaluation_begin,
                      .on_evaluation_step = training_on_evaluation_step,
                      .on_done = training_on_done,
                      .on_failed = training_on_failed,
                      .ctx = t},
    };
    struct err err = {0};

    if (life_state_is_ending(t->state))
        return;
    if (start_driver(t, &args, &err) < 0)
        training_fail(t, &err);
}

static void on_ready(void *ctx)
{
    struct training *t = ctx;

    t->kind->on_ready(t);
}

static void on_tick(uv_timer_t *timer)
{
    struct training *t = timer->data;

    if (t->args->keeper != NULL)
        keeper_beat(t->args->keeper);
    training_check_dir(t);
    training_begin_checkpoint(t);
    if (t->lost_agent) {
        /* Nobody needs to wait any more for an agent that was given up: no process of it may
         * come that would become ready. Its event itself would have been too early. */
        t->lost_agent = 0;
        training_feed(t, LIFE_EV_AGENT_READY, NULL);
    }
    if (t->rollout != NULL)
        rollout_tick(t->rollout);
    training_refresh(t);
}

/* ---- starting ---- */

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    struct training *t = ctx;

    rollout_pack_configure(t->config, vec_env_spec(t->env), agent, restored,
                           policies_of(t->args->policies, agent), o);
}

/* Marks a run whose environment turns out not to be reproducible. Other failures of the
 * trial do not end the run: its processes may be restarted. */
static int verify_env(struct training *t, struct err *err)
{
    const struct env_config *env = &t->config->env;
    struct env_verdict verdict;
    struct err why = {0};
    char text[256];

    if (t->args->resume != NULL || !env->verify)
        return 0;
    if (env_trial(env, t->config->run.seed, NULL, &verdict, &why) == ERR_INTERRUPTED)
        return err_pass(err, &why);
    if (verdict.differs)
        vec_env_mark_inexact(t->env, env_verdict_text(&verdict, text, sizeof(text)));
    return 0;
}

static int open_files(struct training *t, struct err *err)
{
    int rc;

    t->kind->begin(t);
    training_read_history(t);
    training_journal_begin(t);
    rc = training_begin_resume(t, err);
    if (rc == 0 && t->args->resume == NULL)
        rc = training_journal_plan(t, err);
    if (rc == 0)
        rc = vec_env_new(&t->env, &t->config->env, t->config->run.seed,
                         ENV_DRAWS_TRAINING, 0, err);
    if (rc == 0)
        rc = verify_env(t, err);
    if (rc < 0)
        return rc;
    vec_env_reset(t->env);
    rc = run_metrics_new(&t->metrics, t->config, vec_env_spec(t->env), err);
    if (rc == 0)
        rc = run_metrics_check_rules(t->metrics, t->config, 0, err);
    return rc < 0 ? rc : t->kind->open_files(t, err);
}

static int make_agents(struct training *t, struct err *err)
{
    struct agent_callbacks cb = {.on_event = training_on_agent_event,
                                 .on_ready = on_ready,
                                 .on_failed = on_agent_failed,
                                 .on_stopped = on_agents_ended,
                                 .ctx = t};
    int rc;

    rc = agent_specs_init(&t->specs, t->config, vec_env_spec(t->env),
                          rollout_needs_central(t->config), 1, t->logs_in, pack_configure,
                          err);
    if (rc < 0)
        return rc;
    t->shown.agents = xcalloc(t->specs.n, sizeof(*t->shown.agents));
    t->agent_fd = binaries_open_agent(t->args->binaries, err);
    if (t->agent_fd < 0)
        return t->agent_fd;
    training_make_env_host(t);
    if ((rc = training_open_cluster(t, err)) < 0)
        return rc;
    rc = agent_table_new(&t->agents, &t->loop, t->agent_fd, store_agent_fd(t->store),
                         t->specs.spec, t->specs.n, &cb, err);
    if (rc == 0)
        agent_table_set_numerics(t->agents, t->config->run.numerics);
    return rc == 0 && t->args->resume != NULL ? training_preload(t, err) : rc;
}

/* If an observer fails, on_close is called for all of them. If some agents cannot be started,
 * the others are stopped in the usual way. */
static void start(struct training *t)
{
    struct err err = {0};
    int rc = 0;

    CHECK(uv_timer_init(&t->loop, &t->tick) == 0);
    CHECK(uv_timer_init(&t->loop, &t->space) == 0);
    t->tick.data = t->space.data = t;
    CHECK(uv_timer_start(&t->tick, on_tick, TRAINING_TICK_MS, TRAINING_TICK_MS) == 0);
    training_watch(t);
    training_feed(t, LIFE_EV_OPENED, NULL);
    for (size_t i = 0; i < t->args->n_observers && rc == 0; i++) {
        const struct training_observer *o = &t->args->observers[i];

        if (o->on_open != NULL)
            rc = o->on_open(o->ctx, t, &t->loop, &err);
    }
    if (rc < 0)
        training_fail(t, &err);
    else if (t->cluster != NULL)
        cluster_start(t->cluster); /* CONNECTED follows */
    else
        training_feed(t, LIFE_EV_CONNECTED, NULL);
}

static void release(struct training *t)
{
    renders_free(t->sinks.renders);
    rollout_free(t->rollout);
    training_replay_free(t);
    run_saver_free(t->saver);
    restore_free(t->restore);
    graphs_free(t->graphs);
    if (t->agents != NULL)
        agent_table_end(t->agents); /* the keeper, which sweeps them, may have exited */
    agent_table_free(t->agents);
    vec_env_free(t->env);
    training_free_env_host(t);
    cluster_free(t->cluster); /* after all processes that may run on its nodes */
    if (t->agent_fd >= 0)
        (void)close(t->agent_fd);
    training_free_status(t);
    agent_specs_done(&t->specs);
    event_sink_close(t->sinks.events);
    event_folder_free(t->sinks.images);
    event_folder_free(t->sinks.weights);
    csv_sink_close(t->sinks.csv);
    store_free(t->store);
    metrics_free(t->metrics);
    journal_close(t->journal);
    training_end_config(t);
    if (t->signals.fd >= 0)
        (void)close(t->signals.fd);
    CHECK(!t->has_loop || uv_loop_close(&t->loop) == 0, "a handle was left open");
}

static void finish(struct training *t)
{
    struct rollout_progress at = {0};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    t->result->env_steps = training_steps(t);
    t->result->episodes = at.episodes;
    t->result->checkpoint_step = t->saves.step;
    t->result->wall_seconds = (double)(uv_hrtime() - t->began_ns) * 1e-9;
    training_fail_if_deleted(t);
}

static int open_loop(struct training *t, struct err *err)
{
    int rc = event_loop_open(&t->loop, err);

    t->has_loop = rc == 0;
    if (rc == 0)
        rc = event_loop_start_threads(&t->loop, err);
    return rc == 0 ? training_take_signals(t, err) : rc;
}

int training_run(const struct training_args *args, struct training_result *ret,
                 struct err *err)
{
    struct training *t = xcalloc(1, sizeof(*t));
    struct err why = {0};
    int rc;

    *ret = (struct training_result){.end = TRAINING_FAILED,
                                    .checkpoint_step = -1,
                                    .resume_step = -1,
                                    .team_return_mean = NAN};
    t->args = args;
    t->kind = args->replay != NULL ? &training_replayed : &training_recorded;
    t->result = ret;
    t->agent_fd = t->log_watch.fd = t->signals.fd = -1;
    t->rescue.step = -1;
    run_model_init(&t->model);
    t->began_ns = uv_hrtime();
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    rc = training_begin_config(t, &why);
    if (rc == 0)
        rc = open_loop(t, &why);
    if (rc == 0)
        rc = open_files(t, &why);
    if (rc == 0)
        rc = make_agents(t, &why);
    if (rc == 0) {
        t->saves.step =
            args->resume != NULL ? (int64_t)resume_progress(args->resume)->env_steps : -1;
        start(t);
        (void)uv_run(&t->loop, UV_RUN_DEFAULT);
        finish(t);
        rc = t->failure.code;
        why = t->failure;
    } else if (rc == ERR_INTERRUPTED) {
        /* while the environment is tried: there are no agents yet, and no checkpoint */
        ret->end = TRAINING_STOPPED;
        training_event(t, STOP);
    } else {
        training_record_failure(t, &why);
    }
    t->kind->finish(t, rc);
    training_journal_end(t, rc);
    ret->total_seconds = t->model.seconds;
    ret->total_restarts = t->model.status.total_restarts;
    (void)run_status_returns(&t->model.status, ret->returns);
    if (t->model.status.done_why != NULL)
        (void)snprintf(ret->done_why, sizeof(ret->done_why), "%s",
                       t->model.status.done_why);
    training_end_rescue(t);
    ret->is_unchanged = args->resume != NULL && !t->committed;
    release(t);
    free(t);
    return rc < 0 ? err_pass(err, &why) : rc;
}
