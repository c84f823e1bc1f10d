/* ramp.h - a number that may depend on the run's step: a constant, or linear from one
 * value to another over a number of environment steps, and constant afterwards.
 *
 * Form     0.1, or "1 to 0.05 over 50000", or as a map {from: 1, to: 0.05, over: 50000}. Steps
 *          count from the run's beginning.
 * Values   a function of the step alone, never a state: a respawned agent and a resumed run
 *          have the same value.
 * Stairs   an agent that reads a FIELD_SCHEDULE (schema.h) computes it anew for each request.
 *          Discount, polyak, intervals and so on are plain numbers, which their readers take
 *          for constants and the supervisor changes between rounds: they move in at most a
 *          hundred steps of equal length. On a stair the value is that of the ramp at the
 *          stair's beginning; whole numbers are rounded.
 */
#ifndef COMMON_CONFIG_RAMP_H
#define COMMON_CONFIG_RAMP_H

#include "common/err/err.h"

#include <stdint.h>

#define RAMP_MAX_STEPS 1e15 /* exact in a double */

struct field;
struct yaml_node;

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

/* ---- reading and writing ---- */

/* Whether the value of a number is meant as a schedule, valid or not: a map, or a text with
 * " to ". */
int ramp_is_form(const struct yaml_node *n);
/* ERR_CONFIG (yaml_fail): `from` or `to` is `none` or no valid value of the field, or a
 * part is missing. */
int ramp_read(const struct field *f, const struct yaml_node *n, const char *path,
              struct ramp *ret, struct err *err);
/* "0.9 to 0.99 over 100000"; free(). */
char *ramp_text(const struct field *f, const struct ramp *r);

/* ---- numbers that their readers take for constants ---- */

enum { RAMP_STAIRS = 100 };

/* Whether the field is such a number, and the value is meant as a schedule: a map with one of its
 * keys, or a text with " to ". f: NULL is fine. */
int ramp_is_meant(const struct field *f, const struct yaml_node *n);
/* Stores the value at a step, as schema_read_text would. */
void ramp_stair(const struct field *f, const struct ramp *r, uint64_t step, void *ret);
/* The first step after `step` at which the value changes; 0: none. */
uint64_t ramp_next_stair(const struct field *f, const struct ramp *r, uint64_t step);

#endif
