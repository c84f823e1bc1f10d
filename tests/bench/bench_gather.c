/* Gathering a batch from the experience log: 1024 random rows of simple_spread's columns,
 * column by column as a learn stage does, against one plain copy of the same rows. */
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

enum { B = 1024, A = 3, O = 18, U = 5, N_ROWS = 400000, N_BATCHES = 400 };

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

static struct store_layout make_layout(void)
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
        store_view_gather(v, (int)c, rows, B, dst, l->columns[c].elements);
        dst += (size_t)B * l->columns[c].elements;
    }
}

static void copy_rows(const uint8_t *log, size_t row_bytes, const uint64_t *rows,
                      uint8_t *dst)
{
    for (size_t i = 0; i < B; i++)
        memcpy(dst + i * row_bytes, log + rows[i] * row_bytes, row_bytes);
}

int main(void)
{
    struct store_layout l = make_layout();
    struct store_view *v = make_log(&l);
    uint8_t *plain = calloc(N_ROWS, l.row_bytes);
    float *dst = malloc(B * l.row_bytes);
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
    (void)printf(
        "{\"rows\": %d, \"row_bytes\": %llu, \"columns\": %u, \"gather_us\": %.1f, "
        "\"copy_us\": %.1f, \"ratio\": %.2f}\n",
        B, (unsigned long long)l.row_bytes, l.n_columns, median(gather_us, N_BATCHES),
        median(copy_us, N_BATCHES),
        median(gather_us, N_BATCHES) / median(copy_us, N_BATCHES));
    store_view_close(v);
    store_layout_done(&l);
    free(plain);
    free(dst);
    return 0;
}
