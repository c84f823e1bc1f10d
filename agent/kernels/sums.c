/* The end of a sum: its lanes, added in the same order for every instruction set. */
#include "agent/kernels/loops.h"

float loop_sum_finish(const struct lane_sums *sums, size_t n)
{
    float s[SUM_LANES];

    for (int k = 0; k < SUM_LANES; k++)
        s[k] = sums->lane[k];
    for (int k = 0; n > SUM_BLOCK && k < SUM_LANES; k++)
        s[k] = sums->total[k] + s[k];
    for (int width = SUM_LANES / 2; width > 0; width /= 2)
        for (int k = 0; k < width; k++)
            s[k] += s[k + width];
    return s[0];
}
