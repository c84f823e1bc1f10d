#include "supervisor/env/particle_world.h"

/* simple_reference: each of two agents observes which landmark the other has to go to,
 * and can tell it.
 *
 * Observation: velocity, landmarks, the colour of the partner's goal, what it says.
 * Reward, own: minus the partner's distance to its goal (openai: squared). mpe2: mixed
 * with the mean of both; openai: each gets the sum.
 */

enum { AGENTS = 2, COLOUR = 3, SYMBOLS = 10 };

static const double colours[3][COLOUR] = {
    {0.75, 0.25, 0.25}, {0.25, 0.75, 0.25}, {0.25, 0.25, 0.75}};

struct params {
    struct particle_params common;
    double local_ratio;
};

static const struct field fields[] = {
    {"local_ratio", FIELD_F64, SCHEMA_AT(struct params, local_ratio), SCHEMA_WITHIN(0, 1),
     .default_text = "0.5", .doc = "weight of an agent's own reward (mpe2)"},
    PARTICLE_PARAMS(struct params),
};
const struct schema simple_reference_params = {SCHEMA_TABLE(fields),
                                               sizeof(struct params)};

static void simple_reference_build(struct particle_world *w, const void *params)
{
    w->dim_c = SYMBOLS;
    w->n_goals = AGENTS; /* goal i is the one that agent i observes */
    particle_add_agents(w, "agent", AGENTS,
                        &(struct particle_entity){.size = 0.05,
                                                  .movable = 1,
                                                  .obs_width = 8 + COLOUR + SYMBOLS});
    particle_add_landmarks(w, 3, &(struct particle_entity){.size = 0.05});
}

static void simple_reference_observe(const struct particle_world *w, size_t self,
                                     struct particle_obs *o)
{
    particle_obs_vel(w, o, self);
    particle_obs_rel_landmarks(w, o, self);
    particle_obs_goal_colour(w, o, self, colours[0], COLOUR);
    particle_obs_comm(w, o, 1 - self);
}

static void simple_reference_symmetry(const struct particle_world *w,
                                      struct particle_symmetry *y)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, 1 + w->n_landmarks, PARTICLE_UNLIKE);
        particle_symmetry_numbers(y, 1, COLOUR + SYMBOLS, PARTICLE_UNLIKE);
    }
}

static void simple_reference_reward(const struct particle_world *w, double *const *ret)
{
    const struct params *p = w->params;
    double *mean = particle_scratch(w, 0);
    int openai = w->rules == ENV_RULES_OPENAI;

    particle_row_fill(w, mean, 0.0);
    for (size_t i = 0; i < AGENTS; i++) {
        if (openai)
            particle_goal_dist2(w, 1 - i, i, ret[i]);
        else
            particle_goal_dist(w, 1 - i, i, ret[i]);
        particle_row_scale(w, ret[i], -1.0);
        particle_row_add(w, mean, 1.0, ret[i], 1);
    }
    particle_row_scale(w, mean, 1.0 / AGENTS);
    if (openai)
        particle_reward_sum(w, ret);
    else
        particle_reward_mix(w, ret, mean, p->local_ratio);
}

static const struct particle_goal goals[] = {{"goal of 1", 1}, {"goal of 0", 0}};

const struct particle_scenario particle_simple_reference = {
    .goals = goals,
    .build = simple_reference_build,
    .observe = simple_reference_observe,
    .symmetry = simple_reference_symmetry,
    .reward = simple_reference_reward,
};
