#include "supervisor/run/trial.h"

#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "supervisor/ask/ask.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rollout/sharing.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Starts one process. Of the agent's limits, only a response deadline applies. */
static int open_trial(struct ask **ret, int agent_exe_fd, const struct agent_spec *tried,
                      void *ctx, struct err *err)
{
    static const struct agent_limits limits = {.respond_within_s = TRIAL_WITHIN_S};
    const struct agent_spec spec = {.name = tried->name,
                                    .role = tried->role,
                                    .pack_configure = tried->pack_configure,
                                    .limits = &limits,
                                    .is_trial = 1};
    const struct ask_args args = {
        .agent_exe_fd = agent_exe_fd, .specs = &spec, .n = 1, .ctx = ctx};

    return ask_open(ret, &args, err);
}

/* ERR_CONFIG with the agent's error: the key of its configuration, if it named one, and the
 * message. */
static int refuse(const struct err *failure, struct err *err)
{
    return err_set_at(err, ERR_CONFIG, ERR_AT(.key = failure->key), "%s",
                      err_cause(failure));
}

int trial_configure(int agent_exe_fd, const struct agent_spec *spec, void *ctx,
                    const struct msg *now, struct err *err)
{
    struct ask *ask;
    struct err why;
    int rc = open_trial(&ask, agent_exe_fd, spec, ctx, &why);

    if (rc < 0 && !ask_process_failed(ask)) {
        (void)err_pass(err, &why);
    } else if (rc < 0) {
        rc = why.from_peer ? refuse(&why, err) : err_set(err, ERR_CONFIG, "%s", why.msg);
        (void)err_wrap(err, "%s", spec->name);
        (void)err_note(err, ERR_AT(.agent = spec->name));
    } else if (!msgpack_object_equal(*ask_answer(ask, 0), now->body)) {
        rc = err_set(err, ERR_CONFIG, "%s would have different variables or stages",
                     spec->name);
    }
    ask_close(ask);
    return rc;
}

/* ---- the agents of a new run ---- */

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

/* 1 if the agent differs from the one before it only in its name. */
static int is_like_last(const struct tried *x)
{
    const struct env_agent *own = &x->spec->agents[x->agent], *last = own - 1;

    if (x->agent == 0 || strcmp(own->team, last->team) != 0 ||
        own->obs_width != last->obs_width ||
        memcmp(&own->space, &last->space, sizeof(own->space)) != 0)
        return 0;
    return agent_config_is_same(&x->config->agents[x->agent],
                                &x->config->agents[x->agent - 1]);
}

/* A frozen agent needs a policy, which only the run itself looks up. */
static int is_frozen(const struct tried *x)
{
    const struct agent_config *a = &x->config->agents[x->agent];

    return algorithm_accepts(algorithm_find(a->algorithm), "from");
}

/* The process is named "trial", because it is none of the run's. Its death is no failure
 * (the run would restart it), unless memory was short: that would happen again. */
static int try_one(struct tried *x, int agent_exe_fd, struct err *err)
{
    const struct agent_spec spec = {
        .name = "trial", .role = "learner", .pack_configure = pack_tried};
    struct ask *ask;
    struct err why;
    int rc = open_trial(&ask, agent_exe_fd, &spec, x, &why);

    if (rc < 0 && why.from_peer)
        rc = refuse(&why, err);
    else if (rc == ERR_NOMEM || (rc < 0 && !ask_process_failed(ask)))
        (void)err_pass(err, &why);
    else
        rc = 0;
    ask_close(ask);
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
        if (!is_frozen(x) && !is_like_last(x))
            rc = try_one(x, fd, err);
    }
    (void)close(fd);
    return rc;
}

int trial_agents(const struct run_config *c, size_t *ret_agent, struct err *err)
{
    struct vec_env *env = NULL;
    struct tried x = {.config = c};
    struct sharing sharing = {0};
    int rc = vec_env_new(&env, &c->env, c->run.seed, ENV_DRAWS_TRAINING, 1, err);

    if (rc < 0)
        return rc;
    x.spec = vec_env_spec(env);
    rc = sharing_init(&sharing, c, x.spec, ret_agent, err);
    if (rc == 0)
        rc = try_each(&x, ret_agent, err);
    sharing_done(&sharing);
    vec_env_free(env);
    return rc;
}
