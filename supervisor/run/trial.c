#include "supervisor/run/trial.h"

#include "common/config/algorithms.h"
#include "common/err/check.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rollout/rollout.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_DEADLINE_MS = 1000 };

struct trial {
    const struct agent_spec *spec;
    void *ctx; /* of its pack_configure */
    uv_loop_t loop;
    struct agent_table *agents; /* of one */
    int is_ready, is_stopped;
    struct err failure; /* code 0: none */
};

static void on_ready(void *ctx)
{
    ((struct trial *)ctx)->is_ready = 1;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    (void)agent;
    ((struct trial *)ctx)->failure = *report;
}

static void on_stopped(void *ctx)
{
    ((struct trial *)ctx)->is_stopped = 1;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct trial *t = ctx;

    t->spec->pack_configure(t->ctx, agent, restored, o);
}

static int start(struct trial *t, int agent_exe_fd, struct err *err)
{
    const struct agent_limits limits = {.respond_within_s = TRIAL_WITHIN_S};
    const struct agent_spec spec = {.name = t->spec->name,
                                    .role = t->spec->role,
                                    .pack_configure = pack_configure,
                                    .limits = &limits,
                                    .is_trial = 1};
    const struct agent_callbacks cb = {
        .on_ready = on_ready, .on_failed = on_failed, .on_stopped = on_stopped, .ctx = t};
    int rc = agent_table_new(&t->agents, &t->loop, agent_exe_fd, -1, &spec, 1, &cb, err);

    return rc < 0 ? rc : agent_table_start(t->agents, err);
}

static void stop(struct trial *t)
{
    if (t->agents != NULL)
        agent_table_stop(t->agents, STOP_DEADLINE_MS);
    while (t->agents != NULL && !t->is_stopped)
        (void)uv_run(&t->loop, UV_RUN_ONCE);
    agent_table_free(t->agents);
    (void)uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&t->loop) == 0, "a handle was left open");
}

/* "agent agent_0 (pid 4711): configure: why": why. NULL: it gave no answer. */
static const char *answer(const struct trial *t)
{
    static const char mark[] = "): configure: ";
    const char *why = strstr(t->failure.msg, mark);

    return why != NULL ? why + sizeof(mark) - 1 : NULL;
}

static int judge(const struct trial *t, const struct msg *now, struct err *err)
{
    if (t->failure.code != 0)
        return err_set(err, ERR_CONFIG, "%s: %s", t->spec->name,
                       answer(t) != NULL ? answer(t) : t->failure.msg);
    if (!msgpack_object_equal(agent_table_description(t->agents, 0)->body, now->body))
        return err_set(err, ERR_CONFIG,
                       "%s would have other variables or stages than it has",
                       t->spec->name);
    return 0;
}

static int run(struct trial *t, int agent_exe_fd, struct err *err)
{
    int rc;

    CHECK(uv_loop_init(&t->loop) == 0);
    rc = start(t, agent_exe_fd, err);
    while (rc == 0 && !t->is_ready && t->failure.code == 0)
        (void)uv_run(&t->loop, UV_RUN_ONCE);
    return rc;
}

int trial_configure(int agent_exe_fd, const struct agent_spec *spec, void *ctx,
                    const struct msg *now, struct err *err)
{
    struct trial t = {.spec = spec, .ctx = ctx};
    int rc = run(&t, agent_exe_fd, err);

    if (rc == 0)
        rc = judge(&t, now, err);
    stop(&t);
    return rc;
}

/* ---- the agents of a run that is to begin ---- */

struct tried {
    const struct run_config *config;
    const struct env_spec *spec;
    size_t agent;
};

static void pack_tried(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct tried *x = ctx;

    rollout_pack_configure(x->config, x->spec, x->agent, restored, NULL, o);
}

/* But for its name it is the agent before it. */
static int is_like_last(const struct tried *x)
{
    const struct env_agent *own = &x->spec->agents[x->agent], *last = own - 1;
    char *sections[2];
    int same;

    if (x->agent == 0 || strcmp(own->team, last->team) != 0 ||
        own->obs_width != last->obs_width ||
        memcmp(&own->space, &last->space, sizeof(own->space)) != 0)
        return 0;
    sections[0] = agent_config_to_yaml(&x->config->agents[x->agent]);
    sections[1] = agent_config_to_yaml(&x->config->agents[x->agent - 1]);
    same = strcmp(sections[0], sections[1]) == 0;
    free(sections[0]);
    free(sections[1]);
    return same;
}

static int is_known_here(const struct tried *x)
{
    const struct agent_config *a = &x->config->agents[x->agent];

    return !algorithm_accepts(algorithm_find(a->algorithm), "from");
}

/* The process has a name of its own: it is none of the run. */
static int try_one(struct tried *x, int agent_exe_fd, struct err *err)
{
    const struct agent_spec spec = {
        .name = "trial", .role = "learner", .pack_configure = pack_tried};
    struct trial t = {.spec = &spec, .ctx = x};
    int rc = run(&t, agent_exe_fd, err);

    if (rc == 0 && t.failure.code != 0 && answer(&t) != NULL)
        rc = err_set(err, ERR_CONFIG, "%s", answer(&t));
    else if (rc == 0 && t.failure.code == ERR_NOMEM)
        rc = err_set(err, ERR_NOMEM, "%s", t.failure.msg); /* nor will there be later */
    stop(&t);
    return rc;
}

static int try_each(struct tried *x, size_t *ret_agent, struct err *err)
{
    struct binaries bin;
    int fd, rc = binaries_find(&bin, err);

    if (rc < 0 || (fd = binaries_open_agent(&bin, err)) < 0)
        return rc < 0 ? rc : fd;
    for (; x->agent < x->config->n_agents && rc == 0; x->agent++) {
        *ret_agent = x->agent;
        if (is_known_here(x) && !is_like_last(x))
            rc = try_one(x, fd, err);
    }
    (void)close(fd);
    return rc;
}

int trial_agents(const struct run_config *c, size_t *ret_agent, struct err *err)
{
    struct vec_env *env = NULL;
    struct tried x = {.config = c};
    int rc = vec_env_new(&env, &c->env, c->run.seed, ENV_DRAWS_TRAINING, 1, err);

    if (rc < 0)
        return rc;
    x.spec = vec_env_spec(env);
    rc = try_each(&x, ret_agent, err);
    vec_env_free(env);
    return rc;
}
