#include "tests/bench/cores.h"

#include "common/err/check.h"

#include <sched.h>

int cores_keep(int n)
{
    cpu_set_t all, kept;

    CPU_ZERO(&kept);
    CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    for (int c = 0; c < CPU_SETSIZE && CPU_COUNT(&kept) < n; c++)
        if (CPU_ISSET(c, &all))
            CPU_SET(c, &kept);
    CHECK(sched_setaffinity(0, sizeof(kept), &kept) == 0);
    return CPU_COUNT(&kept);
}
