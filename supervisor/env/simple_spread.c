#include "supervisor/env/particle_world.h"

/* simple_spread: N agents shall cover N landmarks and keep off each other.
 *
 * Observation: velocity, position, landmarks, other agents, what they say (silence).
 * Reward, mpe2: half the team's (minus each landmark's distance to its nearest agent),
 * half the agent's own (minus 1 for each other agent it touches). openai: every agent
 * gets the sum, in agent order, of all agents' (team's - touched), each touching itself.
 */

enum { DEFAULT_AGENTS = 3, SPEECH = 2 };

static const double LOCAL_RATIO = 0.5;

static int build(struct particle_world *w, const struct env_config *config,
                 struct err *err)
{
    struct particle_entity agent = {
        .size = 0.15, .collide = 1, .movable = 1, .silent = 1};
    struct particle_entity landmark = {.size = 0.05};
    size_t n;
    int rc = env_param_agents(config, DEFAULT_AGENTS, &n, err);

    if (rc < 0)
        return rc;
    w->dim_c = SPEECH;
    agent.obs_width = (int32_t)(4 + 2 * n + (2 + SPEECH) * (n - 1));
    particle_add_agents(w, "agent", n, &agent);
    particle_add_landmarks(w, n, &landmark);
    return 0;
}

static void reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    particle_draw_positions(w, d, copy, 0, particle_n_entities(w), 1.0);
}

static void observe(const struct particle_world *w, size_t self, struct particle_obs *o)
{
    particle_obs_vel(w, o, self);
    particle_obs_pos(w, o, self);
    for (size_t l = 0; l < w->n_landmarks; l++)
        particle_obs_rel(w, o, self, w->n_agents + l);
    for (size_t a = 0; a < w->n_agents; a++) {
        if (a != self)
            particle_obs_rel(w, o, self, a);
    }
    for (size_t a = 0; a < w->n_agents; a++) {
        if (a != self)
            particle_obs_comm(w, o, a);
    }
}

PARTICLE_SIMD static void charge_touch(size_t n, double *restrict a, double *restrict b,
                                       const double *restrict dist, double reach)
{
    for (size_t c = 0; c < n; c++) {
        double touch = dist[c] < reach ? 1.0 : 0.0;

        a[c] -= touch;
        b[c] -= touch;
    }
}

static void charge_touches(const struct particle_world *w, double *const *ret,
                           double *dist)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        for (size_t b = a + 1; b < w->n_agents; b++) {
            particle_dist(w, a, b, dist);
            charge_touch(w->n_copies, ret[a], ret[b], dist, particle_reach(w, a, b));
        }
    }
}

/* Minus the sum over landmarks of the distance to the nearest agent. */
static void team_reward(const struct particle_world *w, double *ret)
{
    double *dist = particle_scratch(w, 1), *least = particle_scratch(w, 2);
    size_t n = w->n_copies;

    particle_row_fill(n, ret, 0.0);
    for (size_t l = 0; l < w->n_landmarks; l++) {
        particle_dist(w, 0, w->n_agents + l, least);
        for (size_t a = 1; a < w->n_agents; a++) {
            particle_dist(w, a, w->n_agents + l, dist);
            particle_row_min(n, least, dist);
        }
        particle_row_add(n, ret, -1.0, least);
    }
}

static void reward(const struct particle_world *w, double *const *ret)
{
    double *team = particle_scratch(w, 0);
    int openai = w->rules == ENV_RULES_OPENAI;

    team_reward(w, team);
    for (size_t a = 0; a < w->n_agents; a++) {
        particle_row_fill(w->n_copies, ret[a], openai ? -1.0 : 0.0);
        if (openai)
            particle_row_add(w->n_copies, ret[a], 1.0, team);
    }
    charge_touches(w, ret, particle_scratch(w, 1));
    if (openai)
        particle_reward_sum(w, ret);
    else
        particle_reward_mix(w, ret, team, LOCAL_RATIO);
}

const struct particle_scenario particle_simple_spread = {
    .build = build,
    .reset = reset,
    .observe = observe,
    .reward = reward,
};
