#include "supervisor/env/particle_world.h"

#include "common/numerics/trig.h"

#include <math.h>

/* simple_line: N agents have to form a line between two landmarks, evenly spaced.
 *
 * Observation and reward: see PARTICLE_WITH_PLACES. The second landmark lies in a random
 * direction from the first, rotated in steps of 5 degrees until it is inside the arena.
 * MPE2's sines are NumPy's, whose last bit depends on the machine; ours are rounded to
 * nearest (trig.h).
 */

static const double LENGTH = 1.25;
static const double HALF_TURN = 0x1.921fb54442d18p+1;

enum { DIRECTION, OWN = 2 };

static void simple_line_build(struct particle_world *w, const void *params)
{
    w->n_own = OWN; /* the direction of the line, as a point */
    particle_add_for_places(w, params, 0.03, 2, 0.02);
}

/* Sets the direction and the second landmark; returns whether that is inside. */
static int lay_line(struct particle_world *w, size_t copy, double theta)
{
    const size_t from = w->n_agents;
    double direction[2];
    int inside = 1;

    sincos_f64(theta, &direction[1], &direction[0]);
    for (size_t axis = 0; axis < 2; axis++) {
        const double at = particle_pos(w, from, axis)[copy] + LENGTH * direction[axis];

        particle_own(w, DIRECTION + axis)[copy] = direction[axis];
        particle_pos(w, from + 1, axis)[copy] = at;
        inside &= fabs(at) < 1.0;
    }
    return inside;
}

static void reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    double theta;

    particle_draw_positions(w, d, copy, 0, w->n_agents, 1.0);
    particle_draw_positions(w, d, copy, w->n_agents, 1, 0.25);
    theta = particle_draw_between(d, 0.0, 2.0 * HALF_TURN);
    while (!lay_line(w, copy, theta))
        theta += 5.0 * (HALF_TURN / 180.0);
}

/* The places are the same from either end. */
static void simple_line_symmetry(const struct particle_world *w,
                                 struct particle_symmetry *y)
{
    const size_t ends = particle_symmetry_orders(y, w->n_landmarks);

    for (size_t a = 0; a < w->n_agents; a++) {
        particle_symmetry_agent(y, a);
        particle_symmetry_points(y, 2, PARTICLE_UNLIKE); /* velocity, position */
        particle_symmetry_points(y, w->n_landmarks, ends);
    }
}

static void places(const struct particle_world *w, size_t copy, double *ret)
{
    const size_t n = w->n_agents;
    const double apart = n > 1 ? LENGTH / (double)(n - 1) : 0.0;

    for (size_t i = 0; i < n; i++)
        for (size_t axis = 0; axis < 2; axis++)
            ret[2 * i + axis] =
                particle_pos(w, n, axis)[copy] +
                (double)i * apart * particle_own(w, DIRECTION + axis)[copy];
}

const struct particle_scenario particle_simple_line = {
    PARTICLE_WITH_PLACES, .build = simple_line_build,
    .reset = reset,       .symmetry = simple_line_symmetry,
    .places = places,
};
