#include "supervisor/env/particle_world.h"

#include <string.h>

/* simple_spread: N agents have to cover N landmarks without touching each other.
 *
 * Observation: velocity, position, landmarks, other agents, what they say (always 0). Entities:
 * agents and landmarks.
 * Reward, mpe2: half the team's (minus each landmark's distance to its nearest agent),
 * half the agent's own (minus 1 for each other agent it touches). openai: every agent
 * gets the sum, in agent order, of all agents' (team's - touched), where each agent also
 * counts as touching itself.
 * terminate_on_success: over when each landmark has an agent nearer than 0.1.
 */

enum { SPEECH = 2 };
static const double COVERED = 0.1;

struct params {
    struct particle_params common;
    int64_t agents;
    double local_ratio;
    int terminate_on_success;
};

static const struct field fields[] = {
    {"agents", FIELD_I64, SCHEMA_AT(struct params, agents), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "3",
     .doc = "agents, and landmarks: N"},
    {"local_ratio", FIELD_F64, SCHEMA_AT(struct params, local_ratio), SCHEMA_WITHIN(0, 1),
     .default_text = "0.5", .doc = "weight of an agent's own reward (mpe2)"},
    {"terminate_on_success", FIELD_BOOL, SCHEMA_AT(struct params, terminate_on_success),
     .default_text = "false", .doc = "over when all landmarks are covered"},
    PARTICLE_PARAMS(struct params),
};
const struct schema simple_spread_params = {SCHEMA_TABLE(fields), sizeof(struct params)};

static void simple_spread_build(struct particle_world *w, const void *params)
{
    const struct params *p = params;
    const size_t n = (size_t)p->agents;
    struct particle_entity agent = {
        .size = 0.15, .collide = 1, .movable = 1, .silent = 1};
    struct particle_entity landmark = {.size = 0.05};

    w->dim_c = SPEECH;
    agent.obs_width = (int32_t)(4 + 2 * n + (2 + SPEECH) * (n - 1));
    particle_add_agents(w, "agent", n, &agent);
    particle_add_landmarks(w, n, &landmark);
}

static void simple_spread_observe(const struct particle_world *w, size_t self,
                                  struct particle_obs *o)
{
    particle_obs_vel(w, o, self);
    particle_obs_pos(w, o, self);
    particle_obs_rel_landmarks(w, o, self);
    particle_obs_rel_others(w, o, self);
    for (size_t a = 0; a < w->n_agents; a++) {
        if (a != self)
            particle_obs_comm(w, o, a);
    }
}

enum { AGENT, LANDMARK, KINDS };

static size_t kind(const struct particle_world *w, size_t entity)
{
    return entity < w->n_agents ? AGENT : LANDMARK;
}
static const struct particle_entities entities = {.n_kinds = KINDS, .kind = kind};

static void simple_spread_symmetry(const struct particle_world *w,
                                   struct particle_symmetry *y)
{
    const size_t n = w->n_agents, landmarks = particle_symmetry_orders(y, n);

    for (size_t a = 0; a < n; a++) {
        const size_t others = particle_symmetry_orders(y, n - 1);

        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* velocity, position */
        particle_symmetry_points(y, n, landmarks);
        particle_symmetry_points(y, n - 1, others);
        particle_symmetry_numbers(y, n - 1, SPEECH, others);
    }
}

static void charge_touches(const struct particle_world *w, double *const *ret,
                           double *touch)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        for (size_t b = a + 1; b < w->n_agents; b++) {
            particle_touch(w, a, b, touch);
            particle_row_add(w, ret[a], -1.0, touch, 1);
            particle_row_add(w, ret[b], -1.0, touch, 1);
        }
    }
}

static void succeed(const struct particle_world *w, uint8_t *ret)
{
    const struct params *p = w->params;
    double *least = particle_scratch(w, 1);

    memset(ret, p->terminate_on_success, w->n_copies);
    for (size_t l = 0; p->terminate_on_success && l < w->n_landmarks; l++) {
        particle_nearest(w, w->n_agents + l, 0, w->n_agents, least);
        for (size_t c = 0; c < w->n_copies; c++)
            ret[c] &= least[c] < COVERED;
    }
}

static void simple_spread_reward(const struct particle_world *w, double *const *ret)
{
    double *least = particle_scratch(w, 1);
    const struct params *p = w->params;
    double *team = particle_scratch(w, 0);
    int openai = w->rules == ENV_RULES_OPENAI;

    /* minus the sum over landmarks of the distance to the nearest agent */
    particle_row_fill(w, team, 0.0);
    for (size_t l = 0; l < w->n_landmarks; l++) {
        particle_nearest(w, w->n_agents + l, 0, w->n_agents, least);
        particle_row_add(w, team, -1.0, least, 1);
    }
    for (size_t a = 0; a < w->n_agents; a++) {
        particle_row_fill(w, ret[a], openai ? -1.0 : 0.0);
        if (openai)
            particle_row_add(w, ret[a], 1.0, team, 1);
    }
    charge_touches(w, ret, particle_scratch(w, 1));
    if (openai)
        particle_reward_sum(w, ret);
    else
        particle_reward_mix(w, ret, team, p->local_ratio);
}

enum { OCCUPIED, COLLISIONS };
static const struct env_metric metrics[] = {
    [OCCUPIED] = {"occupied", "landmarks with an agent nearer than 0.1", 0},
    [COLLISIONS] = PARTICLE_COLLISIONS,
    {NULL}};

static void measure(const struct particle_world *w, size_t metric, double *ret)
{
    double *least = particle_scratch(w, 1);

    if (metric == COLLISIONS) {
        particle_count_collisions(w, ret);
        return;
    }
    particle_row_fill(w, ret, 0.0);
    for (size_t l = 0; l < w->n_landmarks; l++) {
        particle_nearest(w, w->n_agents + l, 0, w->n_agents, least);
        for (size_t c = 0; c < w->n_copies; c++)
            ret[c] += least[c] < COVERED;
    }
}

const struct particle_scenario particle_simple_spread = {
    .metrics = metrics,
    .measure = measure,
    .build = simple_spread_build,
    .observe = simple_spread_observe,
    .entities = &entities,
    .symmetry = simple_spread_symmetry,
    .reward = simple_spread_reward,
    .succeed = succeed,
};
