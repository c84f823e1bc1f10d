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
 *        variable sees the new value (agent/plan/uses.h).
 *     3  float32 sums of more than SUM_BLOCK elements, over all of a tensor or along its rows, and
 *        softmaxes of more than SUM_CHAIN add the sums of blocks and chains; they were chains of
 *        any length. The operation EuclideanNorm adds squares as Sum does, not in one chain. */
#define NUMERICS_VERSION 3

/* A float32 sum over all elements of a tensor, or along its rows, adds element i to number
 * i % SUM_LANES, and at most SUM_CHAIN elements to each number, so that rounding errors stay small:
 * a longer one is the sum of the sums of blocks, in order. That of a softmax adds to one number, in
 * chains of SUM_CHAIN. For sums over other axes see agent/ops/reduce.c. */
#define SUM_CHAIN 8192
#define SUM_LANES 32
#define SUM_BLOCK (SUM_LANES * SUM_CHAIN) /* elements */

enum numerics { NUMERICS_PORTABLE, NUMERICS_NATIVE };

extern const char *const numerics_names[]; /* by enum numerics; NULL past the end */

/* ERR_ARG: there is no such mode. */
int numerics_find(enum numerics *ret, const char *name);

#endif
