#include "supervisor/env/particle_world.h"

#include <math.h>
#include <string.h>

/* What scenarios are written in: draws, observation rows, distances, rewards. */

enum { MAX_DRAW = 64 };

/* Draws */

void particle_draw_goal(struct particle_world *w, struct particle_draws *d, size_t copy,
                        size_t i)
{
    double u;

    rng_uniform_f64(d->key, d->episode, d->index++, &u, 1);
    particle_goal(w, i)[copy] = floor(u * (double)w->n_landmarks);
}

void particle_draw_positions(struct particle_world *w, struct particle_draws *d,
                             size_t copy, size_t entity, size_t n, double half)
{
    double u[MAX_DRAW];
    double *pos = particle_pos(w, entity, 0) + copy;

    for (size_t left = 2 * n; left != 0;) {
        size_t take = left < MAX_DRAW ? left : MAX_DRAW;

        rng_uniform_f64(d->key, d->episode, d->index, u, take);
        for (size_t i = 0; i < take; i++, pos += w->n_copies)
            *pos = -half + (half - -half) * u[i];
        d->index += take;
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

PARTICLE_SIMD static void distances(size_t n, const double *restrict ax,
                                    const double *restrict ay, const double *restrict bx,
                                    const double *restrict by, double *restrict ret)
{
    for (size_t c = 0; c < n; c++) {
        double dx = ax[c] - bx[c], dy = ay[c] - by[c];

        ret[c] = sqrt(dx * dx + dy * dy);
    }
}

void particle_dist(const struct particle_world *w, size_t a, size_t b, double *ret)
{
    distances(w->n_copies, particle_pos(w, a, 0), particle_pos(w, a, 1),
              particle_pos(w, b, 0), particle_pos(w, b, 1), ret);
}

PARTICLE_SIMD void particle_row_fill(size_t n, double *ret, double x)
{
    for (size_t c = 0; c < n; c++)
        ret[c] = x;
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
