/* Gathering a batch from the experience log: 1024 random rows of simple_spread's columns,
 * column by column as a learn stage does, against one plain copy of the same rows; then with
 * observations that are stacks of four, of which the log has each once. */
#include "common/err/check.h"
#include "common/rng/rng.h"
#include "common/store/store_view.h"
#include "tests/bench/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { B = 1024, A = 3, O = 18, U = 5, N_ROWS = 400000, N_BATCHES = 400, COPIES = 32 };

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void add(struct store_layout *l, int agent, const char *what, uint32_t elements)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "agent_%d/%s", agent, what);
    CHECK(store_layout_add(l, name, DT_FLOAT, elements, NULL) >= 0);
}

/* stack: observations that are seen at once; 1: no stacks. */
static struct store_layout make_layout(uint32_t stack)
{
    struct store_layout l = {0};

    for (int a = 0; a < A; a++) {
        add(&l, a, "obs", O);
        add(&l, a, "action", U);
        add(&l, a, "reward", 1);
        add(&l, a, "next_obs", O);
        add(&l, a, "terminated", 1);
        add(&l, a, "alive", 1);
    }
    CHECK(store_layout_add(&l, "truncated", DT_FLOAT, 1, NULL) >= 0);
    CHECK(store_layout_add(&l, "first", DT_FLOAT, 1, NULL) >= 0);
    for (uint32_t c = 0; stack > 1 && c < l.n_columns; c++)
        if (l.columns[c].elements == O)
            store_layout_stack(&l, (int)c, stack, COPIES, O);
    return l;
}

static struct store_view *make_log(const struct store_layout *l)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    uint8_t *header = malloc(STORE_HEADER_BYTES);
    float *row = calloc(1, l->row_bytes);
    struct store_view *v;

    CHECK(fd >= 0 && header != NULL && row != NULL);
    store_layout_encode(l, header);
    CHECK(write(fd, header, STORE_HEADER_BYTES) == STORE_HEADER_BYTES);
    for (int i = 0; i < N_ROWS; i++) {
        row[0] = (float)i;
        CHECK(write(fd, row, l->row_bytes) == (ssize_t)l->row_bytes);
    }
    CHECK(store_view_open(&v, fd, NULL) == 0);
    (void)close(fd);
    free(row);
    free(header);
    return v;
}

static void gather_columns(const struct store_view *v, const uint64_t *rows, float *dst)
{
    const struct store_layout *l = store_view_layout(v);

    for (uint32_t c = 0; c < l->n_columns; c++) {
        const size_t width = store_column_width(&l->columns[c]);

        store_view_gather(v, (int)c, rows, B, dst, width);
        dst += B * width;
    }
}

static void copy_rows(const uint8_t *log, size_t row_bytes, const uint64_t *rows,
                      uint8_t *dst)
{
    for (size_t i = 0; i < B; i++)
        memcpy(dst + i * row_bytes, log + rows[i] * row_bytes, row_bytes);
}

/* Microseconds of a batch, and of a plain copy of its rows. */
static double measure(uint32_t stack, double *ret_copy_us)
{
    struct store_layout l = make_layout(stack);
    struct store_view *v = make_log(&l);
    uint8_t *plain = calloc(N_ROWS, l.row_bytes);
    float *dst = malloc(B * l.row_bytes * stack);
    uint64_t rows[B];
    double gather_us[N_BATCHES], copy_us[N_BATCHES];

    CHECK(plain != NULL && dst != NULL);
    memset(plain, 1, N_ROWS * l.row_bytes);
    for (int i = -N_BATCHES; i < N_BATCHES; i++) { /* i < 0: only maps the pages */
        double start;

        rng_below(rng_key_make(1, "bench", "rows"), (uint64_t)(i + N_BATCHES), 0, N_ROWS,
                  rows, B);
        start = now_us();
        CHECK(store_view_check(v, rows, B, NULL) == 0);
        gather_columns(v, rows, dst);
        gather_us[i < 0 ? 0 : i] = now_us() - start;
        start = now_us();
        copy_rows(plain, l.row_bytes, rows, (uint8_t *)dst);
        copy_us[i < 0 ? 0 : i] = now_us() - start;
    }
    store_view_close(v);
    store_layout_done(&l);
    free(plain);
    free(dst);
    *ret_copy_us = median(copy_us, N_BATCHES);
    return median(gather_us, N_BATCHES);
}

int main(void)
{
    double copy_us, copy_again_us;
    const double gather_us = measure(1, &copy_us),
                 stacked_us = measure(4, &copy_again_us);

    (void)printf(
        "{\"rows\": %d, \"gather_us\": %.1f, \"copy_us\": %.1f, \"ratio\": %.2f, "
        "\"stacked_us\": %.1f, \"stacked_to_gather\": %.2f}\n",
        B, gather_us, copy_us, gather_us / copy_us, stacked_us, stacked_us / gather_us);
    return 0;
}
