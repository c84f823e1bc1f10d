/* numerics.h - the two modes of arithmetic, which determine the last bits of a run.
 *
 * Portable  every product, sum and function that affects a weight is computed by this
 *           program's own kernels, whose results are defined to the last bit: all CPUs
 *           and all builds with the same NUMERICS_VERSION give the same bytes.
 * Native    OpenBLAS computes large products, and factors and solutions of large systems of
 *           equations; its bits depend on the CPU and on the build. A run resumes exactly
 *           only if both are the same.
 */
#ifndef COMMON_NUMERICS_NUMERICS_H
#define COMMON_NUMERICS_NUMERICS_H

/* Raise it with every change that could alter the bytes of some run, such as to a
 * kernel's order of operations, a function's polynomial, the key of a draw, or an update
 * rule. resume_check_numerics (supervisor/save) knows which runs a change cannot reach.
 *
 *     2  actions stay in a box even if the arithmetic with its bounds rounds: those of `random`,
 *        and of deterministic policies that do not explore. Only external environments have
 *        such boxes; the one of the particle worlds is -1 to 1. And in graphs that others built
 *        (algorithm: graph), what a control dependency puts after a write to a reference
 *        variable sees the new value (agent/session/uses.h). */
#define NUMERICS_VERSION 2

enum numerics { NUMERICS_PORTABLE, NUMERICS_NATIVE };

extern const char *const numerics_names[]; /* by enum numerics; NULL past the end */

/* ERR_ARG: there is no such mode. */
int numerics_find(enum numerics *ret, const char *name);

#endif
