#include "agent/session/kernels/loops.h"

#include <string.h>

extern const struct kern_loops kern_loops_base, kern_loops_v3, kern_loops_v4;

#ifdef KERN_HAVE_X86
/* What x86-64-v3 has over the baseline and loops.c can come to use. */
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

const struct kern_loops *kern_loops_at(int i)
{
#ifdef KERN_HAVE_X86
    if (i == 2 && has_v4())
        return &kern_loops_v4;
    if (i == 1 && has_v3())
        return &kern_loops_v3;
#endif
    return i == 0 ? &kern_loops_base : NULL;
}

const struct kern_loops *kern_loops(void)
{
    const struct kern_loops *best = kern_loops_at(0);
    for (int i = 1; kern_loops_at(i); i++)
        best = kern_loops_at(i);
    return best;
}

const struct loop_row *kern_loop_find(const char *type, enum dtype dtype)
{
    for (const struct loop_row *r = kern_loops()->rows; r->type; r++)
        if (r->dtype == dtype && strcmp(r->type, type) == 0)
            return r;
    return NULL;
}

float loop_sum_finish(const float lanes[SUM_LANES])
{
    float s[SUM_LANES];
    for (int k = 0; k < SUM_LANES; k++)
        s[k] = lanes[k];
    for (int width = SUM_LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++)
            s[k] += s[k + width];
    return s[0];
}
