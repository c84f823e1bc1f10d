#include "supervisor/env/particle_world.h"

/* simple: one agent has to go to a landmark.
 *
 * Observation: velocity, landmark. Reward: minus the squared distance to it.
 */

enum { AGENT, LANDMARK };

static void simple_build(struct particle_world *w, const void *params)
{
    particle_add_agents(w, "agent", 1,
                        &(struct particle_entity){
                            .size = 0.05, .movable = 1, .silent = 1, .obs_width = 4});
    particle_add_landmarks(w, 1, &(struct particle_entity){.size = 0.05});
}

static void simple_observe(const struct particle_world *w, size_t self,
                           struct particle_obs *o)
{
    particle_obs_vel(w, o, self);
    particle_obs_rel(w, o, self, LANDMARK);
}

static void simple_symmetry(const struct particle_world *w, struct particle_symmetry *y)
{
    particle_symmetry_agent(y, AGENT);
    particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* velocity, landmark */
}

static void simple_reward(const struct particle_world *w, double *const *ret)
{
    particle_dist2(w, AGENT, LANDMARK, ret[AGENT]);
    particle_row_scale(w, ret[AGENT], -1.0);
}

static const struct env_metric metrics[] = {
    {"distance", "the agent's distance from the landmark", 0}, {NULL}};

static void measure(const struct particle_world *w, size_t metric, double *ret)
{
    particle_nearest(w, AGENT, LANDMARK, 1, ret);
}

const struct particle_scenario particle_simple = {
    .metrics = metrics,
    .measure = measure,
    .build = simple_build,
    .observe = simple_observe,
    .symmetry = simple_symmetry,
    .reward = simple_reward,
};
