#include "supervisor/env/particle_world.h"

#include <string.h>

/* simple_tag: slower adversaries hunt faster agents among obstacles.
 *
 * Observation: velocity, position, obstacles, others, velocities of the other good
 * agents. Reward, agent: minus 10 for each adversary that touches it, minus a penalty
 * that grows as it leaves the arena; adversary: 10 for each touch of any adversary and
 * any agent. terminate_on_success: over when every good agent is touched by an adversary.
 */

struct params {
    struct particle_params common;
    int64_t good, adversaries, obstacles;
    int terminate_on_success;
};

static const struct field fields[] = {
    {"good", FIELD_I64, SCHEMA_AT(struct params, good), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "1",
     .doc = "agents that are hunted"},
    {"adversaries", FIELD_I64, SCHEMA_AT(struct params, adversaries),
     .flags = FIELD_MEANING, SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "3",
     .doc = "agents that hunt them"},
    {"obstacles", FIELD_I64, SCHEMA_AT(struct params, obstacles), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(0, ENV_MAX_AGENTS), .default_text = "2",
     .doc = "landmarks that block everybody"},
    {"terminate_on_success", FIELD_BOOL, SCHEMA_AT(struct params, terminate_on_success),
     .default_text = "false", .doc = "over when all good agents are caught at once"},
    PARTICLE_PARAMS(struct params),
};
const struct schema simple_tag_params = {SCHEMA_TABLE(fields), sizeof(struct params)};

static void simple_tag_build(struct particle_world *w, const void *params)
{
    const struct params *p = params;
    const int64_t others = p->good + p->adversaries - 1;
    struct particle_entity adversary = {.size = 0.075,
                                        .collide = 1,
                                        .look = SCENE_ADVERSARY,
                                        .movable = 1,
                                        .silent = 1,
                                        .accel = 3.0,
                                        .max_speed = 1.0};
    struct particle_entity agent = {.size = 0.05,
                                    .collide = 1,
                                    .movable = 1,
                                    .silent = 1,
                                    .accel = 4.0,
                                    .max_speed = 1.3};

    w->dim_c = 2;
    adversary.obs_width = (int32_t)(4 + 2 * (p->obstacles + others + p->good));
    agent.obs_width = adversary.obs_width - 2;
    particle_add_agents(w, "adversary", (size_t)p->adversaries, &adversary);
    particle_add_agents(w, "agent", (size_t)p->good, &agent);
    particle_add_landmarks(
        w, (size_t)p->obstacles,
        &(struct particle_entity){.size = 0.2, .collide = 1, .look = SCENE_OBSTACLE});
}

static void reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    particle_draw_positions(w, d, copy, 0, w->n_agents, 1.0);
    particle_draw_positions(w, d, copy, w->n_agents, w->n_landmarks, 0.9);
}

static void simple_tag_observe(const struct particle_world *w, size_t self,
                               struct particle_obs *o)
{
    const struct params *p = w->params;

    particle_obs_vel(w, o, self);
    particle_obs_pos(w, o, self);
    particle_obs_rel_landmarks(w, o, self);
    particle_obs_rel_others(w, o, self);
    for (size_t a = (size_t)p->adversaries; a < w->n_agents; a++) {
        if (a != self)
            particle_obs_vel(w, o, a);
    }
}

enum { HUNTER, PREY, OBSTACLE, KINDS };

static size_t kind(const struct particle_world *w, size_t entity)
{
    const struct params *p = w->params;

    return entity >= w->n_agents              ? OBSTACLE
           : entity >= (size_t)p->adversaries ? PREY
                                              : HUNTER;
}
static const struct particle_entities entities = {
    .n_kinds = KINDS, .kind = kind, .moving = 1u << PREY};

static void simple_tag_symmetry(const struct particle_world *w,
                                struct particle_symmetry *y)
{
    const size_t first_good = (size_t)((const struct params *)w->params)->adversaries;
    const size_t obstacles = particle_symmetry_orders(y, w->n_landmarks);

    for (size_t a = 0; a < w->n_agents; a++) {
        const size_t n_hunters = first_good - (a < first_good ? 1 : 0);
        const size_t n_prey = w->n_agents - 1 - n_hunters;
        const size_t hunters = particle_symmetry_orders(y, n_hunters);
        const size_t prey = particle_symmetry_orders(y, n_prey);

        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* velocity, position */
        particle_symmetry_points(y, w->n_landmarks, obstacles);
        particle_symmetry_points(y, n_hunters, hunters);
        particle_symmetry_points(y, n_prey, prey);
        particle_symmetry_points(y, n_prey, prey); /* velocities */
    }
}

static void simple_tag_reward(const struct particle_world *w, double *const *ret)
{
    const struct params *p = w->params;
    const size_t first_good = (size_t)p->adversaries, n = w->n_copies;
    double *touch = particle_scratch(w, 0);

    particle_row_fill(w, ret[0], 0.0);
    for (size_t good = first_good; good < w->n_agents; good++) {
        particle_row_fill(w, ret[good], 0.0);
        for (size_t a = 0; a < first_good; a++) {
            particle_touch(w, good, a, touch);
            particle_row_add(w, ret[good], -10.0, touch, 1);
            particle_row_add(w, ret[0], 10.0, touch, 1);
        }
        particle_charge_bounds(w, good, 1.0, ret[good]);
    }
    for (size_t hunter = 1; hunter < first_good; hunter++)
        memcpy(ret[hunter], ret[0], n * sizeof(*ret[0]));
}

static void succeed(const struct particle_world *w, uint8_t *ret)
{
    const struct params *p = w->params;
    const size_t first_good = (size_t)p->adversaries, n = w->n_copies;
    double *touch = particle_scratch(w, 0), *caught = particle_scratch(w, 1);

    memset(ret, p->terminate_on_success, n);
    for (size_t good = first_good; p->terminate_on_success && good < w->n_agents;
         good++) {
        particle_row_fill(w, caught, 0.0);
        for (size_t a = 0; a < first_good; a++) {
            particle_touch(w, good, a, touch);
            particle_row_add(w, caught, 1.0, touch, 1);
        }
        for (size_t c = 0; c < n; c++)
            ret[c] &= caught[c] > 0;
    }
}

enum { TAGS, COLLISIONS };
static const struct env_metric metrics[] = {
    [TAGS] = {"tags", "pairs of an adversary and an agent that touch each other", 0},
    [COLLISIONS] = PARTICLE_COLLISIONS,
    {NULL}};

static void measure(const struct particle_world *w, size_t metric, double *ret)
{
    if (metric == TAGS)
        particle_count_tags(w, (size_t)((const struct params *)w->params)->adversaries,
                            ret);
    else
        particle_count_collisions(w, ret);
}

const struct particle_scenario particle_simple_tag = {
    .metrics = metrics,
    .measure = measure,
    .build = simple_tag_build,
    .reset = reset,
    .observe = simple_tag_observe,
    .entities = &entities,
    .symmetry = simple_tag_symmetry,
    .reward = simple_tag_reward,
    .succeed = succeed,
};
