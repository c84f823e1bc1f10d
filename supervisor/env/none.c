/* No environment: the configuration gives the agents' sizes, nothing happens in the world,
 * and a client drives the agents (rollout.h). */
#include "supervisor/env/env_class.h"

#include <stdio.h>

const struct schema none_params = {.n = 0};

static int none_describe(const struct env_class *class, const struct env_config *config,
                         const void *params, struct arena *arena, struct env_spec *ret,
                         struct err *err)
{
    if (config->n_agents == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.id"),
                          "none needs agents with their sizes");
    ret->n_agents = config->n_agents;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    for (size_t i = 0; i < ret->n_agents; i++) {
        const struct agent_config *from = &config->agents[i];
        struct env_agent *a = &ret->agents[i];
        /* 1, which nothing uses, for an agent whose graph has its own tensors */
        const int32_t action = from->action > 0 ? (int32_t)from->action : 1;

        (void)snprintf(a->name, sizeof(a->name), "%s", from->name);
        env_agent_find_team(a);
        a->obs_width = from->observation > 0 ? (int32_t)from->observation : 1;
        a->space = (struct action_space){
            .kind = SPACE_DISCRETE, .n_heads = 1, .heads = {action}, .width = action};
    }
    return 0;
}

static void *none_open(const struct env_class *class, const struct env_config *config,
                       const void *params, size_t copies, struct arena *arena)
{
    return ARENA_NEW(arena, uint64_t);
}

static void none_reset(void *world, size_t copy, const struct env_episode *episode)
{
}

static void none_step(void *world, const float *const *actions, double *const *reward,
                      uint8_t *const *terminated)
{
}

static void none_observe(void *world, size_t first, size_t n, float *const *obs)
{
}

static size_t none_state_bytes(const void *world)
{
    return 0;
}

static void none_save(const void *world, void *dst)
{
}

static int none_load(void *world, const void *src, struct err *err)
{
    return 0;
}

const struct env_ops none_ops = {
    .describe = none_describe,
    .open = none_open,
    .reset = none_reset,
    .step = none_step,
    .observe = none_observe,
    .state_bytes = none_state_bytes,
    .save = none_save,
    .load = none_load,
};
