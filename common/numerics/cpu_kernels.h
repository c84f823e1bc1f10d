/* cpu_kernels.h - which instruction set the kernels of this machine are built for.
 *
 * All of them give the same bits (numerics.h); they differ in speed. BROOD_KERNELS=portable,
 * avx2, avx512 or neon in the environment takes another one than the best, to check just
 * that; where this CPU lacks it, or no such name is known, one line warns and the best is
 * taken.
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

/* Can this CPU run them? */
int cpu_kernels_are_here(enum cpu_kernels kernels);
/* The ones to use; the same for as long as the process lives. */
enum cpu_kernels cpu_kernels(void);
const char *cpu_kernels_name(enum cpu_kernels kernels); /* "avx2" */

#endif
