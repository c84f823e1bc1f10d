#include "common/numerics/cpu_kernels.h"
#include "supervisor/env/particle_loops.h"

extern const struct particle_loops particle_loops_base, particle_loops_v3,
    particle_loops_v4;

static const struct particle_loops *const sets[CPU_KERNELS_COUNT] = {
    [CPU_KERNELS_PORTABLE] = &particle_loops_base,
    [CPU_KERNELS_NEON] = &particle_loops_base,
#ifdef PARTICLE_HAVE_X86
    [CPU_KERNELS_AVX2] = &particle_loops_v3,
    [CPU_KERNELS_AVX512] = &particle_loops_v4,
#endif
};

const struct particle_loops *particle_loops_at(int i)
{
    for (int k = 0; k < CPU_KERNELS_COUNT; k++)
        if (cpu_kernels_are_here((enum cpu_kernels)k) && i-- == 0)
            return sets[k];
    return NULL;
}

const struct particle_loops *particle_loops_best(void)
{
    return sets[cpu_kernels()];
}
