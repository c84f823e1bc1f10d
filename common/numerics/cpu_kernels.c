#include "common/numerics/cpu_kernels.h"

#include "common/log/log.h"
#include "common/numerics/cpu_features.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[CPU_KERNELS_COUNT] = {[CPU_KERNELS_PORTABLE] = "portable",
                                                     [CPU_KERNELS_NEON] = "neon",
                                                     [CPU_KERNELS_AVX2] = "avx2",
                                                     [CPU_KERNELS_AVX512] = "avx512"};

const char *cpu_kernels_name(enum cpu_kernels kernels)
{
    return names[kernels];
}

#if defined(__x86_64__)
static int has_v3(void)
{
    return cpu_has(x86_cpu_AVX2) && cpu_has(x86_cpu_BMI1) && cpu_has(x86_cpu_BMI2) &&
           cpu_has(x86_cpu_FMA);
}

static int has_v4(void)
{
    return has_v3() && cpu_has(x86_cpu_AVX512F) && cpu_has(x86_cpu_AVX512BW) &&
           cpu_has(x86_cpu_AVX512CD) && cpu_has(x86_cpu_AVX512DQ) &&
           cpu_has(x86_cpu_AVX512VL);
}

int cpu_kernels_are_here(enum cpu_kernels kernels)
{
    return kernels == CPU_KERNELS_PORTABLE || (kernels == CPU_KERNELS_AVX2 && has_v3()) ||
           (kernels == CPU_KERNELS_AVX512 && has_v4());
}
#else
int cpu_kernels_are_here(enum cpu_kernels kernels)
{
#ifdef __aarch64__
    if (kernels == CPU_KERNELS_NEON)
        return 1;
#endif
    return kernels == CPU_KERNELS_PORTABLE;
}
#endif

static enum cpu_kernels best(void)
{
    enum cpu_kernels k = CPU_KERNELS_COUNT - 1;

    while (!cpu_kernels_are_here(k))
        k--;
    return k;
}

/* Returns CPU_KERNELS_COUNT if there are no kernels of that name. */
static enum cpu_kernels cpu_kernels_find(const char *name)
{
    enum cpu_kernels k = CPU_KERNELS_PORTABLE;

    while (k < CPU_KERNELS_COUNT && strcmp(names[k], name) != 0)
        k++;
    return k;
}

static enum cpu_kernels cpu_kernels_choose(void)
{
    const char *wish = getenv(CPU_KERNELS_VARIABLE);
    const enum cpu_kernels k = wish != NULL ? cpu_kernels_find(wish) : CPU_KERNELS_COUNT;

    if (wish == NULL || *wish == '\0')
        return best();
    if (k == CPU_KERNELS_COUNT)
        log_warn(CPU_KERNELS_VARIABLE "=%s: portable, neon, avx2 or avx512 expected; %s "
                                      "is taken",
                 wish, names[best()]);
    else if (!cpu_kernels_are_here(k))
        log_warn(CPU_KERNELS_VARIABLE "=%s: this CPU has none of these; %s is taken",
                 wish, names[best()]);
    else
        return k;
    return best();
}

enum cpu_kernels cpu_kernels(void)
{
    static enum cpu_kernels chosen = CPU_KERNELS_COUNT;

    if (chosen == CPU_KERNELS_COUNT)
        chosen = cpu_kernels_choose();
    return chosen;
}
