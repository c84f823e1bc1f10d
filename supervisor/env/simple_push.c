#include "supervisor/env/particle_world.h"

/* simple_push: an agent has to go to the goal, one of two landmarks; an adversary, which
 * does not observe which one it is, has to keep it away. They push each other.
 *
 * Observation, adversary: velocity, landmarks, the agent; agent: velocity, goal, its own
 * colour (which is the goal's), landmarks, their colours, the adversary.
 * Reward, agent: minus its distance to the goal; adversary: that distance minus its own.
 */

enum { ADVERSARY, AGENT, GOAL = 0, COLOUR = 3 };

static const double agent_colours[2][COLOUR] = {{0.25, 0.75, 0.25}, {0.25, 0.25, 0.75}};
static const double landmark_colours[2][COLOUR] = {{0.1, 0.9, 0.1}, {0.1, 0.1, 0.9}};

static void simple_push_build(struct particle_world *w, const void *params)
{
    struct particle_entity agent = {.size = 0.05,
                                    .collide = 1,
                                    .look = SCENE_ADVERSARY,
                                    .movable = 1,
                                    .silent = 1,
                                    .obs_width = 8};

    w->dim_c = 2;
    w->n_goals = 1;
    particle_add_agents(w, "adversary", 1, &agent);
    agent.obs_width = 19;
    agent.look = SCENE_AGENT;
    particle_add_agents(w, "agent", 1, &agent);
    particle_add_landmarks(w, 2, &(struct particle_entity){.size = 0.05});
}

static void simple_push_observe(const struct particle_world *w, size_t self,
                                struct particle_obs *o)
{
    particle_obs_vel(w, o, self);
    if (self == AGENT) {
        particle_obs_rel_goal(w, o, self, GOAL);
        particle_obs_goal_colour(w, o, GOAL, agent_colours[0], COLOUR);
    }
    particle_obs_rel_landmarks(w, o, self);
    if (self == AGENT)
        particle_obs_colour(w, o, landmark_colours[0], 2 * COLOUR);
    particle_obs_rel_others(w, o, self);
}

/* Exchanging the landmarks also exchanges the two numbers of the agent's own colour,
 * which say which landmark is the goal. The landmarks' colours belong to their places in
 * the observation, and are not exchanged. */
static void simple_push_symmetry(const struct particle_world *w,
                                 struct particle_symmetry *y)
{
    const size_t landmarks = particle_symmetry_orders(y, 2);

    particle_symmetry_agent(y, ADVERSARY);
    particle_symmetry_points(y, 1, PARTICLE_UNLIKE); /* velocity */
    particle_symmetry_points(y, 2, landmarks);
    particle_symmetry_points(y, 1, PARTICLE_UNLIKE); /* the agent */
    particle_symmetry_agent(y, AGENT);
    particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* velocity, goal */
    particle_symmetry_numbers(y, 1, 1, PARTICLE_UNLIKE);
    particle_symmetry_numbers(y, 2, 1, landmarks); /* own colour */
    particle_symmetry_points(y, w->n_landmarks, landmarks);
    particle_symmetry_numbers(y, 2, COLOUR, PARTICLE_UNLIKE);
    particle_symmetry_points(y, 1, PARTICLE_UNLIKE); /* the adversary */
}

static void simple_push_reward(const struct particle_world *w, double *const *ret)
{
    double *agent = particle_scratch(w, 0), *adversary = particle_scratch(w, 1);

    particle_goal_dist(w, AGENT, GOAL, agent);
    particle_goal_dist(w, ADVERSARY, GOAL, adversary);
    particle_row_sub(w, ret[ADVERSARY], agent, adversary);
    particle_row_fill(w, ret[AGENT], 0.0);
    particle_row_add(w, ret[AGENT], -1.0, agent, 1);
}

static const struct particle_goal goals[] = {{"goal", AGENT}};

static const struct env_metric metrics[] = {PARTICLE_COLLISIONS, {NULL}};

static void measure(const struct particle_world *w, size_t metric, double *ret)
{
    particle_count_collisions(w, ret);
}

const struct particle_scenario particle_simple_push = {
    .metrics = metrics,
    .measure = measure,
    .goals = goals,
    .build = simple_push_build,
    .observe = simple_push_observe,
    .symmetry = simple_push_symmetry,
    .reward = simple_push_reward,
};
