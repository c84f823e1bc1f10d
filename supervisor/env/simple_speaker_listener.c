#include "supervisor/env/particle_world.h"

#include <string.h>

/* simple_speaker_listener: a speaker, which cannot move, observes which of three
 * landmarks the listener, which can, has to go to.
 *
 * Observation, speaker: the goal's colour; listener: velocity, landmarks, what is said.
 * Reward of both: minus the listener's squared distance to the goal; openai: the sum of
 * both.
 */

enum { SPEAKER, LISTENER, GOAL = 0, COLOUR = 3, SYMBOLS = 3 };

static const double colours[3][COLOUR] = {
    {0.65, 0.15, 0.15}, {0.15, 0.65, 0.15}, {0.15, 0.15, 0.65}};

static void simple_speaker_listener_build(struct particle_world *w, const void *params)
{
    w->dim_c = SYMBOLS;
    w->n_goals = 1;
    particle_add_agents(w, "speaker", 1,
                        &(struct particle_entity){
                            .size = 0.075, .look = SCENE_SPEAKER, .obs_width = COLOUR});
    particle_add_agents(
        w, "listener", 1,
        &(struct particle_entity){
            .size = 0.075, .movable = 1, .silent = 1, .obs_width = 8 + SYMBOLS});
    particle_add_landmarks(w, 3, &(struct particle_entity){.size = 0.04});
}

static void simple_speaker_listener_observe(const struct particle_world *w, size_t self,
                                            struct particle_obs *o)
{
    if (self == SPEAKER) {
        particle_obs_goal_colour(w, o, GOAL, colours[0], COLOUR);
        return;
    }
    particle_obs_vel(w, o, self);
    particle_obs_rel_landmarks(w, o, self);
    particle_obs_comm(w, o, SPEAKER);
}

static void simple_speaker_listener_symmetry(const struct particle_world *w,
                                             struct particle_symmetry *y)
{
    particle_symmetry_agent(y, SPEAKER);
    particle_symmetry_numbers(y, 1, COLOUR, PARTICLE_UNLIKE);
    particle_symmetry_agent(y, LISTENER);
    particle_symmetry_points(y, 1 + w->n_landmarks, PARTICLE_UNLIKE);
    particle_symmetry_numbers(y, 1, SYMBOLS, PARTICLE_UNLIKE);
}

static void simple_speaker_listener_reward(const struct particle_world *w,
                                           double *const *ret)
{
    particle_goal_dist2(w, LISTENER, GOAL, ret[SPEAKER]);
    particle_row_scale(w, ret[SPEAKER], -1.0);
    memcpy(ret[LISTENER], ret[SPEAKER], w->n_copies * sizeof(*ret[SPEAKER]));
    if (w->rules == ENV_RULES_OPENAI)
        particle_reward_sum(w, ret);
}

static const struct particle_goal goals[] = {{"goal", LISTENER}};

const struct particle_scenario particle_simple_speaker_listener = {
    .goals = goals,
    .build = simple_speaker_listener_build,
    .observe = simple_speaker_listener_observe,
    .symmetry = simple_speaker_listener_symmetry,
    .reward = simple_speaker_listener_reward,
};
