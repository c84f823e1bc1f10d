#include "supervisor/run/eval.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "supervisor/env/env_host.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/run/agent_specs.h"
#include "supervisor/run/restore.h"

#include <stdlib.h>
#include <unistd.h>

enum { STOP_DEADLINE_MS = 2000 };

struct eval {
    const struct eval_args *args;
    struct err failure; /* the first; code 0: none */
    uv_loop_t loop;
    struct vec_env *world; /* for its description: the evaluation steps its own */
    struct agent_specs specs;
    struct agent_table *agents;
    struct env_host *env_host;
    struct restore *restore;
    struct evaluation *evaluation;
};

static void stop(struct eval *e, const struct err *err)
{
    if (err != NULL && e->failure.code == 0)
        e->failure = *err;
    env_host_stop(e->env_host, STOP_DEADLINE_MS);
    agent_table_stop(e->agents, STOP_DEADLINE_MS);
}

static void on_agent_failed(void *ctx, size_t agent, const struct err *report)
{
    (void)agent;
    stop(ctx, report);
}

static void on_failed(void *ctx, const struct err *err)
{
    stop(ctx, err);
}

static void on_done(void *ctx, const struct evaluation_result *result)
{
    struct eval *e = ctx;

    e->args->on_result(e->args->ctx, vec_env_spec(e->world), result);
    stop(e, NULL);
}

static void on_begin(void *ctx, const struct vec_env *env, size_t copy)
{
    struct eval *e = ctx;

    if (e->args->on_begin != NULL)
        e->args->on_begin(e->args->ctx, env, copy);
}

static void on_step(void *ctx, const struct vec_env *env, const struct env_step *step)
{
    struct eval *e = ctx;

    if (e->args->on_step != NULL)
        e->args->on_step(e->args->ctx, env, step);
}

static void start_evaluation(void *ctx)
{
    struct eval *e = ctx;
    struct evaluation_args args = {.env = &e->args->config->env,
                                   .copies = e->args->copies,
                                   .episodes = e->args->episodes,
                                   .max_steps =
                                       (uint64_t)e->args->config->evaluation.max_steps,
                                   .seed = e->args->seed,
                                   .mode = e->args->mode,
                                   .agents = e->agents,
                                   .env_host = e->env_host,
                                   .on_done = on_done,
                                   .on_failed = on_failed,
                                   .on_begin = on_begin,
                                   .on_step = on_step,
                                   .ctx = e};
    struct err err = {0};

    if (evaluation_new(&e->evaluation, &args, &err) < 0 ||
        evaluation_start(e->evaluation, &err) < 0)
        stop(e, &err);
}

static void on_ready(void *ctx)
{
    struct eval *e = ctx;
    struct err err = {0};

    if (restore_start(&e->restore, e->agents, e->args->checkpoints, e->args->step, NULL,
                      start_evaluation, e, &err) < 0)
        stop(e, &err);
}

static void on_event(void *ctx, const struct agent_event *event)
{
    (void)ctx;
    (void)event;
}

/* What it dies of is told where it matters; a bad end is told here. */
static void on_env_event(void *ctx, const struct agent_event *e, const char *process)
{
    (void)ctx;
    if (e->kind == AGENT_EVENT_EXIT && e->text != NULL && e->signal == 0)
        log_warn("%s (pid %d): %s", process, (int)e->pid, e->text);
}

static void on_inexact(void *ctx, const char *line)
{
    (void)ctx;
    log_warn("%s", line);
}

static void on_stopped(void *ctx)
{
    (void)ctx; /* the loop runs dry */
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    struct eval *e = ctx;

    rollout_pack_configure(e->args->config, vec_env_spec(e->world), agent, restored,
                           policies_of(e->args->policies, agent), o);
}

/* Episodes are played by the learners alone. */
static int start_agents(struct eval *e, int agent_fd, struct err *err)
{
    struct agent_callbacks cb = {.on_event = on_event,
                                 .on_ready = on_ready,
                                 .on_failed = on_agent_failed,
                                 .on_stopped = on_stopped,
                                 .ctx = e};
    struct env_host_args host = {.loop = &e->loop,
                                 .agent_exe_fd = agent_fd,
                                 .on_event = on_env_event,
                                 .on_inexact = on_inexact,
                                 .on_failed = on_failed,
                                 .on_stopped = on_stopped,
                                 .ctx = e};
    struct err failed = {0};
    int rc;

    e->env_host = env_host_new(&host);
    agent_specs_init(&e->specs, e->args->config, vec_env_spec(e->world), 0, NULL,
                     pack_configure);
    rc = agent_table_new(&e->agents, &e->loop, agent_fd, -1, e->specs.spec, e->specs.n,
                         &cb, err);
    if (rc == 0 && agent_table_start(e->agents, &failed) < 0)
        stop(e, &failed);
    return rc;
}

int eval_run(const struct eval_args *args, struct err *err)
{
    struct eval e = {.args = args};
    int agent_fd, rc;

    agent_fd = binaries_open_agent(args->binaries, err);
    if (agent_fd < 0)
        return agent_fd;
    CHECK(uv_loop_init(&e.loop) == 0);
    rc = vec_env_new(&e.world, &args->config->env, args->seed, ENV_DRAWS_EVALUATION, 1,
                     err);
    if (rc == 0)
        rc = start_agents(&e, agent_fd, err);
    if (rc == 0) {
        (void)uv_run(&e.loop, UV_RUN_DEFAULT);
        rc = e.failure.code;
        if (rc < 0 && err != NULL)
            *err = e.failure;
    }
    evaluation_free(e.evaluation);
    restore_free(e.restore);
    agent_table_free(e.agents);
    agent_specs_done(&e.specs);
    vec_env_free(e.world);
    env_host_free(e.env_host);
    CHECK(uv_loop_close(&e.loop) == 0, "a handle was left open");
    (void)close(agent_fd);
    return rc;
}
