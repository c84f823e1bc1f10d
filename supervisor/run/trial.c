#include "supervisor/run/trial.h"

#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/ask/ask.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/descriptors.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rollout/sharing.h"
#include "supervisor/run/renders.h"

#include <inttypes.h>
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

/* The agent's error: ERR_CONFIG with the key of its configuration, if it named one, and the
 * message; or a failure of the machine. */
static int refuse(const struct err *failure, struct err *err)
{
    if (err_is_failure(failure->code))
        return err_pass(err, failure);
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
    struct vec_env *env;
    const struct env_spec *spec;
    const struct rollout_policy *policy; /* of a frozen agent */
    size_t agent;
    struct first_variables *variables; /* to be noted; NULL: not */
    struct description *descriptions;  /* [A] */
    uint64_t *block_bytes;             /* [A] */
    int is_complete;                   /* all of them are known */
    int no_start;                      /* programs are not started */
};

/* Makes the environment, and room for what the agents answer. */
static int begin(struct tried *x, const struct run_config *c, struct err *err)
{
    const int rc = vec_env_new(&x->env, &c->env, c->run.seed, ENV_DRAWS_TRAINING, 1, err);

    if (rc < 0)
        return rc;
    x->config = c;
    x->spec = vec_env_spec(x->env);
    x->descriptions = xcalloc(c->n_agents + 1, sizeof(*x->descriptions));
    x->block_bytes = xcalloc(c->n_agents + 1, sizeof(*x->block_bytes));
    return 0;
}

static void end(struct tried *x)
{
    free(x->descriptions);
    free(x->block_bytes);
    vec_env_free(x->env);
}

static void pack_tried(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct tried *x = ctx;

    rollout_pack_configure(x->config, x->spec, x->agent, restored, x->policy, o);
}

/* 1 if the agent differs from the one before it only in its name. */
static int is_like_last(const struct tried *x)
{
    const struct env_agent *own = &x->spec->agents[x->agent], *last = own - 1;

    if (x->agent == 0 || strcmp(own->team, last->team) != 0 ||
        !env_sees_alike(own, last) || !env_acts_alike(own, last))
        return 0;
    return agent_config_is_same(&x->config->agents[x->agent],
                                &x->config->agents[x->agent - 1]);
}

static void note_answer(struct tried *x, const msgpack_object *answer)
{
    (void)msg_get_u64(answer, "block_bytes", UINT64_MAX, &x->block_bytes[x->agent], NULL);
    if (x->variables != NULL)
        first_variables_take(x->variables, x->agent, x->spec->agents[x->agent].name,
                             answer);
}

/* The process is named "trial", because it is none of the run's. Its death or a malformed
 * answer is not the configuration's fault, and the run handles both. A lack of memory is
 * an error, because it would happen again. */
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
    else if (rc < 0 || description_parse(&x->descriptions[x->agent], ask_answer(ask, 0),
                                         x->spec->agents[x->agent].name, &why) < 0)
        x->is_complete = rc = 0;
    else
        note_answer(x, ask_answer(ask, 0));
    ask_close(ask);
    return rc;
}

/* Returns a descriptor of the agent executable. */
static int open_agent_exe(struct err *err)
{
    struct binaries bin;
    const int rc = binaries_find(&bin, err);

    return rc < 0 ? rc : binaries_open_agent(&bin, err);
}

static int try_each(struct tried *x, size_t *ret_agent, struct err *err)
{
    const int fd = open_agent_exe(err);
    int rc = 0;

    if (fd < 0)
        return fd;
    for (; x->agent < x->config->n_agents && rc == 0; x->agent++) {
        struct description *d = &x->descriptions[x->agent];

        *ret_agent = x->agent;
        if (algorithm_brings_graph(&x->config->agents[x->agent])) {
            /* its file is looked up later */
            d->proposes = 1;
        } else if (x->no_start && x->config->agents[x->agent].command != NULL) {
            x->is_complete = 0;
        } else if (is_like_last(x)) {
            *d = d[-1];
            x->block_bytes[x->agent] = x->block_bytes[x->agent - 1];
            if (x->variables != NULL)
                first_variables_repeat(x->variables, x->agent);
        } else {
            rc = try_one(x, fd, err);
        }
    }
    (void)close(fd);
    return rc;
}

/* Checks that an update can be made of the stages and rows that the agents declare. */
static int try_together(const struct tried *x, const struct sharing *sharing,
                        size_t *ret_agent, struct err *err)
{
    const int rc = x->is_complete
                       ? rollout_check(x->config, x->spec, sharing, x->descriptions, err)
                       : 0;

    for (size_t i = 0; rc < 0 && i < x->config->n_agents; i++)
        if (strcmp(x->spec->agents[i].name, err->agent) == 0)
            *ret_agent = i;
    return rc;
}

/* Checks that the machine has enough memory and disk. */
static int try_size(const struct tried *x, struct trial *trial, size_t *ret_agent,
                    struct err *err)
{
    struct err why;
    int rc = estimate_make(&trial->estimate, x->config, x->spec, x->descriptions,
                           x->block_bytes, &why);

    if (rc == 0)
        rc = estimate_check(&trial->estimate, x->config, trial->runs_dir, ret_agent, err);
    else
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env"), "%s", why.msg);
    return rc;
}

int trial_agents(void *ctx, const struct run_config *c, size_t *ret_agent,
                 struct err *err)
{
    const struct trial *trial = ctx;
    struct tried x = {
        .is_complete = 1, .no_start = trial->no_start, .variables = trial->variables};
    struct sharing sharing = {0};
    int rc = descriptors_reserve(c->n_agents, err); /* of the run, not only of a trial */

    if (rc == 0 && trial->no_start && env_config_is_external(&c->env))
        return 0;
    if (rc == 0 && (rc = begin(&x, c, err)) < 0)
        *ret_agent = c->n_agents;
    if (rc < 0)
        return rc;
    if (trial->variables != NULL)
        first_variables_begin(trial->variables, c->n_agents);
    rc = renders_check(c, err);
    if (rc < 0)
        *ret_agent = c->n_agents;
    else
        rc = sharing_init(&sharing, c, x.spec, ret_agent, err);
    if (rc == 0)
        rc = try_each(&x, ret_agent, err);
    if (rc == 0)
        rc = try_together(&x, &sharing, ret_agent, err);
    if (rc == 0)
        rc = try_size(&x, ctx, ret_agent, err);
    sharing_done(&sharing);
    end(&x);
    return rc;
}

/* ---- later changes ---- */

static int are_settings_shared(const struct run_config *c)
{
    int is = rollout_needs_central(c);

    for (size_t i = 0; i < c->n_agents; i++)
        is |= c->agents[i].share != NULL && strcmp(c->agents[i].share, "none") != 0;
    return is;
}

static int check_sharing(void *ctx, uint64_t at, const struct run_config *c,
                         struct err *err)
{
    return sharing_check(c, ctx, err);
}

int trial_plan(const struct run_config *c, const struct change_plan *plan,
               struct err *err)
{
    struct vec_env *env = NULL;
    int rc;

    if (plan->n == 0 || !are_settings_shared(c))
        return 0;
    rc = vec_env_new(&env, &c->env, c->run.seed, ENV_DRAWS_TRAINING, 1, err);
    if (rc == 0)
        rc = change_plan_each_step(plan, c, check_sharing,
                                   (struct env_spec *)(uintptr_t)vec_env_spec(env), err);
    vec_env_free(env);
    return rc;
}

/* ---- frozen agents ---- */

/* Adds the place in the file that names the policy. */
static int place(const struct agent_config *a, const struct err *why, struct err *err)
{
    char path[AGENT_NAME_MAX + ERR_NAME_BYTES + 16];

    (void)snprintf(path, sizeof(path), "agents.%s.%s", a->name,
                   *why->key != '\0' ? why->key : "settings.from");
    return yaml_fail(a->from_at, path, err, "%s", err_cause(why));
}

static int try_policies(struct tried *x, const struct policies *policies, int fd,
                        struct err *err)
{
    int rc = 0;

    for (; x->agent < x->config->n_agents && rc == 0; x->agent++) {
        struct err why = {0};

        x->policy = policies_of(policies, x->agent);
        if (x->policy == NULL)
            continue;
        rc = try_one(x, fd, &why);
        if (rc == ERR_CONFIG)
            rc = place(&x->config->agents[x->agent], &why, err);
        else if (rc < 0)
            (void)err_pass(err, &why);
    }
    return rc;
}

static int has_frozen(const struct run_config *c)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (algorithm_brings_graph(&c->agents[i]))
            return 1;
    return 0;
}

int trial_policies(const struct run_config *c, const struct policies *policies,
                   struct err *err)
{
    struct tried x = {0};
    int fd, rc = first_policies_check(c, policies, err);

    if (rc < 0 || !has_frozen(c))
        return rc;
    if ((rc = begin(&x, c, err)) < 0)
        return rc;
    rc = fd = open_agent_exe(err);
    if (fd >= 0) {
        rc = try_policies(&x, policies, fd, err);
        (void)close(fd);
    }
    end(&x);
    return rc < 0 ? rc : 0;
}
