#include "supervisor/env/particle_world.h"

#include "common/err/check.h"

#include <math.h>
#include <string.h>

/* The helpers that scenarios use: building, draws, observation rows, distances, rewards. */

enum { MAX_DRAW = 64 };

/* Building */

static void *grow(struct arena *arena, const void *old, size_t n, size_t added,
                  size_t size)
{
    char *p = arena_alloc(arena, (n + added) * size);

    if (n != 0)
        memcpy(p, old, n * size);
    return p;
}

static void add_entities(struct particle_world *w, size_t n,
                         const struct particle_entity *like)
{
    size_t have = particle_n_entities(w);

    w->entities = grow(w->arena, w->entities, have, n, sizeof(*like));
    for (size_t i = 0; i < n; i++)
        w->entities[have + i] = *like;
}

static struct action_space agent_space(const struct particle_world *w,
                                       const struct particle_entity *e)
{
    struct action_space s = {.kind = SPACE_DISCRETE, .particle = 1};

    if (w->actions == ENV_ACTIONS_CONTINUOUS) {
        s.kind = SPACE_BOX;
        s.high = 1.0;
    }
    if (e->movable)
        s.heads[s.n_heads++] = PARTICLE_MOVES;
    if (!e->silent)
        s.heads[s.n_heads++] = (int32_t)w->dim_c;
    for (int h = 0; h < s.n_heads; h++)
        s.width += s.heads[h];
    return s;
}

void particle_add_agents(struct particle_world *w, const char *team, size_t n,
                         const struct particle_entity *like)
{
    CHECK(w->n_landmarks == 0, "agents come before landmarks");
    add_entities(w, n, like);
    w->agents = grow(w->arena, w->agents, w->n_agents, n, sizeof(w->agents[0]));
    for (size_t i = 0; i < n; i++) {
        struct env_agent *agent = &w->agents[w->n_agents + i];

        env_agent_set_name(agent, team, i);
        agent->obs_width = like->obs_width;
        agent->space = agent_space(w, like);
    }
    w->n_agents += n;
}

void particle_add_landmarks(struct particle_world *w, size_t n,
                            const struct particle_entity *like)
{
    add_entities(w, n, like);
    w->n_landmarks += n;
}

/* Draws */

static void draw_uniform(struct particle_draws *d, double *ret, size_t n)
{
    if (!d->by_reference) {
        rng_uniform_f64(d->key, d->episode, d->index, ret, n);
        d->index += n;
        return;
    }
    for (size_t i = 0; i < n; i++)
        ret[i] = pcg64_uniform(&d->reference);
}

double particle_draw_below(struct particle_draws *d, size_t n)
{
    double u;

    if (d->by_reference)
        return pcg64_integer(&d->reference, (uint32_t)n);
    draw_uniform(d, &u, 1);
    return floor(u * (double)n);
}

double particle_draw_between(struct particle_draws *d, double low, double high)
{
    double u;

    draw_uniform(d, &u, 1);
    return low + (high - low) * u;
}

void particle_draw_goal(struct particle_world *w, struct particle_draws *d, size_t copy,
                        size_t i)
{
    particle_goal(w, i)[copy] = particle_draw_below(d, w->n_landmarks);
}

void particle_draw_positions(struct particle_world *w, struct particle_draws *d,
                             size_t copy, size_t entity, size_t n, double half)
{
    double u[MAX_DRAW];
    double *pos = particle_pos(w, entity, 0) + copy;

    for (size_t left = 2 * n; left != 0;) {
        size_t take = left < MAX_DRAW ? left : MAX_DRAW;

        draw_uniform(d, u, take);
        for (size_t i = 0; i < take; i++, pos += w->n_copies)
            *pos = -half + (half - -half) * u[i];
        left -= take;
    }
}

/* Observations */

static void append(struct particle_obs *o, const double *from, const double *less)
{
    o->rows[o->width++] = (struct particle_row){from, less, NULL};
}

void particle_obs_row(const struct particle_world *w, struct particle_obs *o,
                      const double *row)
{
    append(o, row, w->zeros);
}

double *particle_obs_next(const struct particle_world *w, struct particle_obs *o)
{
    double *row = o->made + o->width * o->n;

    append(o, row, w->zeros);
    return row;
}

void particle_obs_pos(const struct particle_world *w, struct particle_obs *o,
                      size_t agent)
{
    particle_obs_row(w, o, particle_pos(w, agent, 0) + o->first);
    particle_obs_row(w, o, particle_pos(w, agent, 1) + o->first);
}

void particle_obs_vel(const struct particle_world *w, struct particle_obs *o,
                      size_t agent)
{
    particle_obs_row(w, o, particle_vel(w, agent, 0) + o->first);
    particle_obs_row(w, o, particle_vel(w, agent, 1) + o->first);
}

void particle_obs_comm(const struct particle_world *w, struct particle_obs *o,
                       size_t agent)
{
    for (size_t i = 0; i < w->dim_c; i++)
        particle_obs_row(w, o, particle_comm(w, agent, i) + o->first);
}

void particle_obs_rel(const struct particle_world *w, struct particle_obs *o, size_t self,
                      size_t entity)
{
    for (size_t axis = 0; axis < 2; axis++)
        append(o, particle_pos(w, entity, axis) + o->first,
               particle_pos(w, self, axis) + o->first);
}

void particle_obs_hide(struct particle_obs *o, const uint64_t *mask)
{
    o->rows[o->width - 2].seen = mask;
    o->rows[o->width - 1].seen = mask;
}

/* One coordinate of goal i's landmark, for copies first .. first+n-1. */
static void goal_row(const struct particle_world *w, size_t i, size_t axis, size_t first,
                     size_t n, double *ret)
{
    const double *goal = particle_goal(w, i) + first;

    for (size_t l = 0; l < w->n_landmarks; l++)
        w->loops->choose(n, ret, goal, (double)l,
                         particle_pos(w, w->n_agents + l, axis) + first);
}

void particle_obs_rel_goal(const struct particle_world *w, struct particle_obs *o,
                           size_t self, size_t i)
{
    for (size_t axis = 0; axis < 2; axis++) {
        double *goal = o->made + o->width * o->n;

        goal_row(w, i, axis, o->first, o->n, goal);
        append(o, goal, particle_pos(w, self, axis) + o->first);
    }
}

void particle_obs_rel_landmarks(const struct particle_world *w, struct particle_obs *o,
                                size_t self)
{
    for (size_t l = 0; l < w->n_landmarks; l++)
        particle_obs_rel(w, o, self, w->n_agents + l);
}

void particle_obs_rel_others(const struct particle_world *w, struct particle_obs *o,
                             size_t self)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        if (a != self)
            particle_obs_rel(w, o, self, a);
    }
}

void particle_obs_colour(const struct particle_world *w, struct particle_obs *o,
                         const double *colour, size_t n)
{
    for (size_t k = 0; k < n; k++)
        w->loops->fill(o->n, particle_obs_next(w, o), colour[k]);
}

void particle_obs_goal_colour(const struct particle_world *w, struct particle_obs *o,
                              size_t i, const double *colours, size_t n)
{
    const double *goal = particle_goal(w, i) + o->first;

    for (size_t k = 0; k < n; k++) {
        double *row = particle_obs_next(w, o);

        for (size_t c = 0; c < o->n; c++)
            row[c] = colours[(size_t)goal[c] * n + k];
    }
}

/* Rewards */

void particle_dist2(const struct particle_world *w, size_t a, size_t b, double *ret)
{
    w->loops->dist2(w->n_copies, particle_pos(w, a, 0), particle_pos(w, b, 0), ret);
}

/* Writes the position of goal i's landmark, as a point, to the last two scratch rows. */
static const double *goal_point(const struct particle_world *w, size_t i)
{
    double *point = particle_scratch(w, PARTICLE_SCRATCH - 2);

    goal_row(w, i, 0, 0, w->n_copies, point);
    goal_row(w, i, 1, 0, w->n_copies, point + w->n_copies);
    return point;
}

void particle_goal_dist2(const struct particle_world *w, size_t entity, size_t i,
                         double *ret)
{
    w->loops->dist2(w->n_copies, particle_pos(w, entity, 0), goal_point(w, i), ret);
}

void particle_goal_dist(const struct particle_world *w, size_t entity, size_t i,
                        double *ret)
{
    w->loops->dist(w->n_copies, particle_pos(w, entity, 0), goal_point(w, i), ret);
}

void particle_nearest(const struct particle_world *w, size_t entity, size_t first,
                      size_t count, double *ret)
{
    w->loops->near(w->n_copies, particle_pos(w, entity, 0), particle_pos(w, first, 0),
                   count, ret);
}

void particle_goal_nearest(const struct particle_world *w, size_t i, size_t first,
                           size_t count, double *ret)
{
    w->loops->near(w->n_copies, goal_point(w, i), particle_pos(w, first, 0), count, ret);
}

void particle_touch(const struct particle_world *w, size_t a, size_t b, double *ret)
{
    w->loops->touch(w->n_copies, w->n_copies, particle_pos(w, a, 0),
                    particle_pos(w, b, 0), particle_touch_square(w, a, b), 0.0, ret);
}

void particle_count_collisions(const struct particle_world *w, double *ret)
{
    double *touch = particle_scratch(w, 0);

    particle_row_fill(w, ret, 0.0);
    for (size_t a = 0; a < w->n_agents; a++)
        for (size_t b = a + 1; b < w->n_agents; b++) {
            if (!w->entities[a].collide || !w->entities[b].collide)
                continue;
            particle_touch(w, a, b, touch);
            particle_row_add(w, ret, 1.0, touch, 1);
        }
}

void particle_count_tags(const struct particle_world *w, size_t first_good, double *ret)
{
    double *touch = particle_scratch(w, 0);

    particle_row_fill(w, ret, 0.0);
    for (size_t good = first_good; good < w->n_agents; good++)
        for (size_t a = 0; a < first_good; a++) {
            particle_touch(w, good, a, touch);
            particle_row_add(w, ret, 1.0, touch, 1);
        }
}

void particle_charge_bounds(const struct particle_world *w, size_t agent, double factor,
                            double *ret)
{
    w->loops->bounds(w->n_copies, particle_pos(w, agent, 0), factor, ret);
}

void particle_reward_mix(const struct particle_world *w, double *const *ret,
                         const double *team, double ratio)
{
    for (size_t a = 0; a < w->n_agents; a++)
        w->loops->mix(w->n_copies, ret[a], team, ratio);
}

void particle_reward_sum(const struct particle_world *w, double *const *ret)
{
    double *sum = particle_scratch(w, PARTICLE_SCRATCH - 1);

    particle_row_fill(w, sum, 0.0);
    for (size_t a = 0; a < w->n_agents; a++)
        particle_row_add(w, sum, 1.0, ret[a], 1);
    for (size_t a = 0; a < w->n_agents; a++)
        memcpy(ret[a], sum, w->n_copies * sizeof(*sum));
}
