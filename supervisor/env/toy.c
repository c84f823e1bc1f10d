#include "supervisor/env/toy.h"

#include "supervisor/env/env_class.h"

#include <string.h>

const struct toy toy_constant_reward = {.at_reset = 1.0f, .base = 1.0f};
const struct toy toy_one_step = {.at_reset = 1.0f, .base = 1.0f, .terminates = 1};
const struct toy toy_two_step = {
    .at_reset = TOY_MARKER, .per_step = 1.0f, .terminates = 2};

struct toy_numbers {
    int64_t agents;
};

static const struct field toy_fields[] = {
    {"agents", FIELD_I64, SCHEMA_AT(struct toy_numbers, agents),
     SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "1", .doc = "number of agents"},
};
const struct schema toy_params = {SCHEMA_TABLE(toy_fields), sizeof(struct toy_numbers)};

struct toy_world {
    const struct toy *toy;
    size_t n_agents, n_copies;
    uint64_t *time; /* (E): steps since the last reset */
};

static int toy_describe(const struct env_class *class, const struct env_config *config,
                        const void *params, struct arena *arena, struct env_spec *ret,
                        struct err *err)
{
    const struct toy_numbers *p = params;

    ret->n_agents = (size_t)p->agents;
    ret->agents = ARENA_ARRAY(arena, struct env_agent, ret->n_agents);
    for (size_t a = 0; a < ret->n_agents; a++) {
        struct env_agent *agent = &ret->agents[a];

        env_agent_set_name(agent, "agent", a);
        agent->obs_width = 1;
        agent->space = (struct action_space){
            .kind = SPACE_DISCRETE, .n_heads = 1, .heads = {2}, .width = 2};
    }
    return 0;
}

static void *toy_open(const struct env_class *class, const struct env_config *config,
                      const void *params, size_t copies, struct arena *arena)
{
    const struct toy_numbers *p = params;
    struct toy_world *w = ARENA_NEW(arena, struct toy_world);

    w->toy = class->scenario;
    w->n_agents = (size_t)p->agents;
    w->n_copies = copies;
    w->time = ARENA_ARRAY(arena, uint64_t, copies);
    return w;
}

static void toy_reset(void *world, size_t copy, const struct env_episode *episode)
{
    struct toy_world *w = world;

    w->time[copy] = 0;
}

static void toy_step(void *world, const float *const *actions, double *const *reward,
                     uint8_t *const *terminated)
{
    struct toy_world *w = world;

    for (size_t c = 0; c < w->n_copies; c++) {
        w->time[c]++;
        for (size_t a = 0; a < w->n_agents; a++) {
            reward[a][c] = 1.0;
            terminated[a][c] =
                w->toy->terminates != 0 && w->time[c] >= w->toy->terminates;
        }
    }
}

static void toy_observe(void *world, size_t first, size_t n, float *const *obs)
{
    const struct toy_world *w = world;
    const struct toy *toy = w->toy;

    for (size_t a = 0; a < w->n_agents; a++) {
        for (size_t c = first; c < first + n; c++)
            obs[a][c] = w->time[c] == 0 ? toy->at_reset
                                        : toy->base + toy->per_step * (float)w->time[c];
    }
}

static size_t toy_state_bytes(const void *world)
{
    const struct toy_world *w = world;

    return w->n_copies * sizeof(w->time[0]);
}

static void toy_save(const void *world, void *dst)
{
    const struct toy_world *w = world;

    memcpy(dst, w->time, toy_state_bytes(w));
}

static int toy_load(void *world, const void *src, struct err *err)
{
    struct toy_world *w = world;

    memcpy(w->time, src, toy_state_bytes(w));
    return 0;
}

const struct env_ops toy_ops = {
    .describe = toy_describe,
    .open = toy_open,
    .reset = toy_reset,
    .step = toy_step,
    .observe = toy_observe,
    .state_bytes = toy_state_bytes,
    .save = toy_save,
    .load = toy_load,
};
