/* cpu_features.h - the features of this x86-64 processor and its operating system, as
 * detected by the C library at the start of the process.
 *
 * libgcc's __builtin_cpu_supports would execute CPUID again in every process, which takes
 * microseconds each time in a virtual machine.
 */
#ifndef COMMON_NUMERICS_CPU_FEATURES_H
#define COMMON_NUMERICS_CPU_FEATURES_H

#ifdef __x86_64__
#include <sys/platform/x86.h>

/* feature: such as x86_cpu_AVX2. The result is that of glibc's CPU_FEATURE_ACTIVE, but
 * without its shift into the sign bit. */
static inline int cpu_has(unsigned feature)
{
    const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(feature / 128);

    return (int)(leaf->active_array[feature % 128 / 32] >> (feature % 32) & 1);
}
#endif

#endif
