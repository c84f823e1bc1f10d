#include "supervisor/env/particle_loops.h"

extern const struct particle_loops particle_loops_base, particle_loops_v3,
    particle_loops_v4;

#ifdef PARTICLE_HAVE_X86
/* What the compiler may use of x86-64-v3 and v4 beyond the baseline. */
static int has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}

static int has_v4(void)
{
    return has_v3() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const struct particle_loops *particle_loops_at(int i)
{
#ifdef PARTICLE_HAVE_X86
    if (i == 2 && has_v4())
        return &particle_loops_v4;
    if (i == 1 && has_v3())
        return &particle_loops_v3;
#endif
    return i == 0 ? &particle_loops_base : NULL;
}

const struct particle_loops *particle_loops_best(void)
{
    int i = 0;

    while (particle_loops_at(i + 1) != NULL)
        i++;
    return particle_loops_at(i);
}
