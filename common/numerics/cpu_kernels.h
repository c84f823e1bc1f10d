/* cpu_kernels.h - chooses the instruction set of the kernels.
 *
 * All kernels give the same bits (numerics.h) and differ only in speed. The environment
 * variable BROOD_KERNELS=portable, avx2, avx512 or neon replaces the best choice, for
 * tests. If this CPU lacks that set or the name is unknown, a warning is logged and the
 * best set is used.
 */
#ifndef COMMON_NUMERICS_CPU_KERNELS_H
#define COMMON_NUMERICS_CPU_KERNELS_H

#define CPU_KERNELS_VARIABLE "BROOD_KERNELS"

enum cpu_kernels {
    CPU_KERNELS_PORTABLE, /* plain C for the baseline of the architecture */
    CPU_KERNELS_NEON,     /* aarch64: every CPU has it */
    CPU_KERNELS_AVX2,     /* x86-64-v3: AVX2, BMI, FMA */
    CPU_KERNELS_AVX512,   /* x86-64-v4: AVX-512 F, BW, CD, DQ, VL */
    CPU_KERNELS_COUNT
};

/* Whether this CPU can run them. */
int cpu_kernels_are_here(enum cpu_kernels kernels);
/* The kernels to use; constant during the life of the process. */
enum cpu_kernels cpu_kernels(void);
const char *cpu_kernels_name(enum cpu_kernels kernels); /* "avx2" */

#endif
