#include "supervisor/run/training_internal.h"

#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rundir/journal_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double training_now_unix(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *training_end_name(enum training_end end)
{
    static const char *const names[] = {[TRAINING_DONE] = "done",
                                        [TRAINING_STOPPED] = "stopped",
                                        [TRAINING_CUT_OFF] = "cut off",
                                        [TRAINING_FAILED] = "failed"};

    return names[end];
}

int training_event_at(struct training *t, const struct run_event *e, struct err *err)
{
    struct run_event now = *e;
    int rc = 0;

    (void)log_time(now.time);
    (void)run_event_fold(&t->model, &now);
    rc = journal_write(t->journal, &now, err);
    /* the change is refused */
    if (rc < 0 && (e->kind == RUN_EVENT_SET || e->kind == RUN_EVENT_WAITS ||
                   e->kind == RUN_EVENT_CANCEL))
        return rc;
    for (size_t i = 0; i < t->args->n_observers; i++)
        if (t->args->observers[i].on_event != NULL)
            t->args->observers[i].on_event(t->args->observers[i].ctx, &now);
    return rc;
}

/* A journal that cannot be read fails the resume later (training_plan_mode_changes). */
void training_read_history(struct training *t)
{
    if (t->args->resume != NULL)
        (void)journal_fold(run_dir_file(t->args->dir, "journal"), &t->model, NULL);
}

void training_journal_begin(struct training *t)
{
    struct run_event e = {
        .kind = t->args->resume != NULL ? RUN_EVENT_RESUME : RUN_EVENT_START,
        .env_steps = training_steps(t),
        .begin = {.pid = getpid(),
                  .keeper = keeper_pid(),
                  .build = t->args->binaries->build_id,
                  .numerics = numerics_names[t->config->run.numerics],
                  .version = NUMERICS_VERSION},
    };

    run_dir_begin(t->args->dir);
    training_event_at(t, &e, NULL);
}

/* "op Pow (layer/Pow) of agent_0": the first operation that calls the C library's
 * mathematics; free(). NULL: there is none. */
static char *first_op_of_libm(const struct training *t)
{
    for (size_t i = 0; i < t->specs.n; i++) {
        const msgpack_object *body = &agent_table_description(t->agents, i)->body;
        char op[256] = "";
        int portable = 1;

        (void)msg_get_bool(body, "portable", &portable, NULL);
        (void)msg_get_str(body, "because", op, sizeof(op), NULL);
        if (!portable)
            return xasprintf("%s of %s", op, t->specs.spec[i].name);
    }
    return NULL;
}

void training_check_portable(struct training *t)
{
    char *why;

    if (t->config->run.numerics == NUMERICS_NATIVE)
        why = xstrdup("run.numerics is native");
    else if (env_config_is_external(&t->config->env))
        why = xasprintf("an external environment (env.%s)",
                        t->config->env.plugin != NULL ? "plugin" : "command");
    else
        why = first_op_of_libm(t);
    if (why != NULL)
        training_event(t, NOT_PORTABLE, .why = why);
    free(why);
}

static void write_words(const char *what, const struct yaml_node *words, FILE *f)
{
    for (size_t i = 0; words != NULL && i < words->n; i++)
        (void)fprintf(f, "%s %s", i == 0 ? what : ",", words->child[i]->text);
}

void training_note_opened(struct training *t)
{
    for (size_t i = 0; i < t->config->n_agents; i++) {
        const struct agent_config *a = &t->config->agents[i];
        const struct confine_config *c = &a->confine;
        struct xstream text;
        FILE *f;
        char *line;

        if (!c->threads && c->files == NULL && c->devices == NULL)
            continue;
        f = xstream_begin(&text);
        (void)fprintf(f, "%s may%s", a->name, c->threads ? " start threads" : "");
        write_words(c->threads ? ", change files:" : " change files:", c->files, f);
        write_words(c->threads || c->files != NULL ? ", use devices:" : " use devices:",
                    c->devices, f);
        line = xstream_end(&text);
        training_event(t, OPENED, .why = line);
        free(line);
    }
}

static int exit_code(const struct training_result *r, int rc)
{
    switch (r->end) {
    case TRAINING_DONE:
        return RUN_EXIT_DONE;
    case TRAINING_STOPPED:
        return RUN_EXIT_STOPPED;
    case TRAINING_CUT_OFF:
        return RUN_EXIT_SIGNALLED + r->signum;
    case TRAINING_FAILED:
        break;
    }
    return rc == ERR_CONFIG ? RUN_EXIT_CONFIG : RUN_EXIT_FAILED;
}

void training_record_failure(struct training *t, const struct err *why)
{
    struct run_event e = {.kind = RUN_EVENT_FAILED, .env_steps = training_steps(t)};

    run_event_set_failure(&e, why);
    training_event_at(t, &e, NULL);
}

void training_journal_end(struct training *t, int rc)
{
    struct training_result *r = t->result;
    struct rollout_progress at = {0};
    struct run_event e = {.kind = RUN_EVENT_END, .env_steps = training_steps(t)};
    struct err err = {0};

    r->exit_code = exit_code(r, rc);
    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    e.end.state = training_end_name(r->end);
    e.end.code = r->exit_code;
    e.end.pid = getpid();
    e.end.episodes = at.episodes;
    e.end.rounds = at.round;
    e.end.updates = at.updates;
    e.end.restarts = r->restarts;
    e.end.seconds = r->wall_seconds;
    e.end.team_return = r->team_return_mean;
    if (training_event_at(t, &e, &err) < 0)
        log_warn("%s", err.msg);
}

/* Writes the line to the log and to whoever watches. */
static void __attribute__((format(printf, 3, 0)))
vlog(struct training *t, int is_error, const char *fmt, va_list ap)
{
    char line[1024];

    (void)vsnprintf(line, sizeof(line), fmt, ap);
    log_line(is_error ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "%s", line);
    training_event(t, MESSAGE, .message = {.text = line, .error = is_error});
}

void training_log(struct training *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vlog(t, 0, fmt, ap);
    va_end(ap);
}

void training_log_error(struct training *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vlog(t, 1, fmt, ap);
    va_end(ap);
}

uint64_t training_steps(const struct training *t)
{
    struct rollout_progress at = {0};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    else if (t->args->resume != NULL)
        at = *resume_progress(t->args->resume);
    return at.env_steps;
}

void training_refresh(struct training *t)
{
    training_update_rate(t);
    for (size_t i = 0; i < t->args->n_observers; i++)
        if (t->args->observers[i].on_tick != NULL)
            t->args->observers[i].on_tick(t->args->observers[i].ctx, t);
}

void training_on_evaluation(void *ctx, const struct evaluation_result *result)
{
    struct training *t = ctx;
    const char **names = xcalloc(result->n_agents, sizeof(*names));

    for (size_t i = 0; i < result->n_agents; i++)
        names[i] = t->specs.spec[i].name;
    training_event(t, EVALUATION, .evaluation = {.result = result, .agents = names});
    free(names);
    if (t->sinks.renders != NULL)
        renders_evaluated(t->sinks.renders, t->config, training_steps(t),
                          training_now_unix(), result);
}

void training_on_evaluation_begin(void *ctx, const struct vec_env *env, size_t copy)
{
    const struct training *t = ctx;

    if (t->sinks.renders != NULL)
        renders_begin(t->sinks.renders, t->config, env, copy);
}

void training_on_evaluation_step(void *ctx, const struct vec_env *env,
                                 const struct env_step *step)
{
    const struct training *t = ctx;

    if (t->sinks.renders != NULL)
        renders_step(t->sinks.renders, env, step);
}
