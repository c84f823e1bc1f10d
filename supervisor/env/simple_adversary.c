#include "supervisor/env/particle_world.h"

#include <string.h>

/* simple_adversary: N agents have to cover the goal, one of N landmarks. An adversary has
 * to find it, too, but does not observe which one it is.
 *
 * Observation, agent: goal, landmarks, others; adversary: landmarks, others.
 * Reward, adversary: minus its distance to the goal (openai: squared); agents: the
 * adversary's distance minus that of the nearest agent.
 */

enum { ADVERSARY, GOAL = 0 };

struct params {
    struct particle_params common;
    int64_t agents;
};

static const struct field fields[] = {
    {"agents", FIELD_I64, SCHEMA_AT(struct params, agents), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, ENV_MAX_AGENTS - 1), .default_text = "2",
     .doc = "good agents, and landmarks: N"},
    PARTICLE_PARAMS(struct params),
};
const struct schema simple_adversary_params = {SCHEMA_TABLE(fields),
                                               sizeof(struct params)};

static void simple_adversary_build(struct particle_world *w, const void *params)
{
    const struct params *p = params;
    const size_t n = (size_t)p->agents;
    struct particle_entity agent = {
        .size = 0.15, .look = SCENE_ADVERSARY, .movable = 1, .silent = 1};

    w->dim_c = 2;
    w->n_goals = 1;
    agent.obs_width = (int32_t)(4 * n);
    particle_add_agents(w, "adversary", 1, &agent);
    agent.obs_width += 2;
    agent.look = SCENE_AGENT;
    particle_add_agents(w, "agent", n, &agent);
    particle_add_landmarks(w, n, &(struct particle_entity){.size = 0.08});
}

static void simple_adversary_observe(const struct particle_world *w, size_t self,
                                     struct particle_obs *o)
{
    if (self != ADVERSARY)
        particle_obs_rel_goal(w, o, self, GOAL);
    particle_obs_rel_landmarks(w, o, self);
    particle_obs_rel_others(w, o, self);
}

/* Observations show which landmark is the goal only by its place. */
static void simple_adversary_symmetry(const struct particle_world *w,
                                      struct particle_symmetry *y)
{
    const size_t n = w->n_landmarks, landmarks = particle_symmetry_orders(y, n);

    for (size_t a = 0; a < w->n_agents; a++) {
        const size_t good = a == ADVERSARY ? n : n - 1;
        const size_t others = particle_symmetry_orders(y, good);

        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, a == ADVERSARY ? 0 : 1, PARTICLE_UNLIKE); /* goal */
        particle_symmetry_points(y, n, landmarks);
        particle_symmetry_points(y, a == ADVERSARY ? 0 : 1, PARTICLE_UNLIKE);
        particle_symmetry_points(y, good, others);
    }
}

/* All good agents share one reward. */
static void simple_adversary_reward(const struct particle_world *w, double *const *ret)
{
    double *dist = particle_scratch(w, 0);

    if (w->rules == ENV_RULES_OPENAI)
        particle_goal_dist2(w, ADVERSARY, GOAL, ret[ADVERSARY]);
    else
        particle_goal_dist(w, ADVERSARY, GOAL, ret[ADVERSARY]);
    particle_row_scale(w, ret[ADVERSARY], -1.0);
    particle_goal_nearest(w, GOAL, 1, w->n_agents - 1, ret[1]);
    particle_row_scale(w, ret[1], -1.0);
    particle_goal_dist(w, ADVERSARY, GOAL, dist);
    particle_row_add(w, ret[1], 1.0, dist, 1);
    for (size_t a = 2; a < w->n_agents; a++)
        memcpy(ret[a], ret[1], w->n_copies * sizeof(*ret[1]));
}

static const struct particle_goal goals[] = {{"goal", -1}};

const struct particle_scenario particle_simple_adversary = {
    .goals = goals,
    .build = simple_adversary_build,
    .observe = simple_adversary_observe,
    .symmetry = simple_adversary_symmetry,
    .reward = simple_adversary_reward,
};
