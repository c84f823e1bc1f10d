#include "agent/kernels/loops.h"

#include "common/numerics/cpu_kernels.h"

#include <string.h>

extern const struct kern_loops kern_loops_portable, kern_loops_neon, kern_loops_avx2,
    kern_loops_avx512;

static const struct kern_loops *const sets[CPU_KERNELS_COUNT] = {
    [CPU_KERNELS_PORTABLE] = &kern_loops_portable,
#if defined(__x86_64__)
    [CPU_KERNELS_AVX2] = &kern_loops_avx2,
    [CPU_KERNELS_AVX512] = &kern_loops_avx512,
#elif defined(__aarch64__)
    [CPU_KERNELS_NEON] = &kern_loops_neon,
#endif
};

const struct kern_loops *kern_loops_at(int i)
{
    for (int k = 0; k < CPU_KERNELS_COUNT; k++)
        if (cpu_kernels_are_here((enum cpu_kernels)k) && i-- == 0)
            return sets[k];
    return NULL;
}

const struct kern_loops *kern_loops(void)
{
    static const struct kern_loops *chosen;

    if (chosen == NULL)
        chosen = sets[cpu_kernels()];
    return chosen;
}

const struct loop_row *kern_loop_find(const char *type, enum dtype dtype)
{
    for (const struct loop_row *r = kern_loops()->rows; r->type != NULL; r++)
        if (r->dtype == dtype && strcmp(r->type, type) == 0)
            return r;
    return NULL;
}
