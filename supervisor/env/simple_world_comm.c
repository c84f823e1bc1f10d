#include "supervisor/env/particle_world.h"

/* simple_world_comm: like simple_tag, with food for the good agents, forests that hide
 * agents inside from agents outside, and a leader of the adversaries (the pack), which
 * sees everything and can speak.
 *
 * Observation, pack: velocity, position, landmarks, others, velocities of the good
 * agents, in which forests it is, what the leader says; good: the same without speech,
 * and the forests before the velocities. A hidden agent is observed as 0. Reward, good:
 * minus 5 for each hunter that touches it, twice the penalty for leaving the arena, 2 for
 * each food it touches, minus (openai: plus) 0.05 of the distance to the nearest; pack:
 * minus 0.1 of the distance to the nearest prey, 5 for each touch of any hunter and any
 * prey.
 */

enum { LEADER, SYMBOLS = 4 };

struct params {
    struct particle_params common;
    int64_t good, adversaries, obstacles, food, forests;
};

static const struct field fields[] = {
    {"good", FIELD_I64, SCHEMA_AT(struct params, good), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "2",
     .doc = "agents that are hunted"},
    {"adversaries", FIELD_I64, SCHEMA_AT(struct params, adversaries),
     .flags = FIELD_MEANING, SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "4",
     .doc = "agents that hunt them, with the leader"},
    {"obstacles", FIELD_I64, SCHEMA_AT(struct params, obstacles), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(0, ENV_MAX_AGENTS), .default_text = "1",
     .doc = "landmarks that block everybody"},
    {"food", FIELD_I64, SCHEMA_AT(struct params, food), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "2", .doc = "places to eat"},
    {"forests", FIELD_I64, SCHEMA_AT(struct params, forests), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(0, ENV_MAX_AGENTS), .default_text = "2", .doc = "to hide in"},
    PARTICLE_PARAMS(struct params),
};
const struct schema simple_world_comm_params = {SCHEMA_TABLE(fields),
                                                sizeof(struct params)};

static size_t first_good(const struct particle_world *w)
{
    return (size_t)((const struct params *)w->params)->adversaries;
}

static size_t first_food(const struct particle_world *w)
{
    return w->n_agents + (size_t)((const struct params *)w->params)->obstacles;
}

static size_t first_forest(const struct particle_world *w)
{
    return first_food(w) + (size_t)((const struct params *)w->params)->food;
}

static void add_agents(struct particle_world *w, const struct params *p)
{
    const int64_t landmarks = p->obstacles + p->food + p->forests;
    const int64_t others = p->good + p->adversaries - 1;
    struct particle_entity hunter = {.size = 0.075,
                                     .collide = 1,
                                     .look = SCENE_LEADER,
                                     .movable = 1,
                                     .accel = 3.0,
                                     .max_speed = 1.0};
    struct particle_entity prey = {.size = 0.045,
                                   .collide = 1,
                                   .movable = 1,
                                   .silent = 1,
                                   .accel = 4.0,
                                   .max_speed = 1.3};

    prey.obs_width =
        (int32_t)(4 + 2 * (landmarks + others) + p->forests + 2 * (p->good - 1));
    hunter.obs_width = prey.obs_width + 2 + SYMBOLS;
    particle_add_agents(w, "leadadversary", 1, &hunter);
    hunter.silent = 1;
    hunter.look = SCENE_ADVERSARY;
    particle_add_agents(w, "adversary", (size_t)p->adversaries - 1, &hunter);
    particle_add_agents(w, "agent", (size_t)p->good, &prey);
}

static void simple_world_comm_build(struct particle_world *w, const void *params)
{
    const struct params *p = params;

    w->dim_c = SYMBOLS;
    w->n_aside =
        (size_t)((p->good + p->adversaries) * p->forests + p->good * p->adversaries);
    add_agents(w, p);
    particle_add_landmarks(
        w, (size_t)p->obstacles,
        &(struct particle_entity){.size = 0.2, .collide = 1, .look = SCENE_OBSTACLE});
    particle_add_landmarks(w, (size_t)p->food,
                           &(struct particle_entity){.size = 0.03, .look = SCENE_FOOD});
    particle_add_landmarks(w, (size_t)p->forests,
                           &(struct particle_entity){.size = 0.3, .look = SCENE_FOREST});
}

/* Places food and forests twice, as the reference implementation does. */
static void reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    const size_t food = first_food(w);

    particle_draw_positions(w, d, copy, 0, w->n_agents, 1.0);
    particle_draw_positions(w, d, copy, w->n_agents, w->n_landmarks, 0.9);
    particle_draw_positions(w, d, copy, food, particle_n_entities(w) - food, 0.9);
}

/* ---- visibility ---- */

static size_t n_forests(const struct particle_world *w)
{
    return particle_n_entities(w) - first_forest(w);
}

/* The aside rows of an agent, one for each forest: 1 where it is inside, else -1. */
static double *in_forests(const struct particle_world *w, size_t agent)
{
    return particle_aside(w, agent * n_forests(w));
}

static void survey(const struct particle_world *w, const struct particle_obs *o)
{
    const size_t E = w->n_copies;

    for (size_t a = 0; a < w->n_agents; a++) {
        for (size_t i = 0; i < n_forests(w); i++) {
            const size_t f = first_forest(w) + i;

            w->loops->touch(o->n, E, particle_pos(w, a, 0) + o->first,
                            particle_pos(w, f, 0) + o->first,
                            particle_touch_square(w, a, f), -1.0,
                            in_forests(w, a) + i * E + o->first);
        }
    }
}

static void hide_unseen(const struct particle_world *w, size_t self, size_t other,
                        struct particle_obs *o)
{
    if (self != LEADER)
        particle_obs_hide(o, particle_seen(w, other) + o->first);
}

static void observe_forests(const struct particle_world *w, size_t self,
                            struct particle_obs *o)
{
    for (size_t i = 0; i < n_forests(w); i++)
        particle_obs_row(w, o, in_forests(w, self) + i * w->n_copies + o->first);
}

static void simple_world_comm_observe(const struct particle_world *w, size_t self,
                                      struct particle_obs *o)
{
    const int good = self >= first_good(w);

    /* in which copies `self` sees each other agent; the leader sees all */
    for (size_t a = 0; self != LEADER && a < w->n_agents; a++) {
        if (a != self)
            w->loops->see(o->n, w->n_copies, in_forests(w, self) + o->first,
                          in_forests(w, a) + o->first, n_forests(w),
                          particle_seen(w, a) + o->first);
    }
    particle_obs_vel(w, o, self);
    particle_obs_pos(w, o, self);
    particle_obs_rel_landmarks(w, o, self);
    for (size_t a = 0; a < w->n_agents; a++) {
        if (a == self)
            continue;
        particle_obs_rel(w, o, self, a);
        hide_unseen(w, self, a, o);
    }
    if (good)
        observe_forests(w, self, o);
    for (size_t a = first_good(w); a < w->n_agents; a++) {
        if (a == self)
            continue;
        particle_obs_vel(w, o, a);
        hide_unseen(w, self, a, o);
    }
    if (good)
        return;
    observe_forests(w, self, o);
    particle_obs_comm(w, o, LEADER);
}

/* The leader is unlike the other hunters: it sees more, and speaks. */
static void simple_world_comm_symmetry(const struct particle_world *w,
                                       struct particle_symmetry *y)
{
    const size_t n_forest = n_forests(w), n_obstacle = first_food(w) - w->n_agents;
    const size_t n_food = first_forest(w) - first_food(w);
    const size_t obstacles = particle_symmetry_orders(y, n_obstacle);
    const size_t food = particle_symmetry_orders(y, n_food);
    const size_t forests = particle_symmetry_orders(y, n_forest);

    for (size_t a = 0; a < w->n_agents; a++) {
        const int good = a >= first_good(w);
        const size_t n_hunters = first_good(w) - 1 - (a != LEADER && !good ? 1 : 0);
        const size_t n_prey = w->n_agents - first_good(w) - (good ? 1 : 0);
        const size_t hunters = particle_symmetry_orders(y, n_hunters);
        const size_t prey = particle_symmetry_orders(y, n_prey);

        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* velocity, position */
        particle_symmetry_points(y, n_obstacle, obstacles);
        particle_symmetry_points(y, n_food, food);
        particle_symmetry_points(y, n_forest, forests);
        particle_symmetry_points(y, a != LEADER ? 1 : 0, PARTICLE_UNLIKE); /* leader */
        particle_symmetry_points(y, n_hunters, hunters);
        particle_symmetry_points(y, n_prey, prey);
        if (good)
            particle_symmetry_numbers(y, n_forest, 1, forests); /* in which it is */
        particle_symmetry_points(y, n_prey, prey);              /* velocities */
        if (!good) {
            particle_symmetry_numbers(y, n_forest, 1, forests);
            particle_symmetry_numbers(y, 1, SYMBOLS, PARTICLE_UNLIKE);
        }
    }
}

/* ---- rewards ---- */

/* The aside rows of a good agent, one for each hunter: whether they touch. */
static double *touches(const struct particle_world *w, size_t good)
{
    const size_t pack = first_good(w);

    return particle_aside(w, w->n_agents * n_forests(w) + (good - pack) * pack);
}

static void reward_good(const struct particle_world *w, size_t self, double *ret)
{
    const size_t pack = first_good(w), food = first_food(w);
    const double near_food = w->rules == ENV_RULES_OPENAI ? 0.05 : -0.05;
    double *row = particle_scratch(w, 0);

    for (size_t a = 0; a < pack; a++)
        particle_touch(w, self, a, touches(w, self) + a * w->n_copies);
    particle_row_add(w, ret, -5.0, touches(w, self), pack);
    particle_charge_bounds(w, self, 2.0, ret);
    for (size_t f = food; f < first_forest(w); f++) {
        particle_touch(w, self, f, row);
        particle_row_add(w, ret, 2.0, row, 1);
    }
    particle_nearest(w, self, food, first_forest(w) - food, row);
    particle_row_add(w, ret, near_food, row, 1);
}

static void simple_world_comm_reward(const struct particle_world *w, double *const *ret)
{
    for (size_t a = 0; a < w->n_agents; a++)
        particle_row_fill(w, ret[a], 0.0);
    for (size_t good = first_good(w); good < w->n_agents; good++)
        reward_good(w, good, ret[good]);
    for (size_t a = 0; a < first_good(w); a++) {
        const size_t pack = first_good(w), n_good = w->n_agents - pack;
        double *row = particle_scratch(w, 0);

        /* after the prey's rewards, which fill the rows of touches */
        particle_nearest(w, a, pack, n_good, row);
        particle_row_add(w, ret[a], -0.1, row, 1);
        particle_row_add(w, ret[a], 5.0, touches(w, pack), n_good * pack);
    }
}

enum { TAGS, FOOD, COLLISIONS };
static const struct env_metric metrics[] = {
    [TAGS] = {"tags", "pairs of an adversary and an agent that touch each other", 0},
    [FOOD] = {"food", "pairs of an agent and food that touch each other", 0},
    [COLLISIONS] = PARTICLE_COLLISIONS,
    {NULL}};

static void count_food(const struct particle_world *w, double *ret)
{
    double *touch = particle_scratch(w, 0);

    particle_row_fill(w, ret, 0.0);
    for (size_t good = first_good(w); good < w->n_agents; good++)
        for (size_t f = first_food(w); f < first_forest(w); f++) {
            particle_touch(w, good, f, touch);
            particle_row_add(w, ret, 1.0, touch, 1);
        }
}

static void measure(const struct particle_world *w, size_t metric, double *ret)
{
    if (metric == TAGS)
        particle_count_tags(w, first_good(w), ret);
    else if (metric == FOOD)
        count_food(w, ret);
    else
        particle_count_collisions(w, ret);
}

const struct particle_scenario particle_simple_world_comm = {
    .metrics = metrics,
    .measure = measure,
    .build = simple_world_comm_build,
    .reset = reset,
    .survey = survey,
    .observe = simple_world_comm_observe,
    .symmetry = simple_world_comm_symmetry,
    .reward = simple_world_comm_reward,
};
