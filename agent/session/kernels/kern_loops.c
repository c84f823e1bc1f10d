#include "agent/session/kernels/loops.h"

#include <string.h>

extern const struct kern_loops kern_loops_base, kern_loops_v3;

#ifdef KERN_HAVE_V3
/* What x86-64-v3 has over the baseline and loops.c can come to use. */
static int has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}
#endif

const struct kern_loops *kern_loops_at(int i)
{
#ifdef KERN_HAVE_V3
    if (i == 1 && has_v3())
        return &kern_loops_v3;
#endif
    return i == 0 ? &kern_loops_base : NULL;
}

const struct kern_loops *kern_loops(void)
{
    const struct kern_loops *best = kern_loops_at(1);
    return best ? best : kern_loops_at(0);
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
