#include "supervisor/run/training.h"

#include "common/config/algorithms.h"
#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/chan/event_loop.h"
#include "supervisor/env/env_trial.h"
#include "supervisor/run/training_internal.h"
#include "supervisor/save/retention.h"

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

/* Writes the graph into the event file unless it is there: a resume may have removed
 * it. */
static int write_graphs(struct training *t, struct err *err)
{
    struct wbuf graph = {0};
    int rc;

    if (event_sink_has_graph(t->sinks.events))
        return 0;
    rc = graphs_joined(t->graphs, &graph, err);
    if (rc == 0)
        rc = event_sink_write_graph(t->sinks.events, graph.data, graph.len,
                                    training_now_unix(), err);
    wbuf_done(&graph);
    return rc;
}

enum { HOST_BYTES = 64 };

static const char *host_name(char ret[HOST_BYTES])
{
    if (gethostname(ret, HOST_BYTES) < 0)
        (void)snprintf(ret, HOST_BYTES, "localhost");
    ret[HOST_BYTES - 1] = '\0';
    return ret;
}

static void on_drawn(void *ctx)
{
    const struct training *t = ctx;

    run_saver_ready(t->saver);
}

/* Pictures and histograms are written by other threads, each in the order of its own steps: a
 * file of their own for both, which a resume can cut. */
static void make_event_folders(struct training *t)
{
    char host[HOST_BYTES];

    t->sinks.images =
        event_folder_new(run_dir_file(t->args->dir, "metrics/images"), host_name(host));
    t->sinks.weights =
        event_folder_new(run_dir_file(t->args->dir, "metrics/weights"), host_name(host));
}

static int open_sinks(struct training *t, struct err *err)
{
    const char *csv = run_dir_file(t->args->dir, "metrics/progress.csv");
    const char *events = run_dir_file(t->args->dir, "metrics");
    const double now = training_now_unix();
    uint64_t step = training_steps(t);
    char host[HOST_BYTES];
    const struct renders_args renders = {.loop = &t->loop,
                                         .dir = run_dir_file(t->args->dir, "renders"),
                                         .run = run_dir_name(t->args->dir),
                                         .step = step,
                                         .env_draws = t->draws_env,
                                         .images = t->sinks.images,
                                         .on_drawn = on_drawn,
                                         .ctx = t};
    int rc = renders_new(&t->sinks.renders, &renders, err);

    if (rc < 0)
        return rc;
    if (t->args->resume == NULL) {
        rc = csv_sink_open(&t->sinks.csv, csv, t->metrics, err);
        return rc < 0
                   ? rc
                   : event_sink_open(&t->sinks.events, events, now, host_name(host), err);
    }
    if ((rc = event_folder_resume(t->sinks.images, step, now, err)) < 0 ||
        (rc = event_folder_resume(t->sinks.weights, step, now, err)) < 0)
        return rc;
    step = metrics_row_began(t->metrics);
    rc = csv_sink_resume(&t->sinks.csv, csv, t->metrics, step, err);
    return rc < 0 ? rc
                  : event_sink_resume(&t->sinks.events, events, step, now,
                                      host_name(host), err);
}

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

    if (training_end_replayed_round(t, 0) < 0)
        return;
    training_trace_replayed(t, at->env_steps);
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
    if (rc == 0 && t->args->replay == NULL)
        rc = open_sinks(t, err);
    if (rc == 0 && t->args->replay == NULL)
        rc = write_graphs(t, err);
    training_plan_changes(t);
    if (rc == 0) {
        training_begin_requests(t);
        training_feed(t, LIFE_EV_DRIVEN, NULL);
        if (training_steps(t) == 0) { /* the first round has no boundary before it */
            training_trace_replayed(t, 0);
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
        .probe = t->args->replay != NULL ? t->args->replay->probe : NULL,
        .draws = t->draws_env,
        /* On nodes, all agents may compute: this machine's cores do not bound them. */
        .cores = t->cluster != NULL ? agent_table_count(t->agents) : 0,
        .callbacks = {.on_row = training_on_row,
                      .on_checkpoint = training_on_checkpoint,
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

static void start_rollout(void *ctx)
{
    training_start_rollout(ctx);
}

/* What an agent of a new run begins with: a frozen one with its policy, a learner with the
 * weights of --init-from. The central process, which has no agent_config, learns. */
static int first_values_of(void *ctx, size_t agent, const char *name,
                           const struct checkpoint_values **ret, struct err *err)
{
    const struct training *t = ctx;
    const struct run_config *c = t->config;

    if (agent < c->n_agents && algorithm_of(&c->agents[agent])->fixed)
        *ret = policies_values(t->args->policies, agent);
    else if (t->args->init != NULL)
        return weights_of(t->args->init, name, ret, err);
    return 0;
}

static void on_graphs(void *ctx)
{
    struct training *t = ctx;
    struct err err = {0};

    if (life_state_is_ending(t->state))
        return;
    if (restore_start(&t->restore, t->agents, first_values_of, 0, start_rollout, t,
                      &err) < 0)
        training_fail(t, &err);
}

static void on_ready(void *ctx)
{
    struct training *t = ctx;
    struct err err = {0};

    if (t->args->replay != NULL)
        training_replay_begin(t);
    else if (graphs_start(&t->graphs, t->agents, t->args->resume, on_graphs, t, &err) < 0)
        training_fail(t, &err);
}

/* Nobody needs to wait any more for an agent that was given up: no process of it may come that
 * would become ready. The event itself would be too early: the agent is being given up. */
static void look_for_lost(struct training *t)
{
    if (!t->lost_agent)
        return;
    t->lost_agent = 0;
    training_feed(t, LIFE_EV_AGENT_READY, NULL);
}

static void on_tick(uv_timer_t *timer)
{
    struct training *t = timer->data;

    if (t->args->keeper != NULL)
        keeper_beat(t->args->keeper);
    if (t->args->replay == NULL)
        training_check_dir(t);
    training_begin_checkpoint(t);
    look_for_lost(t);
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

/* Declares what each process reports, as its algorithm says. */
static void declare_scalars(struct metrics *m, const struct run_config *c,
                            const struct env_spec *spec, const struct sharing *sharing,
                            int central)
{
    const size_t n = spec->n_agents;

    for (size_t a = 0; a < n; a++)
        metrics_declare(m, a, algorithm_of(&c->agents[a])->scalars,
                        sharing->group_of[a] == SHARING_NONE
                            ? SCALAR_BY_AGENT | SCALAR_BY_STEP
                            : SCALAR_BY_AGENT);
    for (size_t a = 0; central && a < n; a++)
        if (algorithm_of(&c->agents[a])->central) {
            metrics_declare(m, n, algorithm_of(&c->agents[a])->scalars,
                            SCALAR_BY_CENTRAL);
            break;
        }
    for (size_t g = 0; g < sharing->n_groups; g++) {
        const struct agent_config *first = &c->agents[sharing->groups[g].first];

        metrics_declare(m, n + (size_t)(central != 0) + g, algorithm_of(first)->scalars,
                        SCALAR_BY_STEP);
    }
}

int training_metrics(struct metrics **ret, const struct run_config *c,
                     const struct env_spec *spec, struct err *err)
{
    const int central = rollout_needs_central(c);
    const char **names, **teams;
    struct sharing sharing;
    const int rc = sharing_init(&sharing, c, spec, NULL, err);

    if (rc < 0)
        return rc;
    names = xcalloc(spec->n_agents, sizeof(*names));
    teams = xcalloc(spec->n_agents, sizeof(*teams));
    for (size_t i = 0; i < spec->n_agents; i++) {
        names[i] = spec->agents[i].name;
        teams[i] = spec->agents[i].team;
    }
    *ret = metrics_new(names, teams, spec->n_agents, central, uv_hrtime());
    for (size_t g = 0; g < sharing.n_groups; g++)
        metrics_add_process(*ret, sharing.groups[g].ps);
    metrics_declare_env(*ret, spec->metrics, spec->n_metrics);
    declare_scalars(*ret, c, spec, &sharing, central);
    sharing_done(&sharing);
    free(names);
    free(teams);
    return 0;
}

static int open_store(struct training *t, struct err *err)
{
    const char *path = run_dir_file(t->args->dir, "experience");
    const uint64_t window = run_config_log_window(t->config);
    const struct checkpoint_section *s;

    if (t->args->replay != NULL) {
        t->store = t->args->replay->store;
        t->args->replay->store = NULL;
        return 0;
    }
    if (t->args->resume == NULL)
        return store_create(&t->store, path, window, err);
    s = resume_section(t->args->resume, SECTION_EXPERIENCE);
    return store_open(&t->store, path, window, s->data, s->len, err);
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
    if (env_trial(env, t->config->run.seed, &verdict, &why) == ERR_INTERRUPTED)
        return err_pass(err, &why);
    if (verdict.differs)
        vec_env_mark_inexact(t->env, env_verdict_text(&verdict, text, sizeof(text)));
    return 0;
}

/* Finds out whether an external environment can draw, by letting it draw. One that cannot
 * must not end the run in its first evaluation. */
static int try_pictures(struct training *t, struct err *err)
{
    struct env_config env = t->config->env;
    struct env_verdict verdict;
    struct err why = {0};
    int rc;

    if (t->args->replay != NULL || !env_config_is_external(&env) ||
        !renders_are_wanted(t->config))
        return 0;
    env.draws = 1;
    rc = env_trial(&env, t->config->run.seed, &verdict, &why);
    if (rc == ERR_INTERRUPTED)
        return err_pass(err, &why);
    if (rc < 0)
        training_log_error(t, "evaluations are not drawn: %s", why.msg);
    t->draws_env = rc == 0;
    return 0;
}

static void on_watched(void *ctx, double value)
{
    struct training *t = ctx;
    struct rollout_progress at;

    rollout_progress(t->rollout, &at);
    t->replay_is_over |= t->args->replay->on_value(t->args->replay->ctx, &at, value);
}

static int open_files(struct training *t, struct err *err)
{
    struct run_dir *dir = t->args->dir;
    int rc;

    if (t->args->replay == NULL)
        t->journal = journal_new(run_dir_file(dir, "journal"));
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
    if (rc == 0)
        rc = try_pictures(t, err);
    if (rc < 0)
        return rc;
    vec_env_reset(t->env);
    rc = training_metrics(&t->metrics, t->config, vec_env_spec(t->env), err);
    if (rc < 0)
        return rc;
    if (t->args->replay != NULL && t->args->replay->column != NULL)
        metrics_watch(t->metrics, t->args->replay->column, on_watched, t);
    return open_store(t, err);
}

static int make_agents(struct training *t, struct err *err)
{
    struct agent_callbacks cb = {.on_event = training_on_agent_event,
                                 .on_ready = on_ready,
                                 .on_failed = on_agent_failed,
                                 .on_stopped = on_agents_ended,
                                 .ctx = t};
    int rc;

    if (t->args->replay == NULL)
        run_dir_place_programs(t->args->dir, t->config);
    rc = agent_specs_init(
        &t->specs, t->config, vec_env_spec(t->env), rollout_needs_central(t->config), 1,
        t->args->replay == NULL ? t->args->dir : NULL, pack_configure, err);
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

static void watch(struct training *t)
{
    CHECK(uv_timer_init(&t->loop, &t->tick) == 0);
    CHECK(uv_timer_init(&t->loop, &t->space) == 0);
    t->tick.data = t->space.data = t;
    CHECK(uv_timer_start(&t->tick, on_tick, TRAINING_TICK_MS, TRAINING_TICK_MS) == 0);
    training_watch(t);
}

/* on_close is called for all of them, also if an on_open fails. */
static int open_observers(struct training *t, struct err *err)
{
    int rc = 0;

    training_feed(t, LIFE_EV_OPENED, NULL);
    for (size_t i = 0; i < t->args->n_observers && rc == 0; i++) {
        const struct training_observer *o = &t->args->observers[i];

        if (o->on_open != NULL)
            rc = o->on_open(o->ctx, t, &t->loop, err);
    }
    return rc;
}

/* If some agents cannot be started, the others are stopped in the usual way. */
static void start(struct training *t)
{
    struct err err = {0};

    if (open_observers(t, &err) < 0)
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

/* A run that is done needs its log only if a user makes the run longer. */
static void drop_log(struct training *t)
{
    const enum keep_log keep = t->config->experience.keep;
    uint64_t bytes;
    struct err err = {0};
    char line[256];
    int rc = retention_drop_log(run_dir_file(t->args->dir, "experience"), keep,
                                RETENTION_AUTO_BYTES, &bytes, &err);

    if (rc < 0)
        log_warn("%s", err.msg);
    if (rc != 1)
        return;
    retention_describe_log(run_dir_name(t->args->dir), keep, bytes, line, sizeof(line));
    training_event(t, LOG_DROPPED);
    training_log(t, "%s", line);
}

static void warn_if_untrained(struct training *t)
{
    char *why = run_config_untrained(t->config, (int64_t)t->result->env_steps);

    if (why != NULL)
        training_log(t, "%s", why);
    free(why);
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
    if (t->args->replay != NULL)
        return;
    if (t->result->end == TRAINING_DONE && at.updates == 0)
        warn_if_untrained(t);
    if (t->result->end == TRAINING_DONE)
        training_tell_left(t);
    if (t->result->end == TRAINING_DONE && t->saves.step == (int64_t)t->result->env_steps)
        drop_log(t);
}

/* After a failure, the log may be damaged or too short for the newest checkpoint. */
static void find_resume_step(struct training *t, int rc)
{
    struct run_dir *dir = t->args->dir;
    struct err why = {0};
    uint64_t step;
    int found;

    t->result->resume_step = t->result->checkpoint_step;
    if (rc == 0 || t->args->replay != NULL)
        return;
    t->result->resume_step = -1;
    found = resume_find_covered(&step, run_dir_file(dir, "checkpoints"),
                                run_dir_file(dir, "experience"),
                                run_config_log_window(t->config), &why);
    if (found == 0)
        t->result->resume_step = (int64_t)step;
    else if (found != ERR_NOT_FOUND)
        t->result->unread = why;
}

/* An interrupt while the environment is tried: there are no agents yet, and no checkpoint. */
static void stop_before_agents(struct training *t)
{
    t->result->end = TRAINING_STOPPED;
    training_event(t, STOP);
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
        if (args->replay == NULL) {
            make_event_folders(t);
            training_make_saver(t);
        }
        t->saves.step =
            args->resume != NULL ? (int64_t)resume_progress(args->resume)->env_steps : -1;
        watch(t);
        start(t);
        (void)uv_run(&t->loop, UV_RUN_DEFAULT);
        finish(t);
        rc = t->failure.code;
        why = t->failure;
    } else if (rc == ERR_INTERRUPTED) {
        stop_before_agents(t);
    } else {
        training_record_failure(t, &why);
    }
    find_resume_step(t, rc);
    training_journal_end(t, rc);
    ret->total_seconds = t->model.seconds;
    ret->total_restarts = t->model.status.total_restarts;
    training_end_rescue(t);
    ret->is_unchanged = args->resume != NULL && !t->committed;
    release(t);
    free(t);
    return rc < 0 ? err_pass(err, &why) : rc;
}
