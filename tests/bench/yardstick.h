/* yardstick.h - OpenBLAS's time for the products of a run: its own kernels, in chunks of 128
 * rows, which is where it is fastest, on operands of the same sizes in memory of their own.
 */
#ifndef TESTS_BENCH_YARDSTICK_H
#define TESTS_BENCH_YARDSTICK_H

#include "agent/session/kernels/kernel.h"

#include <stddef.h>

/* Gives the products memory for their operands, and one place for all results; it stays
 * until the next call. */
void yardstick_prepare(struct dense *products, size_t n);
void yardstick_run(const struct dense *products, size_t n);
/* Operations that the products take, a multiplication and an addition each one. */
double yardstick_flop(const struct dense *products, size_t n);
/* Operations per second of this core in registers alone, measured now. */
double yardstick_peak(void);

#endif
