/* What prioritised replay costs: a draw of 1024 rows from a million, giving them new
 * priorities, and 32 new rows. Prints the median of each in microseconds. */
#include "supervisor/store/priorities.h"
#include "tests/bench/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROWS = 1000000, BATCH = 1024, COPIES = 32, TIMES = 201 };

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(void)
{
    const struct rng_key key = rng_key_make(1, "experience", "rows");
    struct priorities *p = priorities_new(ROWS, 0.6);
    static uint64_t rows[BATCH];
    static float weights[BATCH];
    static double draw[TIMES], set[TIMES], add[TIMES];

    for (uint64_t row = 0; row < ROWS; row++) {
        const float value = (float)(row % 1009) / 1009.0f;

        priorities_append(p, row, 1);
        priorities_add(p, row);
        priorities_set(p, &row, &value, 1);
    }
    for (uint64_t i = 0; i < TIMES; i++) {
        const uint64_t head = ROWS + i * COPIES;
        double at = now_us();

        priorities_draw(p, key, i, 0.4, rows, weights, BATCH);
        draw[i] = now_us() - at;
        at = now_us();
        priorities_set(p, rows, weights, BATCH);
        set[i] = now_us() - at;
        at = now_us();
        priorities_append(p, head, COPIES);
        for (uint64_t e = 0; e < COPIES; e++)
            priorities_add(p, head + e);
        add[i] = now_us() - at;
    }
    printf(
        "draw of %d from %d: %.1f us; their new priorities: %.1f us; %d new rows: %.1f "
        "us (a draw: at most 200)\n",
        BATCH, ROWS, median(draw, TIMES), median(set, TIMES), COPIES, median(add, TIMES));
    priorities_free(p);
    return 0;
}
