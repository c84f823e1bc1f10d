/* numerics.h - what the last bits of a run depend on.
 *
 * Portable  every product, sum and function that reaches a weight is computed by kernels of
 *           our own, whose results are defined to the last bit: another CPU and another
 *           build of the same NUMERICS_VERSION give the same bytes.
 * Native    large products are the matrix library's, whose bits depend on the CPU and on
 *           the build: a run goes on exactly only where both are the same.
 */
#ifndef COMMON_NUMERICS_NUMERICS_H
#define COMMON_NUMERICS_NUMERICS_H

/* To be raised by any change after which some run could end with other bytes: a kernel's
 * order of operations, a function's polynomial, the key of a draw, an update rule. */
#define NUMERICS_VERSION 1

enum numerics { NUMERICS_PORTABLE, NUMERICS_NATIVE };

extern const char *const numerics_names[]; /* by enum numerics; NULL past the end */

/* ERR_ARG: no mode is called that. */
int numerics_find(enum numerics *ret, const char *name);

#endif
