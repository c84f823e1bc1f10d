#include "supervisor/env/particle_world.h"

/* simple_crypto: alice observes a goal and a key, and speaks. Bob, who has the key, and
 * eve, who does not, have to say which goal it is. Nobody moves.
 *
 * Observation, eve: what alice says; bob: key, what alice says; alice: goal, key.
 * Reward, eve: minus the squared error of what she says; bob and alice: eve's error minus
 * bob's. The error of an agent that says nothing is 0.
 */

enum { EVE, BOB, ALICE, GOAL = 0, KEY = 1, SYMBOLS = 4 };

static const double colours[2][SYMBOLS] = {{1, 0, 0, 0}, {0, 1, 0, 0}};

static void simple_crypto_build(struct particle_world *w, const void *params)
{
    struct particle_entity agent = {
        .size = 0.05, .look = SCENE_ADVERSARY, .obs_width = SYMBOLS};

    w->dim_c = SYMBOLS;
    w->n_goals = 2;
    particle_add_agents(w, "eve", 1, &agent);
    agent.obs_width = 2 * SYMBOLS;
    agent.look = SCENE_SPEAKER;
    particle_add_agents(w, "bob", 1, &agent);
    particle_add_agents(w, "alice", 1, &agent);
    particle_add_landmarks(w, 2, &(struct particle_entity){.size = 0.05});
}

static void simple_crypto_observe(const struct particle_world *w, size_t self,
                                  struct particle_obs *o)
{
    if (self == ALICE)
        particle_obs_goal_colour(w, o, GOAL, colours[0], SYMBOLS);
    if (self != EVE)
        particle_obs_goal_colour(w, o, KEY, colours[0], SYMBOLS);
    if (self != ALICE)
        particle_obs_comm(w, o, ALICE);
}

/* Returns the squared error of the agent's message in one copy; 0 if it sends none. */
static double error_of(const struct particle_world *w, size_t agent, size_t copy)
{
    const double *goal = colours[(size_t)particle_goal(w, GOAL)[copy]];
    double sum = 0.0;
    int silent = 1;

    for (size_t i = 0; i < SYMBOLS; i++) {
        double said = particle_comm(w, agent, i)[copy], wrong = said - goal[i];

        sum += wrong * wrong;
        silent &= said == 0.0;
    }
    return silent ? 0.0 : sum;
}

/* Errors are subtracted from 0, not negated: without an error the reward is +0. */
static void simple_crypto_reward(const struct particle_world *w, double *const *ret)
{
    for (size_t c = 0; c < w->n_copies; c++) {
        double eve = error_of(w, EVE, c), bob = error_of(w, BOB, c);

        ret[EVE][c] = 0.0 - eve;
        ret[BOB][c] = eve + (0.0 - bob);
        ret[ALICE][c] = ret[BOB][c];
    }
}

static const struct particle_goal goals[] = {{"goal", -1}, {"key", -1}};

const struct particle_scenario particle_simple_crypto = {
    .goals = goals,
    .goals_are = "goal; the wider ring: key",
    .build = simple_crypto_build,
    .observe = simple_crypto_observe,
    .reward = simple_crypto_reward,
};
