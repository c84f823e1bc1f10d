#include "supervisor/env/particle_world.h"

#include <math.h>

/* simple_world_comm: as simple_tag, with food that the hunted eat, forests that hide who
 * is inside from who is not, and a leader of the pack, who sees everything and speaks.
 *
 * Observation, pack: velocity, position, landmarks, others, velocities of the good ones,
 * in which forests it is, what the leader says; good: the same without speech, and the
 * forests before the velocities. An agent that is hidden shows as 0.
 * Reward, good: minus 5 for each hunter that touches it, twice the penalty for leaving
 * the arena, 2 for each food it touches, minus (openai: plus) 0.05 of the distance to the
 * nearest; pack: minus 0.1 of the distance to the nearest prey, 5 for each touch of any
 * hunter and any prey.
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
     .doc = "with their leader"},
    {"obstacles", FIELD_I64, SCHEMA_AT(struct params, obstacles), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(0, ENV_MAX_AGENTS), .default_text = "1", .doc = "in everybody's way"},
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

static void build(struct particle_world *w, const void *params)
{
    const struct params *p = params;

    w->dim_c = SYMBOLS;
    add_agents(w, p);
    particle_add_landmarks(
        w, (size_t)p->obstacles,
        &(struct particle_entity){.size = 0.2, .collide = 1, .look = SCENE_OBSTACLE});
    particle_add_landmarks(w, (size_t)p->food,
                           &(struct particle_entity){.size = 0.03, .look = SCENE_FOOD});
    particle_add_landmarks(w, (size_t)p->forests,
                           &(struct particle_entity){.size = 0.3, .look = SCENE_FOREST});
}

/* The reference places food and forests a second time, and so does this. */
static void reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    const size_t food = first_food(w), forest = first_forest(w);

    particle_draw_positions(w, d, copy, 0, w->n_agents, 1.0);
    particle_draw_positions(w, d, copy, w->n_agents, w->n_landmarks, 0.9);
    particle_draw_positions(w, d, copy, food, forest - food, 0.9);
    particle_draw_positions(w, d, copy, forest, particle_n_entities(w) - forest, 0.9);
}

/* ---- who sees whom ---- */

/* One forest's part in it: where both are inside, where either is. */
PARTICLE_SIMD static void look(size_t n, const double *restrict ax,
                               const double *restrict ay, double a_reach,
                               const double *restrict bx, const double *restrict by,
                               double b_reach, const double *restrict x,
                               const double *restrict y, double *restrict both,
                               double *restrict either)
{
    for (size_t c = 0; c < n; c++) {
        double dax = ax[c] - x[c], day = ay[c] - y[c];
        double dbx = bx[c] - x[c], dby = by[c] - y[c];
        double a = sqrt(dax * dax + day * day) < a_reach ? 1.0 : 0.0;
        double b = sqrt(dbx * dbx + dby * dby) < b_reach ? 1.0 : 0.0;

        both[c] += a * b;
        either[c] += a + b;
    }
}

PARTICLE_SIMD static void settle(size_t n, double *restrict both,
                                 const double *restrict either)
{
    for (size_t c = 0; c < n; c++)
        both[c] = both[c] > 0.0 || either[c] == 0.0 ? 1.0 : 0.0;
}

/* Where `self` sees `other`: rows of o->n, 1 or 0. */
static const double *visible(const struct particle_world *w, size_t self, size_t other,
                             const struct particle_obs *o)
{
    double *both = particle_scratch(w, 0), *either = particle_scratch(w, 1);

    particle_row_fill(o->n, both, self == LEADER ? 1.0 : 0.0);
    particle_row_fill(o->n, either, 0.0);
    for (size_t f = first_forest(w); self != LEADER && f < particle_n_entities(w); f++)
        look(o->n, particle_pos(w, self, 0) + o->first,
             particle_pos(w, self, 1) + o->first, particle_reach(w, self, f),
             particle_pos(w, other, 0) + o->first, particle_pos(w, other, 1) + o->first,
             particle_reach(w, other, f), particle_pos(w, f, 0) + o->first,
             particle_pos(w, f, 1) + o->first, both, either);
    settle(o->n, both, either);
    return both;
}

PARTICLE_SIMD static void hide(size_t n, double *restrict rows,
                               const double *restrict seen)
{
    for (size_t c = 0; c < n; c++) {
        rows[c] = seen[c] != 0.0 ? rows[c] : 0.0;
        rows[n + c] = seen[c] != 0.0 ? rows[n + c] : 0.0;
    }
}

/* What was appended last, two rows, is 0 where `other` is not seen. */
static void hide_unseen(const struct particle_world *w, size_t self, size_t other,
                        struct particle_obs *o)
{
    hide(o->n, o->rows + (o->width - 2) * o->n, visible(w, self, other, o));
}

static void observe_others(const struct particle_world *w, size_t self,
                           struct particle_obs *o)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        if (a == self)
            continue;
        particle_obs_rel(w, o, self, a);
        hide_unseen(w, self, a, o);
    }
}

static void observe_good_velocities(const struct particle_world *w, size_t self,
                                    struct particle_obs *o)
{
    for (size_t a = first_good(w); a < w->n_agents; a++) {
        if (a == self)
            continue;
        particle_obs_vel(w, o, a);
        hide_unseen(w, self, a, o);
    }
}

static void observe_forests(const struct particle_world *w, size_t self,
                            struct particle_obs *o)
{
    for (size_t f = first_forest(w); f < particle_n_entities(w); f++) {
        double *row = particle_obs_next(o);
        const double *x = particle_pos(w, self, 0), *y = particle_pos(w, self, 1);
        const double *fx = particle_pos(w, f, 0), *fy = particle_pos(w, f, 1);

        for (size_t i = 0; i < o->n; i++) {
            size_t c = o->first + i;
            double dx = x[c] - fx[c], dy = y[c] - fy[c];

            row[i] = sqrt(dx * dx + dy * dy) < particle_reach(w, self, f) ? 1.0 : -1.0;
        }
    }
}

static void observe(const struct particle_world *w, size_t self, struct particle_obs *o)
{
    const int good = self >= first_good(w);

    particle_obs_vel(w, o, self);
    particle_obs_pos(w, o, self);
    particle_obs_rel_landmarks(w, o, self);
    observe_others(w, self, o);
    if (good)
        observe_forests(w, self, o);
    observe_good_velocities(w, self, o);
    if (good)
        return;
    observe_forests(w, self, o);
    particle_obs_comm(w, o, LEADER);
}

/* ---- rewards ---- */

/* ret: distances to the nearest of the entities first .. end-1. */
static void nearest(const struct particle_world *w, size_t self, size_t first, size_t end,
                    double *ret)
{
    double *dist = particle_scratch(w, 1);

    particle_dist(w, self, first, ret);
    for (size_t e = first + 1; e < end; e++) {
        particle_dist(w, self, e, dist);
        particle_row_min(w->n_copies, ret, dist);
    }
}

static void reward_good(const struct particle_world *w, size_t self, double *ret)
{
    const double near_food = w->rules == ENV_RULES_OPENAI ? 0.05 : -0.05;
    double *row = particle_scratch(w, 0);

    for (size_t a = 0; a < first_good(w); a++) {
        particle_touch(w, self, a, row);
        particle_row_add(w->n_copies, ret, -5.0, row);
    }
    particle_charge_bounds(w, self, 2.0, ret);
    for (size_t food = first_food(w); food < first_forest(w); food++) {
        particle_touch(w, self, food, row);
        particle_row_add(w->n_copies, ret, 2.0, row);
    }
    nearest(w, self, first_food(w), first_forest(w), row);
    particle_row_add(w->n_copies, ret, near_food, row);
}

static void reward_pack(const struct particle_world *w, double *const *ret)
{
    const size_t pack = first_good(w);
    double *row = particle_scratch(w, 0);

    for (size_t a = 0; a < pack; a++) {
        nearest(w, a, pack, w->n_agents, row);
        particle_row_add(w->n_copies, ret[a], -0.1, row);
    }
    for (size_t good = pack; good < w->n_agents; good++) {
        for (size_t a = 0; a < pack; a++) {
            particle_touch(w, good, a, row);
            for (size_t hunter = 0; hunter < pack; hunter++)
                particle_row_add(w->n_copies, ret[hunter], 5.0, row);
        }
    }
}

static void reward(const struct particle_world *w, double *const *ret)
{
    for (size_t a = 0; a < w->n_agents; a++)
        particle_row_fill(w->n_copies, ret[a], 0.0);
    for (size_t good = first_good(w); good < w->n_agents; good++)
        reward_good(w, good, ret[good]);
    reward_pack(w, ret);
}

const struct particle_scenario particle_simple_world_comm = {
    .build = build,
    .reset = reset,
    .observe = observe,
    .reward = reward,
};
