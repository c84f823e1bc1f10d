/* values.h - compares the variables of two processes of the same graph.
 *
 * Settings  (<process>/hyperparameters/...) are left out: they are the configuration's numbers, which
 *           act only through what a stage computes with them.
 * Block     its bytes; what belongs to no variable is left out, too.
 */
#ifndef SUPERVISOR_DIFF_VALUES_H
#define SUPERVISOR_DIFF_VALUES_H

#include "supervisor/save/checkpoint_format.h"

#include <stddef.h>
#include <stdint.h>

struct values_part {
    size_t variable;  /* index of the first that differs, in the order of names */
    size_t n;         /* how many differ */
    uint64_t element; /* the first of that variable that differs, in row-major order */
    double here, there;
    double
        largest; /* the largest distance of two of its elements; NaN: of no two numbers */
};

/* Returns 1 if they differ, and where. */
int values_compare(struct values_part *ret, const struct block_table *t, const void *here,
                   const void *there);
/* Equal variables have equal ones. */
uint32_t values_sum(const struct block_table *t, const void *block);

#endif
