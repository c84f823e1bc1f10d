/* staircase.h - a schedule for a number that its readers treat as a constant: it changes
 * from one value to another in at most a hundred steps of equal length (stairs), and then
 * stays constant.
 *
 * A ramp (ramp.h) is computed by the agent that reads it, anew for each request; discount,
 * polyak, intervals and so on are plain numbers, which the supervisor changes between rounds.
 * Their schedules have the same form, {from: 0.9, to: 0.99, over: 100000} or "0.9 to 0.99 over
 * 100000", and count environment steps from the run's beginning, as ramps do. On a stair
 * the value is that of the ramp at the stair's beginning; whole numbers are rounded.
 *
 * The value is a function of the schedule and the step alone.
 */
#ifndef COMMON_CONFIG_STAIRCASE_H
#define COMMON_CONFIG_STAIRCASE_H

#include "common/config/ramp.h"
#include "common/config/schema.h"

#include <stdint.h>

enum { STAIRCASE_STEPS = 100 };

/* Whether the value is meant as a schedule, valid or not: a map with one of its keys, or
 * a text with " to ". 0 if f is NULL or cannot have a schedule: it is no number, or its
 * values are ramps. */
int staircase_is_meant(const struct field *f, const struct yaml_node *n);
int staircase_is_meant_for(const struct field *f, const char *text); /* YAML */

/* ERR_CONFIG (yaml_fail): `from` or `to` is `none` or no valid value of the field, or a
 * part is missing. */
int staircase_read(const struct field *f, const struct yaml_node *n, const char *path,
                   struct ramp *ret, struct err *err);
/* "0.9 to 0.99 over 100000", or a map as text. ERR_CONFIG; place: for messages. */
int staircase_read_text(const struct field *f, const char *text, const char *place,
                        struct ramp *ret, struct err *err);
/* "0.9 to 0.99 over 100000"; free(). */
char *staircase_text(const struct field *f, const struct ramp *r);

/* Stores the value at a step, as schema_read_text would. */
void staircase_value(const struct field *f, const struct ramp *r, uint64_t step,
                     void *ret);
/* The first step after `step` at which the value changes; 0: none. */
uint64_t staircase_next(const struct field *f, const struct ramp *r, uint64_t step);

#endif
