#include "supervisor/env/particle_world.h"

#include "common/numerics/trig.h"

/* simple_formation: N agents have to form a circle of radius 0.5 around a landmark.
 *
 * Observation and reward: see PARTICLE_WITH_PLACES. The places are evenly spaced, from the
 * direction of the agent with the smallest angle, in [0, 2 pi), on. MPE2's sines and angles are
 * NumPy's, whose last bit depends on the machine; ours are rounded to nearest (trig.h).
 * It has no symmetries: in a rotated world another agent has the smallest angle.
 */

static const double RADIUS = 0.5, WHOLE_TURN = 0x1.921fb54442d18p+2;

static void simple_formation_build(struct particle_world *w, const void *params)
{
    particle_add_for_places(w, params, 0.05, 1, 0.03);
}

static void reset(struct particle_world *w, size_t copy, struct particle_draws *d)
{
    particle_draw_positions(w, d, copy, 0, w->n_agents, 1.0);
    particle_draw_positions(w, d, copy, w->n_agents, 1, 0.5);
}

static double smallest_angle(const struct particle_world *w, size_t copy, double x,
                             double y)
{
    double least = 0.0;

    for (size_t a = 0; a < w->n_agents; a++) {
        double angle =
            atan2_f64(particle_pos(w, a, 1)[copy] - y, particle_pos(w, a, 0)[copy] - x);

        if (angle < 0.0)
            angle += WHOLE_TURN;
        if (a == 0 || angle < least)
            least = angle;
    }
    return least;
}

static void places(const struct particle_world *w, size_t copy, double *ret)
{
    const double x = particle_pos(w, w->n_agents, 0)[copy];
    const double y = particle_pos(w, w->n_agents, 1)[copy];
    const double first = smallest_angle(w, copy, x, y);
    const double apart = WHOLE_TURN / (double)w->n_agents;

    for (size_t i = 0; i < w->n_agents; i++) {
        double sine, cosine;

        sincos_f64(first + (double)i * apart, &sine, &cosine);
        ret[2 * i] = x + RADIUS * cosine;
        ret[2 * i + 1] = y + RADIUS * sine;
    }
}

const struct particle_scenario particle_simple_formation = {
    PARTICLE_WITH_PLACES,
    .build = simple_formation_build,
    .reset = reset,
    .places = places,
};
