#include "supervisor/run/training.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "supervisor/metrics/sinks.h"
#include "supervisor/run/agent_specs.h"
#include "supervisor/run/checkpointer.h"
#include "supervisor/run/journal.h"
#include "supervisor/run/restore.h"
#include "supervisor/store/store.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* For all agents together, from the first polite word to the last SIGKILL. */
enum { STOP_DEADLINE_MS = 5000, N_SIGNALS = 3 };

static const int handled_signals[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

struct training {
    const struct training_args *args;
    const struct run_config *config;
    struct training_result *result;
    struct err failure; /* the first; code 0: none */

    uv_loop_t loop;
    uv_timer_t tick;
    uv_signal_t signals[N_SIGNALS];
    int interrupts;

    struct vec_env *env;
    struct store *store;
    struct metrics *metrics;
    struct csv_sink *csv;
    struct event_sink *events;
    struct journal *journal;
    struct agent_specs specs;
    int agent_fd;
    struct agent_table *agents;
    struct restore *restore;
    struct rollout *rollout;
    struct checkpointer *checkpointer;
    char *config_yaml;
    int checkpoint_waits; /* the driver stands at a boundary until it is taken */
    uint64_t saved_step;  /* of the newest committed checkpoint */
    int stopping;
    uint64_t began_ns;
};

static double now_unix(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void say(struct training *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void say(struct training *t, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    log_info("%s", line);
    if (t->args->observer.on_message != NULL)
        t->args->observer.on_message(t->args->observer.ctx, line);
}

static uint64_t steps_now(const struct training *t)
{
    struct rollout_progress at = {0};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    else if (t->args->resume != NULL)
        at = *resume_progress(t->args->resume);
    return at.env_steps;
}

/* ---- the end ---- */

/* Lets the observer see where the run stands. */
static void show(struct training *t)
{
    struct rollout_progress at = {.state = "starting"};

    if (t->args->observer.on_tick == NULL)
        return;
    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    t->args->observer.on_tick(t->args->observer.ctx, t->agents, &at);
}

/* The last the observer sees of the agents is their state before they stop. */
static void stop_agents(struct training *t, uint64_t deadline_ms)
{
    if (!t->stopping)
        show(t);
    if (t->rollout != NULL)
        rollout_abort(t->rollout);
    t->stopping = 1;
    agent_table_stop(t->agents, deadline_ms);
}

static void fail(struct training *t, const struct err *err)
{
    if (t->failure.code == 0) {
        t->failure = *err;
        journal_write(t->journal, steps_now(t), "failed", "error", err->msg, NULL);
    }
    t->result->end = TRAINING_FAILED;
    if (!t->stopping)
        stop_agents(t, STOP_DEADLINE_MS);
}

static void on_stopped(void *ctx)
{
    struct training *t = ctx;

    uv_close((uv_handle_t *)&t->tick, NULL);
    for (int i = 0; i < N_SIGNALS; i++)
        uv_close((uv_handle_t *)&t->signals[i], NULL);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct training *t = handle->data;

    t->interrupts++;
    journal_write(t->journal, steps_now(t), "signal", "name", strsignal(signum), NULL);
    if (t->interrupts == 1 && !t->stopping) {
        say(t, "interrupted (%s): stopping after this round; once more ends it at once",
            strsignal(signum));
        t->result->end = TRAINING_STOPPED;
        if (t->rollout != NULL)
            rollout_request_stop(t->rollout);
        else
            stop_agents(t, STOP_DEADLINE_MS);
    } else if (t->interrupts > 1) {
        t->result->end = TRAINING_CUT_OFF;
        t->result->signum = signum;
        stop_agents(t, 0);
    }
}

/* ---- what the driver reports ---- */

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    struct training *t = ctx;
    double sum = 0;
    int teams = 0, rc;

    for (size_t i = 0; i < row->n; i++) {
        if (strncmp(row->names[i], "rollout/team_return/", 20) == 0 &&
            !isnan(row->values[i])) {
            sum += row->values[i];
            teams++;
        }
    }
    if (teams > 0)
        t->result->team_return_mean = sum / teams;
    rc = csv_sink_write(t->csv, row, err);
    if (rc == 0)
        rc = event_sink_write(t->events, row, now_unix(), err);
    if (rc == 0 && t->args->observer.on_row != NULL)
        t->args->observer.on_row(t->args->observer.ctx, row);
    return rc;
}

static void on_evaluation(void *ctx, const struct evaluation_result *result)
{
    struct training *t = ctx;

    if (t->args->observer.on_evaluation != NULL)
        t->args->observer.on_evaluation(t->args->observer.ctx, steps_now(t), result);
}

static void on_rollout_done(void *ctx, int stopped)
{
    struct training *t = ctx;

    if (!stopped)
        t->result->end = TRAINING_DONE;
    journal_write(t->journal, steps_now(t), stopped ? "stopped" : "done", NULL);
    stop_agents(t, STOP_DEADLINE_MS);
}

static void on_rollout_failed(void *ctx, const struct err *err)
{
    fail(ctx, err);
}

/* ---- checkpoints ---- */

static int gather_agents(struct training *t, struct checkpoint_agent *agents,
                         struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < agent_table_count(t->agents) && rc == 0; i++) {
        agents[i].name = t->specs.spec[i].name;
        agents[i].description = &agent_table_description(t->agents, i)->body;
        rc = agent_table_block(t->agents, i, &agents[i].block, &agents[i].block_bytes,
                               err);
    }
    return rc;
}

static int begin_checkpoint(struct training *t, uint64_t step,
                            const struct checkpoint_agent *agents, struct err *err)
{
    const char *build_id = t->args->binaries->build_id;
    const char *fingerprint = agent_table_fingerprint(t->agents);
    uint8_t *rollout, *log;
    size_t rollout_bytes, log_bytes;
    int rc;

    rollout_state_save(t->rollout, &rollout, &rollout_bytes);
    store_state_save(t->store, &log, &log_bytes);
    const struct checkpoint_section sections[] = {
        {RESUME_ROLLOUT, rollout, rollout_bytes},
        {RESUME_EXPERIENCE, log, log_bytes},
        {RESUME_BUILD_ID, build_id, strlen(build_id)},
        {RESUME_FINGERPRINT, fingerprint, strlen(fingerprint)},
        {RESUME_CONFIG, t->config_yaml, strlen(t->config_yaml)},
    };
    rc = checkpointer_begin(t->checkpointer, step, agents, agent_table_count(t->agents),
                            sections, sizeof(sections) / sizeof(sections[0]), err);
    free(rollout);
    free(log);
    return rc;
}

/* A checkpoint that cannot be written leaves the older ones whole; the run goes on and
 * tries again at the next. */
static void on_checkpoint_over(struct training *t, uint64_t step, const struct err *why)
{
    if (why == NULL)
        t->saved_step = step;
    else
        say(t, "no checkpoint at step %llu: %s", (unsigned long long)step, why->msg);
    journal_write(t->journal, step, why != NULL ? "checkpoint-failed" : "checkpoint",
                  why != NULL ? "error" : NULL, why != NULL ? why->msg : NULL, NULL);
}

/* Copies what the checkpoint of this boundary needs. 0: it has to wait, for the one that
 * is being written or for an agent that is being restarted. */
static int take_checkpoint(struct training *t)
{
    struct checkpoint_agent *agents;
    uint64_t step = steps_now(t);
    struct err err = {0};
    int rc;

    if (checkpointer_is_busy(t->checkpointer))
        return 0;
    agents = xcalloc(agent_table_count(t->agents), sizeof(*agents));
    rc = gather_agents(t, agents, &err);
    if (rc == 0)
        rc = begin_checkpoint(t, step, agents, &err);
    free(agents);
    if (rc < 0 && rc != UV_EAGAIN)
        on_checkpoint_over(t, step, &err);
    return rc != UV_EAGAIN;
}

static int on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    struct training *t = ctx;

    (void)at;
    (void)err;
    t->checkpoint_waits = !take_checkpoint(t);
    return t->checkpoint_waits ? ROLLOUT_CHECKPOINT_WAITS : 0;
}

/* What the checkpoint waited for may be over. */
static void retry_checkpoint(struct training *t)
{
    if (!t->checkpoint_waits || t->stopping || !take_checkpoint(t))
        return;
    t->checkpoint_waits = 0;
    rollout_checkpoint_taken(t->rollout);
}

static void on_written(void *ctx, uint64_t step, const struct err *why)
{
    struct training *t = ctx;

    on_checkpoint_over(t, step, why);
    retry_checkpoint(t);
}

/* ---- what the agents do ---- */

static void journal_agent(struct training *t, const struct agent_event *e,
                          const char *event)
{
    char pid[24], code[24];

    (void)snprintf(pid, sizeof(pid), "%d", (int)e->pid);
    (void)snprintf(code, sizeof(code), "%d", e->exit_code);
    if (e->kind != AGENT_EVENT_EXIT)
        journal_write(t->journal, steps_now(t), event, "agent",
                      t->specs.spec[e->agent].name, "pid", pid, NULL);
    else if (e->signal != 0)
        journal_write(t->journal, steps_now(t), event, "agent",
                      t->specs.spec[e->agent].name, "pid", pid, "signal",
                      strsignal(e->signal), NULL);
    else
        journal_write(t->journal, steps_now(t), event, "agent",
                      t->specs.spec[e->agent].name, "pid", pid, "code", code, NULL);
}

static void on_agent_event(void *ctx, const struct agent_event *e)
{
    struct training *t = ctx;
    const char *name = t->specs.spec[e->agent].name;

    switch (e->kind) {
    case AGENT_EVENT_SPAWN:
        journal_agent(t, e, "spawn");
        break;
    case AGENT_EVENT_READY:
        journal_agent(t, e, "ready");
        retry_checkpoint(t);
        break;
    case AGENT_EVENT_EXIT:
        journal_agent(t, e, "exit");
        if (!t->stopping && e->signal != 0)
            say(t, "%s (pid %d) was ended by SIG%s", name, (int)e->pid,
                sigabbrev_np(e->signal));
        else if (!t->stopping && e->exit_code != AGENT_EXIT_NO_RESPAWN)
            say(t, "%s (pid %d) ended with code %d", name, (int)e->pid, e->exit_code);
        break;
    case AGENT_EVENT_RESPAWN:
        t->result->restarts++;
        journal_agent(t, e, "respawn");
        say(t, "%s lives on as pid %d", name, (int)e->pid);
        break;
    }
    if (t->args->observer.on_agent != NULL)
        t->args->observer.on_agent(t->args->observer.ctx, e, name);
}

static void on_agent_failed(void *ctx, size_t agent, const struct err *report)
{
    (void)agent;
    fail(ctx, report);
}

static int open_sinks(struct training *t, struct err *err)
{
    const char *csv = run_dir_file(t->args->dir, "metrics/progress.csv");
    const char *events = run_dir_file(t->args->dir, "metrics");
    uint64_t step = steps_now(t);
    char host[64] = "localhost";
    int rc;

    (void)gethostname(host, sizeof(host) - 1);
    if (t->args->resume == NULL) {
        rc = csv_sink_open(&t->csv, csv, t->metrics, err);
        return rc < 0 ? rc : event_sink_open(&t->events, events, now_unix(), host, err);
    }
    rc = csv_sink_resume(&t->csv, csv, t->metrics, step, err);
    return rc < 0 ? rc
                  : event_sink_resume(&t->events, events, step, now_unix(), host, err);
}

/* Nothing on the disk has changed until all of the checkpoint has found its place. */
static int load_state(struct training *t, struct err *err)
{
    const struct resume *from = t->args->resume;
    const struct checkpoint_section *state = resume_section(from, RESUME_ROLLOUT);
    int rc = resume_check_agents(from, t->agents, t->args->anyway, err);

    if (rc == 0)
        rc = rollout_state_load(t->rollout, state->data, state->len, err);
    return rc < 0 ? rc : resume_settle(from, t->store, err);
}

static int start_driver(struct training *t, const struct rollout_args *args,
                        struct err *err)
{
    int rc = rollout_new(&t->rollout, args, err);

    if (rc == 0 && t->args->resume != NULL)
        rc = load_state(t, err);
    if (rc == 0)
        rc = open_sinks(t, err);
    return rc < 0 ? rc : rollout_start(t->rollout, err);
}

static void start_rollout(void *ctx)
{
    struct training *t = ctx;
    struct rollout_args args = {
        .config = t->config,
        .agents = t->agents,
        .env = t->env,
        .store = t->store,
        .metrics = t->metrics,
        .callbacks = {.on_row = on_row,
                      .on_checkpoint = on_checkpoint,
                      .on_evaluation = on_evaluation,
                      .on_done = on_rollout_done,
                      .on_failed = on_rollout_failed,
                      .ctx = t},
    };
    struct err err = {0};

    if (t->stopping)
        return;
    if (t->args->observer.on_start != NULL)
        t->args->observer.on_start(t->args->observer.ctx, t->agents);
    if (start_driver(t, &args, &err) < 0)
        fail(t, &err);
}

static void on_ready(void *ctx)
{
    struct training *t = ctx;
    const struct training_init *init = t->args->init;
    struct err err = {0};

    if (init == NULL)
        start_rollout(t);
    else if (restore_start(&t->restore, t->agents, init->checkpoints, init->step,
                           start_rollout, t, &err) < 0)
        fail(t, &err);
}

static void on_tick(uv_timer_t *timer)
{
    show(timer->data);
}

/* ---- the beginning ---- */

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    struct training *t = ctx;

    rollout_pack_configure(t->config, vec_env_spec(t->env), agent, restored, o);
}

static struct metrics *make_metrics(const struct env_spec *spec, int central)
{
    const char **names = xcalloc(spec->n_agents, sizeof(*names));
    const char **teams = xcalloc(spec->n_agents, sizeof(*teams));
    struct metrics *m;

    for (size_t i = 0; i < spec->n_agents; i++) {
        names[i] = spec->agents[i].name;
        teams[i] = spec->agents[i].team;
    }
    m = metrics_new(names, teams, spec->n_agents, central, uv_hrtime());
    free(names);
    free(teams);
    return m;
}

static int open_store(struct training *t, struct err *err)
{
    const char *path = run_dir_file(t->args->dir, "experience");
    uint64_t capacity = (uint64_t)t->config->experience.capacity;
    const struct checkpoint_section *s;

    if (t->args->resume == NULL)
        return store_create(&t->store, path, capacity, err);
    s = resume_section(t->args->resume, RESUME_EXPERIENCE);
    return store_open(&t->store, path, capacity, s->data, s->len, err);
}

static int open_files(struct training *t, struct err *err)
{
    struct run_dir *dir = t->args->dir;
    int rc;

    rc = journal_open(&t->journal, run_dir_file(dir, "journal"), err);
    if (rc == 0)
        rc = vec_env_new(&t->env, &t->config->env, t->config->run.seed,
                         ENV_DRAWS_TRAINING, 0, err);
    if (rc < 0)
        return rc;
    vec_env_reset(t->env);
    t->metrics = make_metrics(vec_env_spec(t->env), agent_specs_need_central(t->config));
    return open_store(t, err);
}

/* A run's beginning: its provenance is written once. */
static double began_unix(struct training *t)
{
    struct stat st;

    return stat(run_dir_file(t->args->dir, "provenance"), &st) == 0
               ? (double)st.st_mtim.tv_sec
               : now_unix();
}

static void make_checkpointer(struct training *t)
{
    struct checkpointer_args args = {
        .loop = &t->loop,
        .dir = run_dir_file(t->args->dir, "checkpoints"),
        .store = t->store,
        .keep = {.max = (size_t)t->config->checkpoint.max_to_keep,
                 .every_s = t->config->checkpoint.keep_checkpoint_every_n_hours * 3600,
                 .began_unix = began_unix(t)},
        .on_written = on_written,
        .ctx = t};

    t->config_yaml = run_config_to_yaml(t->config);
    t->checkpointer = checkpointer_new(&args);
}

static int make_agents(struct training *t, struct err *err)
{
    struct agent_callbacks cb = {.on_event = on_agent_event,
                                 .on_ready = on_ready,
                                 .on_failed = on_agent_failed,
                                 .on_stopped = on_stopped,
                                 .ctx = t};
    int rc;

    agent_specs_init(&t->specs, vec_env_spec(t->env), agent_specs_need_central(t->config),
                     t->args->dir, pack_configure);
    t->agent_fd = binaries_open_agent(t->args->binaries, err);
    if (t->agent_fd < 0)
        return t->agent_fd;
    rc = agent_table_new(&t->agents, &t->loop, t->agent_fd, store_agent_fd(t->store),
                         t->specs.spec, t->specs.n, &cb, err);
    if (rc == 0 && t->args->resume != NULL)
        rc = resume_preload(t->args->resume, t->agents, err);
    return rc;
}

static void watch(struct training *t)
{
    uint64_t tick_ms = t->args->observer.tick_ms;

    CHECK(uv_timer_init(&t->loop, &t->tick) == 0);
    t->tick.data = t;
    if (t->args->observer.on_tick != NULL && tick_ms > 0)
        CHECK(uv_timer_start(&t->tick, on_tick, tick_ms, tick_ms) == 0);
    for (int i = 0; i < N_SIGNALS; i++) {
        CHECK(uv_signal_init(&t->loop, &t->signals[i]) == 0);
        t->signals[i].data = t;
        CHECK(uv_signal_start(&t->signals[i], on_signal, handled_signals[i]) == 0);
    }
}

/* Agents that could not all be started are stopped like any others. */
static void start_agents(struct training *t)
{
    struct err err = {0};

    if (agent_table_start(t->agents, &err) < 0)
        fail(t, &err);
}

static void release(struct training *t)
{
    rollout_free(t->rollout);
    checkpointer_free(t->checkpointer);
    free(t->config_yaml);
    restore_free(t->restore);
    agent_table_free(t->agents);
    if (t->agent_fd >= 0)
        (void)close(t->agent_fd);
    agent_specs_done(&t->specs);
    event_sink_close(t->events);
    csv_sink_close(t->csv);
    store_free(t->store);
    metrics_free(t->metrics);
    vec_env_free(t->env);
    journal_close(t->journal);
    CHECK(uv_loop_close(&t->loop) == 0, "a handle was left open");
}

static void finish(struct training *t)
{
    struct rollout_progress at = {0};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    t->result->env_steps = at.env_steps;
    t->result->episodes = at.episodes;
    t->result->wall_seconds = (double)(uv_hrtime() - t->began_ns) * 1e-9;
    if (t->result->end == TRAINING_DONE && !t->config->experience.keep &&
        t->saved_step == at.env_steps &&
        unlink(run_dir_file(t->args->dir, "experience")) < 0)
        log_warn("the experience log could not be removed: %m");
}

int training_run(const struct training_args *args, struct training_result *ret,
                 struct err *err)
{
    struct training *t = xcalloc(1, sizeof(*t));
    int rc;

    *ret = (struct training_result){.end = TRAINING_FAILED, .team_return_mean = NAN};
    t->args = args;
    t->config = args->config;
    t->result = ret;
    t->agent_fd = -1;
    t->began_ns = uv_hrtime();
    CHECK(uv_loop_init(&t->loop) == 0);
    rc = open_files(t, err);
    if (rc == 0)
        rc = make_agents(t, err);
    if (rc == 0) {
        make_checkpointer(t);
        if (args->resume != NULL)
            journal_write(t->journal, steps_now(t), "resume", "build",
                          args->binaries->build_id, NULL);
        watch(t);
        start_agents(t);
        (void)uv_run(&t->loop, UV_RUN_DEFAULT);
        finish(t);
        rc = t->failure.code;
        if (rc < 0 && err != NULL)
            *err = t->failure;
    }
    release(t);
    free(t);
    return rc;
}
