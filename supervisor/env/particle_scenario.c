#include "supervisor/env/particle_world.h"

#include <math.h>
#include <string.h>

/* What scenarios are written in: draws, observation rows, distances, rewards. */

enum { MAX_DRAW = 64 };

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

void particle_draw_goal(struct particle_world *w, struct particle_draws *d, size_t copy,
                        size_t i)
{
    double u;

    if (d->by_reference) {
        particle_goal(w, i)[copy] =
            pcg64_integer(&d->reference, (uint32_t)w->n_landmarks);
        return;
    }
    draw_uniform(d, &u, 1);
    particle_goal(w, i)[copy] = floor(u * (double)w->n_landmarks);
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

/* Observations and rewards */

PARTICLE_SIMD void particle_row_sub(size_t n, double *restrict ret,
                                    const double *restrict a, const double *restrict b)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = a[i] - b[i];
}

double *particle_obs_next(struct particle_obs *o)
{
    return o->rows + o->width++ * o->n;
}

static void append_row(struct particle_obs *o, const double *row)
{
    memcpy(particle_obs_next(o), row + o->first, o->n * sizeof(*row));
}

void particle_obs_pos(const struct particle_world *w, struct particle_obs *o,
                      size_t agent)
{
    append_row(o, particle_pos(w, agent, 0));
    append_row(o, particle_pos(w, agent, 1));
}

void particle_obs_vel(const struct particle_world *w, struct particle_obs *o,
                      size_t agent)
{
    append_row(o, particle_vel(w, agent, 0));
    append_row(o, particle_vel(w, agent, 1));
}

void particle_obs_comm(const struct particle_world *w, struct particle_obs *o,
                       size_t agent)
{
    for (size_t i = 0; i < w->dim_c; i++)
        append_row(o, particle_comm(w, agent, i));
}

void particle_obs_rel(const struct particle_world *w, struct particle_obs *o, size_t self,
                      size_t entity)
{
    for (size_t axis = 0; axis < 2; axis++)
        particle_row_sub(o->n, particle_obs_next(o),
                         particle_pos(w, entity, axis) + o->first,
                         particle_pos(w, self, axis) + o->first);
}

/* Where goal is `number`, ret becomes x. */
PARTICLE_SIMD static void choose(size_t n, double *restrict ret,
                                 const double *restrict goal, double number,
                                 const double *restrict x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = goal[c] == number ? x[c] : ret[c];
}

/* One coordinate of the landmark that goal i names, for copies first .. first+n-1. */
static void goal_row(const struct particle_world *w, size_t i, size_t axis, size_t first,
                     size_t n, double *ret)
{
    const double *goal = particle_goal(w, i) + first;

    for (size_t l = 0; l < w->n_landmarks; l++)
        choose(n, ret, goal, (double)l, particle_pos(w, w->n_agents + l, axis) + first);
}

void particle_obs_rel_goal(const struct particle_world *w, struct particle_obs *o,
                           size_t self, size_t i)
{
    double *goal = particle_scratch(w, PARTICLE_SCRATCH - 1);

    for (size_t axis = 0; axis < 2; axis++) {
        goal_row(w, i, axis, o->first, o->n, goal);
        particle_row_sub(o->n, particle_obs_next(o), goal,
                         particle_pos(w, self, axis) + o->first);
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

void particle_obs_colour(struct particle_obs *o, const double *colour, size_t n)
{
    for (size_t k = 0; k < n; k++)
        particle_row_fill(o->n, particle_obs_next(o), colour[k]);
}

void particle_obs_goal_colour(const struct particle_world *w, struct particle_obs *o,
                              size_t i, const double *colours, size_t n)
{
    const double *goal = particle_goal(w, i) + o->first;

    for (size_t k = 0; k < n; k++) {
        double *row = particle_obs_next(o);

        for (size_t c = 0; c < o->n; c++)
            row[c] = colours[(size_t)goal[c] * n + k];
    }
}

PARTICLE_SIMD static void square_distances(size_t n, const double *restrict ax,
                                           const double *restrict ay,
                                           const double *restrict bx,
                                           const double *restrict by,
                                           double *restrict ret)
{
    for (size_t c = 0; c < n; c++) {
        double dx = ax[c] - bx[c], dy = ay[c] - by[c];

        ret[c] = dx * dx + dy * dy;
    }
}

PARTICLE_SIMD static void square_roots(size_t n, double *x)
{
    for (size_t c = 0; c < n; c++)
        x[c] = sqrt(x[c]);
}

void particle_dist2(const struct particle_world *w, size_t a, size_t b, double *ret)
{
    square_distances(w->n_copies, particle_pos(w, a, 0), particle_pos(w, a, 1),
                     particle_pos(w, b, 0), particle_pos(w, b, 1), ret);
}

void particle_dist(const struct particle_world *w, size_t a, size_t b, double *ret)
{
    particle_dist2(w, a, b, ret);
    square_roots(w->n_copies, ret);
}

void particle_goal_dist2(const struct particle_world *w, size_t entity, size_t i,
                         double *ret)
{
    double *x = particle_scratch(w, PARTICLE_SCRATCH - 2);
    double *y = particle_scratch(w, PARTICLE_SCRATCH - 1);

    goal_row(w, i, 0, 0, w->n_copies, x);
    goal_row(w, i, 1, 0, w->n_copies, y);
    square_distances(w->n_copies, particle_pos(w, entity, 0), particle_pos(w, entity, 1),
                     x, y, ret);
}

void particle_goal_dist(const struct particle_world *w, size_t entity, size_t i,
                        double *ret)
{
    particle_goal_dist2(w, entity, i, ret);
    square_roots(w->n_copies, ret);
}

PARTICLE_SIMD static void below(size_t n, double *x, double reach)
{
    for (size_t c = 0; c < n; c++)
        x[c] = x[c] < reach ? 1.0 : 0.0;
}

void particle_touch(const struct particle_world *w, size_t a, size_t b, double *ret)
{
    particle_dist(w, a, b, ret);
    below(w->n_copies, ret, particle_reach(w, a, b));
}

static double bound(double x)
{
    if (x < 0.9)
        return 0.0;
    if (x < 1.0)
        return (x - 0.9) * 10.0;
    return fmin(exp(2.0 * x - 2.0), 10.0);
}

void particle_charge_bounds(const struct particle_world *w, size_t agent, double factor,
                            double *ret)
{
    const double *x = particle_pos(w, agent, 0), *y = particle_pos(w, agent, 1);

    for (size_t c = 0; c < w->n_copies; c++) {
        ret[c] -= factor * bound(fabs(x[c]));
        ret[c] -= factor * bound(fabs(y[c]));
    }
}

PARTICLE_SIMD void particle_row_fill(size_t n, double *ret, double x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = x;
}

PARTICLE_SIMD void particle_row_scale(size_t n, double *ret, double factor)
{
    for (size_t c = 0; c < n; c++)
        ret[c] *= factor;
}

PARTICLE_SIMD void particle_row_add(size_t n, double *restrict ret, double factor,
                                    const double *restrict x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] += factor * x[c];
}

PARTICLE_SIMD void particle_row_min(size_t n, double *restrict ret,
                                    const double *restrict x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = x[c] < ret[c] ? x[c] : ret[c];
}

PARTICLE_SIMD static void mix_row(size_t n, double *restrict ret,
                                  const double *restrict team, double ratio)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = team[c] * (1.0 - ratio) + ret[c] * ratio;
}

void particle_reward_mix(const struct particle_world *w, double *const *ret,
                         const double *team, double ratio)
{
    for (size_t a = 0; a < w->n_agents; a++)
        mix_row(w->n_copies, ret[a], team, ratio);
}

void particle_reward_sum(const struct particle_world *w, double *const *ret)
{
    double *sum = particle_scratch(w, PARTICLE_SCRATCH - 1);

    particle_row_fill(w->n_copies, sum, 0.0);
    for (size_t a = 0; a < w->n_agents; a++)
        particle_row_add(w->n_copies, sum, 1.0, ret[a]);
    for (size_t a = 0; a < w->n_agents; a++)
        memcpy(ret[a], sum, w->n_copies * sizeof(*sum));
}
