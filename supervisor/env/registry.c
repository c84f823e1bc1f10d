#include "common/err/check.h"
#include "supervisor/env/env_class.h"
#include "supervisor/env/particle_world.h"
#include "supervisor/env/toy.h"

#include <stdio.h>
#include <string.h>

static const struct env_class classes[] = {
    {
        .info = {.id = "simple_spread",
                 .summary = "N agents cover N landmarks without colliding",
                 .params = "agents: 3"},
        .ops = &particle_ops,
        .scenario = &particle_simple_spread,
    },
    {
        .info = {.id = "constant_reward",
                 .summary = "for checks: reward 1 each step, for ever",
                 .params = "agents: 1"},
        .ops = &toy_ops,
        .scenario = &toy_constant_reward,
    },
    {
        .info = {.id = "one_step",
                 .summary = "for checks: reward 1, then the task is over",
                 .params = "agents: 1"},
        .ops = &toy_ops,
        .scenario = &toy_one_step,
    },
    {
        .info = {.id = "two_step",
                 .summary = "for checks: two steps; the first observation never recurs",
                 .params = "agents: 1"},
        .ops = &toy_ops,
        .scenario = &toy_two_step,
    },
};

enum { N_CLASSES = sizeof(classes) / sizeof(classes[0]) };

const struct env_class *env_class_find(const char *id)
{
    for (size_t i = 0; i < N_CLASSES; i++) {
        if (strcmp(classes[i].info.id, id) == 0)
            return &classes[i];
    }
    return NULL;
}

const struct env_info *env_info_at(size_t i)
{
    return i < N_CLASSES ? &classes[i].info : NULL;
}

const struct env_info *env_info_find(const char *id)
{
    const struct env_class *class = env_class_find(id);

    return class != NULL ? &class->info : NULL;
}

int env_param_agents(const struct env_config *config, size_t standard, size_t *ret,
                     struct err *err)
{
    int64_t n = config->params.agents;

    if (n < 0 || n > ENV_MAX_AGENTS)
        return err_set(err, ERR_CONFIG, "env.params.agents: found %lld, expected 1 to %d",
                       (long long)n, ENV_MAX_AGENTS);
    *ret = n != 0 ? (size_t)n : standard;
    return 0;
}

void env_agent_set_name(struct env_agent *agent, const char *team, size_t number)
{
    int n = snprintf(agent->name, sizeof(agent->name), "%s_%zu", team, number);

    CHECK(n > 0 && (size_t)n < sizeof(agent->name), "agent name of team %s", team);
    memcpy(agent->team, team, strlen(team) + 1);
}

int env_agent_names(void *ctx, const struct env_config *env, const char *const **ret,
                    struct err *err)
{
    /* The contract of config_env_names_fn: valid until the next call. */
    static struct arena arena;
    const struct env_class *class = env_class_find(env->id);
    struct env_spec spec = {0};
    const char **names;
    int rc;

    if (class == NULL)
        return err_set(err, ERR_NOT_FOUND, "there is no environment '%s'", env->id);
    arena_reset(&arena);
    rc = class->ops->describe(class, env, &arena, &spec, err);
    if (rc < 0)
        return rc;
    names = ARENA_ARRAY(&arena, const char *, spec.n_agents);
    for (size_t a = 0; a < spec.n_agents; a++)
        names[a] = spec.agents[a].name;
    *ret = names;
    return (int)spec.n_agents;
}
