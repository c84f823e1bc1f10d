#include "supervisor/begin/eval.h"

#include "common/log/log.h"
#include "supervisor/begin/players.h"
#include "supervisor/env/env_host.h"

#include <inttypes.h>
#include <unistd.h>

struct eval {
    const struct eval_args *args;
    int agent_fd;
    struct players *players;
    struct ask *ask; /* the players' */
    struct env_host *env_host;
    struct evaluation *evaluation;
};

/* ---- the processes of an external environment ---- */

/* Logs an exit with an error. A failed step is reported by the caller that requested
 * it. */
static void on_env_event(void *ctx, const struct agent_event *e, const char *process)
{
    if (e->kind == AGENT_EVENT_EXIT && e->text != NULL && e->signal == 0)
        log_warn("%s (pid %d): %s", process, (int)e->pid, e->text);
}

static void on_inexact(void *ctx, const char *line)
{
    log_warn("%s", line);
}

static void on_skipped(void *ctx, const struct env_skip *s)
{
    log_warn("%s: episode %" PRIu64 " is skipped, it fails: %s", s->process, s->episode,
             s->why);
}

static void on_failed(void *ctx, const struct err *why)
{
    ask_fail(((struct eval *)ctx)->ask, why);
}

static void on_env_stopped(void *ctx)
{
    (void)ctx; /* ask_close runs the loop until it has no handles */
}

/* ---- the episodes ---- */

static void on_done(void *ctx, const struct evaluation_result *result)
{
    struct eval *e = ctx;

    e->args->on_result(e->args->ctx, players_spec(e->players), result);
    ask_done(e->ask);
}

static void on_begin(void *ctx, const struct vec_env *env, size_t copy)
{
    const struct eval_args *args = ((struct eval *)ctx)->args;

    args->on_begin(args->ctx, env, copy);
}

static void on_step(void *ctx, const struct vec_env *env, const struct env_step *step)
{
    const struct eval_args *args = ((struct eval *)ctx)->args;

    args->on_step(args->ctx, env, step);
}

static int play(struct eval *e, struct err *err)
{
    const struct eval_args *a = e->args;
    const struct evaluation_args args = {
        .config = a->config,
        .env = &a->config->env,
        .copies = a->copies,
        .episodes = a->episodes,
        .max_steps = (uint64_t)a->config->evaluation.max_steps,
        .seed = a->seed,
        .mode = a->mode,
        .agents = ask_agents(e->ask),
        .env_host = e->env_host,
        .on_done = on_done,
        .on_failed = on_failed,
        .on_begin = a->on_begin != NULL ? on_begin : NULL,
        .on_step = a->on_step != NULL ? on_step : NULL,
        .ctx = e};
    int rc = evaluation_new(&e->evaluation, &args, err);

    if (rc == 0)
        rc = evaluation_start(e->evaluation, a->step, err);
    return rc < 0 ? rc : ask_wait(e->ask, err);
}

int eval_run(const struct eval_args *args, struct err *err)
{
    struct eval e = {.args = args};
    struct players_args players = {.config = args->config,
                                   .policies = args->policies,
                                   .weights = args->weights,
                                   .resized = args->resized,
                                   .seed = args->seed};
    int rc;

    e.agent_fd = players.agent_exe_fd = binaries_open_agent(args->binaries, err);
    if (e.agent_fd < 0)
        return e.agent_fd;
    rc = players_open(&e.players, &players, err);
    e.ask = players_ask(e.players);
    if (rc == 0) {
        const struct env_host_args host = {.loop = ask_loop(e.ask),
                                           .agent_exe_fd = e.agent_fd,
                                           .on_event = on_env_event,
                                           .on_inexact = on_inexact,
                                           .on_failed = on_failed,
                                           .on_skipped = on_skipped,
                                           .on_stopped = on_env_stopped,
                                           .ctx = &e};

        e.env_host = env_host_new(&host);
        rc = play(&e, err);
        env_host_stop(e.env_host, ASK_END_WITHIN_MS);
    }
    players_close(e.players);
    evaluation_free(e.evaluation);
    env_host_free(e.env_host);
    (void)close(e.agent_fd);
    return rc;
}
