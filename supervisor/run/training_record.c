/* A run that leaves files in its directory: which, and when they are opened and closed. The
 * other kind is a replay (training_replay.c). */
#include "supervisor/run/training_internal.h"

#include "common/config/algorithms.h"
#include "common/log/log.h"
#include "common/text/scan.h"
#include "supervisor/env/env_trial.h"
#include "supervisor/save/retention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- before there are agents ---- */

static void begin(struct training *t)
{
    t->journal = journal_new(run_dir_file(t->args->dir, "journal"));
    t->logs_in = t->args->dir;
}

/* Finds out whether an external environment can draw, by letting it draw. One that cannot
 * must not end the run in its first evaluation. */
static int try_pictures(struct training *t, struct err *err)
{
    struct env_config env = t->config->env;
    struct env_verdict verdict;
    struct err why = {0};
    int rc;

    if (!env_config_is_external(&env) || !renders_are_wanted(t->config))
        return 0;
    env.draws = 1;
    rc = env_trial(&env, t->config->run.seed, NULL, &verdict, &why);
    if (rc == ERR_INTERRUPTED)
        return err_pass(err, &why);
    if (rc < 0)
        training_log_error(t, "evaluations are not drawn: %s", why.msg);
    t->draws_env = rc == 0;
    return 0;
}

static int open_store(struct training *t, struct err *err)
{
    const char *path = run_dir_file(t->args->dir, "experience");
    const uint64_t window = run_config_log_window(t->config);
    const struct checkpoint_section *s;

    if (t->args->resume == NULL)
        return store_create(&t->store, path, window, err);
    s = resume_section(t->args->resume, SECTION_EXPERIENCE);
    return store_open(&t->store, path, window, s->data, s->len, err);
}

enum { HOST_BYTES = 64 };

static const char *host_name(char ret[HOST_BYTES])
{
    if (gethostname(ret, HOST_BYTES) < 0)
        (void)snprintf(ret, HOST_BYTES, "localhost");
    ret[HOST_BYTES - 1] = '\0';
    return ret;
}

static int open_files(struct training *t, struct err *err)
{
    char host[HOST_BYTES];
    int rc = try_pictures(t, err);

    if (rc == 0)
        rc = open_store(t, err);
    if (rc < 0)
        return rc;
    run_dir_place_programs(t->args->dir, t->config);
    /* Pictures and histograms are written by other threads, each in the order of its own
     * steps: a file of their own for both, which a resume can cut. */
    t->sinks.images =
        event_folder_new(run_dir_file(t->args->dir, "metrics/images"), host_name(host));
    t->sinks.weights =
        event_folder_new(run_dir_file(t->args->dir, "metrics/weights"), host_name(host));
    training_make_saver(t);
    return 0;
}

/* ---- the agents are ready ---- */

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

static void on_restored(void *ctx)
{
    training_start_rollout(ctx);
}

static void on_graphs(void *ctx)
{
    struct training *t = ctx;
    struct err err = {0};

    if (life_state_is_ending(t->state))
        return;
    if (restore_start(&t->restore, t->agents, first_values_of, 0, on_restored, t, &err) <
        0)
        training_fail(t, &err);
}

static void on_ready(struct training *t)
{
    struct err err = {0};

    if (graphs_start(&t->graphs, t->agents, t->args->resume, on_graphs, t, &err) < 0)
        training_fail(t, &err);
}

/* ---- the driver exists ---- */

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

static void on_drawn(void *ctx)
{
    const struct training *t = ctx;

    run_saver_ready(t->saver);
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

static int open_outputs(struct training *t, struct err *err)
{
    int rc = open_sinks(t, err);

    training_watch_log(t);
    return rc < 0 ? rc : write_graphs(t, err);
}

/* ---- rounds and rows ---- */

static int begin_round(struct training *t, uint64_t env_steps)
{
    return 0;
}

/* Says once which of env.metrics no episode has had, after the first row with episodes: of an
 * external environment, only playing shows what its infos hold. */
static void report_missing(struct training *t, const struct metrics_row *row)
{
    const struct env_spec *spec = vec_env_spec(t->env);
    int has_episodes = 0;

    for (size_t i = 0; i < row->n_fixed && !has_episodes; i++)
        has_episodes = strcmp(row->names[i], "rollout/episode_length") == 0 &&
                       !isnan(row->values[i]);
    if (!has_episodes || t->metrics_are_seen)
        return;
    t->metrics_are_seen = 1;
    for (size_t i = 0; i < row->n_fixed; i++) {
        const char *name = text_after(row->names[i], "rollout/metric/");

        if (name != NULL && isnan(row->values[i]))
            training_log_error(t,
                               "env.metrics: no episode so far had '%s': the infos of %s "
                               "have no such number",
                               name, spec->id);
    }
}

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    struct training *t = ctx;
    const struct run_event e = {
        .kind = RUN_EVENT_ROW, .env_steps = row->env_steps, .row = row};
    double sum = 0;
    int teams = 0, rc;

    for (size_t i = 0; i < row->n; i++) {
        if (text_after(row->names[i], "rollout/team_return/") != NULL &&
            !isnan(row->values[i])) {
            sum += row->values[i];
            teams++;
        }
    }
    if (teams > 0)
        t->result->team_return_mean = sum / teams;
    report_missing(t, row);
    rc = csv_sink_write(t->sinks.csv, row, err);
    if (rc == 0)
        rc = event_sink_write(t->sinks.events, row, training_now_unix(), err);
    if (rc == 0)
        rc = training_event_at(t, &e, err);
    return rc;
}

/* ---- the end ---- */

static void on_done(struct training *t)
{
    training_feed(t, LIFE_EV_DONE, NULL);
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

/* After a failure, the log may be damaged or too short for the newest checkpoint. */
static void find_resume_step(struct training *t, int rc)
{
    struct run_dir *dir = t->args->dir;
    struct err why = {0};
    uint64_t step;
    int found;

    t->result->resume_step = t->result->checkpoint_step;
    if (rc == 0)
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

static void finish(struct training *t, int rc)
{
    const struct training_result *r = t->result;

    if (r->end == TRAINING_DONE) {
        struct rollout_progress at;
        char *why = run_config_untrained(t->config, (int64_t)r->env_steps);

        rollout_progress(t->rollout, &at);
        if (at.updates == 0 && why != NULL)
            training_log(t, "%s", why);
        free(why);
        training_tell_left(t);
        if (t->saves.step == (int64_t)r->env_steps)
            drop_log(t);
    }
    find_resume_step(t, rc);
}

const struct training_kind training_recorded = {
    .begin = begin,
    .open_files = open_files,
    .on_ready = on_ready,
    .commit_resume = training_commit_resume,
    .open_outputs = open_outputs,
    .begin_round = begin_round,
    .on_row = on_row,
    .on_checkpoint = training_on_checkpoint,
    .on_done = on_done,
    .on_failed = training_save_last,
    .finish = finish,
};
