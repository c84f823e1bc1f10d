#include "supervisor/env/particle_world.h"

#include <math.h>

/* collect_treasure: collectors pick up treasures and carry each to the deposit of its kind.
 *
 * Nobody pushes anybody. After each step, in order: a treasure that is there is picked up by the
 * first collector without one that touches it; one that is gone appears again in a random place,
 * of a random kind. Then a collector that touches the deposit of what it carries hands it over.
 * Observation: position, velocity, what it carries (collectors); others from the nearest to the
 * furthest (place, velocity, which deposit it is, what it carries); treasures likewise (place,
 * kind; 0 for those that are gone, which come last).
 * Reward, all: 5 for each collector and treasure that touch where the collector carries none,
 * and for each that touches the deposit of what it carries (rare: rewards come after pick-ups
 * and hand-overs); collector: minus 5 for each collector that it touches, minus 0.1 of the
 * distance to the nearest treasure or its deposit; deposit: minus 0.1 of the distance to the
 * nearest collector with something for it or, without one, to the collectors' centre.
 */

enum { MAX_DEPOSITS = 6 };
static const double GONE_LAST = 1e6; /* in the order of treasures */

struct params {
    struct particle_params common;
    int64_t collectors, deposits, treasures;
};

static const struct field fields[] = {
    {"collectors", FIELD_I64, SCHEMA_AT(struct params, collectors),
     .flags = FIELD_MEANING, SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "6",
     .doc = "agents that carry treasures"},
    {"deposits", FIELD_I64, SCHEMA_AT(struct params, deposits), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, MAX_DEPOSITS), .default_text = "2",
     .doc = "agents that take them, each of one kind"},
    {"treasures", FIELD_I64, SCHEMA_AT(struct params, treasures), .flags = FIELD_MEANING,
     SCHEMA_WITHIN(1, ENV_MAX_AGENTS), .default_text = "6",
     .doc = "at most that many are there at a time"},
    PARTICLE_PARAMS(struct params),
};
const struct schema collect_treasure_params = {SCHEMA_TABLE(fields),
                                               sizeof(struct params)};

static size_t n_collectors(const struct particle_world *w)
{
    return (size_t)((const struct params *)w->params)->collectors;
}

static size_t n_kinds(const struct particle_world *w)
{
    return w->n_agents - n_collectors(w);
}

static void collect_treasure_build(struct particle_world *w, const void *params)
{
    const struct params *p = params;
    const int64_t others = p->collectors + p->deposits - 1;
    struct particle_entity collector = {
        .size = 0.05, .movable = 1, .silent = 1, .accel = 1.5, .max_speed = 1.0};
    struct particle_entity deposit = collector;

    deposit.size = 0.075;
    deposit.mass = 2.25;
    deposit.obs_width =
        (int32_t)(4 + others * (4 + 2 * p->deposits) + p->treasures * (2 + p->deposits));
    collector.obs_width = deposit.obs_width + (int32_t)p->deposits;
    w->n_own = (size_t)(p->collectors + p->treasures);
    w->own_limit = (size_t)p->deposits + 1;
    particle_add_agents(w, "collector", (size_t)p->collectors, &collector);
    particle_add_agents(w, "deposit", (size_t)p->deposits, &deposit);
    particle_add_landmarks(w, (size_t)p->treasures,
                           &(struct particle_entity){.size = 0.025, .look = SCENE_FOOD});
}

/* The kinds, 1, 2, ..., of the treasure that a collector carries (0: none), of those
 * that a deposit takes, and of a treasure (0: it is gone). */
static double *carried(const struct particle_world *w, size_t collector)
{
    return particle_own(w, collector);
}

static double *kind(const struct particle_world *w, size_t treasure)
{
    return particle_own(w, n_collectors(w) + treasure - w->n_agents);
}

static double carried_at(const struct particle_world *w, size_t agent, size_t copy)
{
    return agent < n_collectors(w) ? carried(w, agent)[copy] : 0.0;
}

static double taken_by(const struct particle_world *w, size_t agent)
{
    return agent < n_collectors(w) ? 0.0 : (double)(agent - n_collectors(w) + 1);
}

/* ---- what happens ---- */

static void place_treasure(struct particle_world *w, size_t copy, size_t treasure,
                           struct particle_draws *d)
{
    particle_draw_positions(w, d, copy, treasure, 1, 0.95);
}

static void draw_kind(struct particle_world *w, size_t copy, size_t treasure,
                      struct particle_draws *d)
{
    kind(w, treasure)[copy] = 1.0 + particle_draw_below(d, n_kinds(w));
}

static void reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    const struct particle_draws begin = *d;

    particle_draw_positions(w, d, copy, 0, w->n_agents, 1.0);
    for (size_t t = w->n_agents; t < particle_n_entities(w); t++) {
        draw_kind(w, copy, t, d);
        place_treasure(w, copy, t, d);
    }
    /* The reference draws within the episode from a copy of the generator that it makes before
     * these draws. */
    if (d->by_reference)
        *d = begin;
}

static double square(double x)
{
    return x * x;
}

static double dist2(const struct particle_world *w, size_t copy, size_t a, size_t b)
{
    return square(particle_pos(w, a, 0)[copy] - particle_pos(w, b, 0)[copy]) +
           square(particle_pos(w, a, 1)[copy] - particle_pos(w, b, 1)[copy]);
}

static int touches(const struct particle_world *w, size_t copy, size_t agent,
                   size_t entity)
{
    return dist2(w, copy, agent, entity) < particle_touch_square(w, agent, entity);
}

static void pick_up(struct particle_world *w, size_t copy, size_t treasure)
{
    for (size_t a = 0; a < n_collectors(w); a++) {
        if (carried(w, a)[copy] == 0.0 && touches(w, copy, a, treasure)) {
            carried(w, a)[copy] = kind(w, treasure)[copy];
            kind(w, treasure)[copy] = 0.0;
            return;
        }
    }
}

/* The reference first draws whether it appears, which it always does. */
static void appear(struct particle_world *w, size_t copy, size_t treasure,
                   struct particle_draws *d)
{
    (void)particle_draw_between(d, 0.0, 1.0);
    place_treasure(w, copy, treasure, d);
    draw_kind(w, copy, treasure, d);
}

static void hand_over(struct particle_world *w, size_t copy, size_t collector)
{
    const size_t n = n_collectors(w);

    for (size_t k = 0; k < n_kinds(w); k++)
        if (carried(w, collector)[copy] == (double)(k + 1) &&
            touches(w, copy, collector, n + k))
            carried(w, collector)[copy] = 0.0;
}

static void after_physics(struct particle_world *w)
{
    for (size_t c = 0; c < w->n_copies; c++) {
        for (size_t t = w->n_agents; t < particle_n_entities(w); t++) {
            if (kind(w, t)[c] != 0.0)
                pick_up(w, c, t);
            else
                appear(w, c, t, &w->draws[c]);
        }
        for (size_t a = 0; a < n_collectors(w); a++)
            hand_over(w, c, a);
    }
}

/* ---- observations ---- */

/* The column of one copy in an observation. */
struct column {
    double *to;
    size_t stride;
};

static void collect_treasure_put(struct column *o, double x)
{
    *o->to = x;
    o->to += o->stride;
}

static void put_velocity(const struct particle_world *w, size_t copy, size_t agent,
                         struct column *o)
{
    collect_treasure_put(o, particle_vel(w, agent, 0)[copy]);
    collect_treasure_put(o, particle_vel(w, agent, 1)[copy]);
}

static void put_kind(const struct particle_world *w, double kind, struct column *o)
{
    for (size_t k = 1; k <= n_kinds(w); k++)
        collect_treasure_put(o, kind == (double)k ? 1.0 : 0.0);
}

static void put_rel(const struct particle_world *w, size_t copy, size_t self,
                    size_t entity, struct column *o)
{
    for (size_t axis = 0; axis < 2; axis++)
        collect_treasure_put(o, particle_pos(w, entity, axis)[copy] -
                                    particle_pos(w, self, axis)[copy]);
}

struct near {
    double dist;
    size_t entity;
};

/* Inserts in the order of distance; of equal distances, after those that are there. */
static void insert(struct near *list, size_t n, double dist, size_t entity)
{
    for (; n > 0 && list[n - 1].dist > dist; n--)
        list[n] = list[n - 1];
    list[n] = (struct near){dist, entity};
}

static void put_others(const struct particle_world *w, size_t copy, size_t self,
                       struct column *o)
{
    struct near others[ENV_MAX_AGENTS];
    size_t n = 0;

    for (size_t a = 0; a < w->n_agents; a++)
        if (a != self)
            insert(others, n++, sqrt(dist2(w, copy, a, self)), a);
    for (size_t i = 0; i < n; i++) {
        const size_t a = others[i].entity;

        put_rel(w, copy, self, a, o);
        put_velocity(w, copy, a, o);
        put_kind(w, taken_by(w, a), o);
        put_kind(w, carried_at(w, a, copy), o);
    }
}

static void put_treasures(const struct particle_world *w, size_t copy, size_t self,
                          struct column *o)
{
    struct near treasures[ENV_MAX_AGENTS];
    size_t n = 0;

    for (size_t t = w->n_agents; t < particle_n_entities(w); t++)
        insert(treasures, n++,
               kind(w, t)[copy] != 0.0 ? sqrt(dist2(w, copy, t, self)) : GONE_LAST, t);
    for (size_t i = 0; i < n; i++) {
        const size_t t = treasures[i].entity;

        if (kind(w, t)[copy] != 0.0) {
            put_rel(w, copy, self, t, o);
        } else {
            collect_treasure_put(o, 0.0);
            collect_treasure_put(o, 0.0);
        }
        put_kind(w, kind(w, t)[copy], o);
    }
}

static void collect_treasure_observe(const struct particle_world *w, size_t self,
                                     struct particle_obs *o)
{
    double *first = o->made + o->width * o->n;

    for (int32_t i = 0; i < w->agents[self].obs_width; i++)
        (void)particle_obs_next(w, o);
    for (size_t c = 0; c < o->n; c++) {
        struct column column = {first + c, o->n};
        const size_t copy = o->first + c;

        collect_treasure_put(&column, particle_pos(w, self, 0)[copy]);
        collect_treasure_put(&column, particle_pos(w, self, 1)[copy]);
        put_velocity(w, copy, self, &column);
        if (self < n_collectors(w))
            put_kind(w, carried(w, self)[copy], &column);
        put_others(w, copy, self, &column);
        put_treasures(w, copy, self, &column);
    }
}

/* The places where treasures appear have the square's symmetries. Other agents and treasures
 * are sorted by distance, so that no two are alike. */
static void collect_treasure_symmetry(const struct particle_world *w,
                                      struct particle_symmetry *y)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* position, velocity */
        if (a < n_collectors(w))
            particle_symmetry_numbers(y, 1, n_kinds(w), PARTICLE_UNLIKE);
        for (size_t other = 1; other < w->n_agents; other++) {
            particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* place, velocity */
            particle_symmetry_numbers(y, 2, n_kinds(w), PARTICLE_UNLIKE);
        }
        for (size_t t = 0; t < w->n_landmarks; t++) {
            particle_symmetry_points(y, 1, PARTICLE_UNLIKE);
            particle_symmetry_numbers(y, 1, n_kinds(w), PARTICLE_UNLIKE);
        }
    }
}

/* ---- rewards ---- */

static double team_reward(const struct particle_world *w, size_t copy)
{
    double found = 0.0;

    for (size_t a = 0; a < n_collectors(w); a++) {
        const double carries = carried(w, a)[copy];

        for (size_t t = w->n_agents; carries == 0.0 && t < particle_n_entities(w); t++)
            if (kind(w, t)[copy] != 0.0 && touches(w, copy, a, t))
                found += 5.0;
        for (size_t d = n_collectors(w); carries != 0.0 && d < w->n_agents; d++)
            if (taken_by(w, d) == carries && touches(w, copy, a, d))
                found += 5.0;
    }
    return found;
}

/* Returns the distance from a collector to its nearest destination: a treasure, or its
 * deposit if it carries one. Infinity if there is none. */
static double way_of_collector(const struct particle_world *w, size_t copy, size_t self)
{
    const double carries = carried(w, self)[copy];
    double least = (double)INFINITY;

    for (size_t t = w->n_agents; carries == 0.0 && t < particle_n_entities(w); t++)
        if (kind(w, t)[copy] != 0.0)
            least = fmin(least, dist2(w, copy, t, self));
    for (size_t d = n_collectors(w); carries != 0.0 && d < w->n_agents; d++)
        if (taken_by(w, d) == carries)
            least = dist2(w, copy, d, self);
    return sqrt(least);
}

static double dist_to_centre(const struct particle_world *w, size_t copy, size_t self)
{
    const double n = (double)n_collectors(w);
    double x = 0.0, y = 0.0;

    for (size_t a = 0; a < n_collectors(w); a++) {
        x += particle_pos(w, a, 0)[copy];
        y += particle_pos(w, a, 1)[copy];
    }
    return sqrt(square(x / n - particle_pos(w, self, 0)[copy]) +
                square(y / n - particle_pos(w, self, 1)[copy]));
}

static double way_of_deposit(const struct particle_world *w, size_t copy, size_t self)
{
    double least = (double)INFINITY;

    for (size_t a = 0; a < n_collectors(w); a++)
        if (carried(w, a)[copy] == taken_by(w, self))
            least = fmin(least, dist2(w, copy, a, self));
    return isfinite(least) ? sqrt(least) : dist_to_centre(w, copy, self);
}

static void reward_copy(const struct particle_world *w, size_t copy, double *const *ret)
{
    const double team = team_reward(w, copy);

    for (size_t a = 0; a < w->n_agents; a++) {
        const int collects = a < n_collectors(w);
        const double way =
            collects ? way_of_collector(w, copy, a) : way_of_deposit(w, copy, a);
        double own = 0.0;

        for (size_t b = 0; collects && b < n_collectors(w); b++)
            if (b != a && touches(w, copy, a, b))
                own -= 5.0;
        if (way != (double)INFINITY)
            own -= 0.1 * way;
        ret[a][copy] = own + team;
    }
}

static void collect_treasure_reward(const struct particle_world *w, double *const *ret)
{
    for (size_t c = 0; c < w->n_copies; c++)
        reward_copy(w, c, ret);
}

/* ---- pictures ---- */

static int draw(const struct particle_world *w, size_t copy, size_t entity,
                struct scene *scene, struct scene_thing *thing)
{
    const double is =
        entity < w->n_agents ? carried_at(w, entity, copy) : kind(w, entity)[copy];

    scene->verb = "carries";
    scene->name[SCENE_FOOD] = "treasure; 0: for D0";
    if (entity >= w->n_agents) {
        scene_label(thing, "%d", (int)is - 1);
        return is != 0.0;
    }
    if (entity >= n_collectors(w))
        scene_label(thing, "D%zu", entity - n_collectors(w));
    if (is != 0.0)
        scene_set_action(scene, entity, 1.0, "%d", (int)is - 1);
    return 1;
}

const struct particle_scenario particle_collect_treasure = {
    .mpe2_only = 1,
    .build = collect_treasure_build,
    .reset = reset,
    .after_physics = after_physics,
    .observe = collect_treasure_observe,
    .symmetry = collect_treasure_symmetry,
    .reward = collect_treasure_reward,
    .draw = draw,
};
