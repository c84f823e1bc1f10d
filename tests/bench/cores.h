/* cores.h - restricts a benchmark to some of the cores. */
#ifndef TESTS_BENCH_CORES_H
#define TESTS_BENCH_CORES_H

/* Leaves this process, and those that it starts, at most n of the available cores. Returns
 * their number. */
int cores_keep(int n);

#endif
