/* rungs.h - the values of trials at the rungs of asha that are over.
 *
 *     env_steps,trial,seed,value
 *     50000,1,1,-21.25
 *     50000,1,2,-19.5
 *
 * runs/<study>/rungs.csv is written when all runs of a rung have come to its end, before any
 * of them continues: a run that is resumed replaces the row of metrics that its stop wrote, so
 * that its value at the rung could not be found in its files any more. A run without a
 * value has no row.
 */
#ifndef SUPERVISOR_STUDY_RUNGS_H
#define SUPERVISOR_STUDY_RUNGS_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct rungs { /* all-zero: none is over */
    struct rung_value {
        uint64_t env_steps; /* at the end of the rung */
        size_t trial;       /* from 0 */
        uint64_t seed;
        double value;
    } * row;
    size_t n;
};

/* Reads the values of the study in that folder; no file: there are none. *ret is all-zero
 * after an error: ERR_FORMAT, -errno. */
int rungs_read(struct rungs *ret, const char *dir, struct err *err);
void rungs_done(struct rungs *r);
/* NaN: it is not known. */
double rungs_find(const struct rungs *r, uint64_t env_steps, size_t trial, uint64_t seed);
/* Adds a value that is not there yet. */
void rungs_add(struct rungs *r, const struct rung_value *v);
/* Writes the file, which is on disk afterwards. */
int rungs_write(const struct rungs *r, const char *dir, struct err *err);

#endif
