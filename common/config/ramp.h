/* ramp.h - a number that may depend on the run's step: a constant, or linear from one
 * value to another over a number of environment steps, and constant afterwards.
 *
 * The value is a function of the step alone, never a state: a respawned agent and a
 * resumed run have the same value. Written 0.1, or "1 to 0.05 over 50000", or as a map
 * {from: 1, to: 0.05, over: 50000}.
 */
#ifndef COMMON_CONFIG_RAMP_H
#define COMMON_CONFIG_RAMP_H

#include <stdint.h>

#define RAMP_MAX_STEPS 1e15 /* exact in a double */

struct ramp {
    double from, to;
    double over; /* environment steps; 0: a constant, `from` */
};

static inline struct ramp ramp_constant(double value)
{
    return (struct ramp){value, value, 0};
}

static inline double ramp_value(const struct ramp *r, uint64_t step)
{
    if (r->over <= 0)
        return r->from;
    if ((double)step >= r->over)
        return r->to;
    return r->from + (r->to - r->from) * ((double)step / r->over);
}

#endif
