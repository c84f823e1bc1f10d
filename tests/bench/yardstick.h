/* yardstick.h - OpenBLAS's time for the products of a run: its own kernels, in chunks of
 * 128 rows, its fastest size, on operands of the same sizes in separate memory.
 */
#ifndef TESTS_BENCH_YARDSTICK_H
#define TESTS_BENCH_YARDSTICK_H

#include "agent/ops/kernel.h"

#include <stddef.h>

/* Points the operands and results of the products to memory of this module, one place for
 * all results; valid until the next call. */
void yardstick_prepare(struct dense *products, size_t n);
void yardstick_run(const struct dense *products, size_t n);
/* The number of operations in the products; multiplications and additions count one
 * each. */
double yardstick_flop(const struct dense *products, size_t n);
/* Operations per second of this core in registers alone, measured now. */
double yardstick_peak(void);

#endif
