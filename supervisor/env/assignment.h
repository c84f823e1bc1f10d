/* assignment.h - the assignment of n workers to n jobs, one each, of least total cost.
 *
 * Source   Crouse 2016, On implementing 2D rectangular assignment algorithms: for each worker
 *          in turn, a shortest augmenting path (Jonker and Volgenant 1987). Sums, and the
 *          choice among equal paths, are in the order of SciPy's linear_sum_assignment, so that
 *          of several assignments of the same cost both find the same one. Time n^3.
 */
#ifndef SUPERVISOR_ENV_ASSIGNMENT_H
#define SUPERVISOR_ENV_ASSIGNMENT_H

#include "common/mem/arena.h"

#include <stddef.h>

struct assignment; /* opaque: the memory for one solution */

struct assignment *assignment_new(size_t n, struct arena *arena);
/* cost (n, n), a row for each worker; all finite. Returns the job of each worker (n), valid
 * until the next call. */
const size_t *assignment_solve(struct assignment *a, const double *cost);

#endif
