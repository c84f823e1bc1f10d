/* schedule.h - a number that may depend on the run's step: a constant, or linear from one
 * value to another over a number of environment steps, and constant afterwards.
 *
 * Form     0.1, or "1 to 0.05 over 50000", or as a map {from: 1, to: 0.05, over: 50000}. Steps
 *          count from the run's beginning.
 * Values   a function of the step alone, never a state: a respawned agent and a resumed run
 *          have the same value.
 * Stairs   an agent that reads a FIELD_SCHEDULE (schema.h) computes it anew for each request.
 *          Discount, polyak, intervals and so on are plain numbers, which their readers take
 *          for constants and the supervisor changes between rounds: they move in at most a
 *          hundred steps of equal length. On a stair the value is that of the schedule at the
 *          stair's beginning; whole numbers are rounded.
 */
#ifndef COMMON_CONFIG_SCHEDULE_H
#define COMMON_CONFIG_SCHEDULE_H

#include "common/err/err.h"

#include <stdint.h>
#include <stdio.h>

#define SCHEDULE_MAX_STEPS 1e15 /* exact in a double */

struct field;
struct yaml_node;

struct schedule {
    double from, to;
    double over; /* environment steps; 0: a constant, `from` */
};

static inline double schedule_at(const struct schedule *s, uint64_t step)
{
    if (s->over <= 0)
        return s->from;
    if ((double)step >= s->over)
        return s->to;
    return s->from + (s->to - s->from) * ((double)step / s->over);
}

/* ---- reading and writing ---- */

/* Whether the value of a number is meant as a schedule, valid or not: a map, or a text with
 * " to ". */
int schedule_is_form(const struct yaml_node *n);
/* ERR_CONFIG (yaml_fail): `from` or `to` is `none` or no valid value of the field, or a
 * part is missing. */
int schedule_read(const struct field *f, const struct yaml_node *n, const char *path,
                  struct schedule *ret, struct err *err);
/* "0.9 to 0.99 over 100000", or a constant, with the field's units; schedule_text: free(). */
void schedule_write(const struct field *f, const struct schedule *s, FILE *out);
char *schedule_text(const struct field *f, const struct schedule *s);

/* ---- numbers that their readers take for constants ---- */

enum { SCHEDULE_STAIRS = 100 };

/* Whether the field is such a number, and the value is meant as a schedule: a map with one of its
 * keys, or a text with " to ". f: NULL is fine. */
int schedule_is_meant(const struct field *f, const struct yaml_node *n);
/* Stores the value at a step, as schema_read_text would. */
void schedule_stair(const struct field *f, const struct schedule *s, uint64_t step,
                    void *ret);
/* The first step after `step` at which the value changes; 0: none. */
uint64_t schedule_next_stair(const struct field *f, const struct schedule *s,
                             uint64_t step);

#endif
