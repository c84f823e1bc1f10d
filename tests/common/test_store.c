#include "common/store/layout.h"
#include "common/store/store_view.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static struct err err;
static uint8_t header[STORE_HEADER_BYTES];

static int add(struct store_layout *l, const char *name, enum dtype dtype, uint32_t n)
{
    int i = store_layout_add(l, name, dtype, n, &err);

    ck_assert_int_ge(i, 0);
    return i;
}

static struct store_layout example(void)
{
    struct store_layout l = {0};

    add(&l, "a/obs", DT_FLOAT, 5);
    add(&l, "a/obs_extra", DT_FLOAT, 1);
    add(&l, "a/action", DT_FLOAT, 3);
    add(&l, "a/reward", DT_FLOAT, 1);
    add(&l, "ab/obs", DT_FLOAT, 18);
    add(&l, "truncated", DT_FLOAT, 1);
    return l;
}

START_TEST(columns_are_aligned_and_found)
{
    struct store_layout l = {0};

    ck_assert_int_eq(add(&l, "flag", DT_UINT8, 3), 0);
    ck_assert_int_eq(add(&l, "x", DT_FLOAT, 1), 1);
    ck_assert_int_eq(add(&l, "y", DT_DOUBLE, 2), 2);
    ck_assert_uint_eq(l.columns[1].offset, 4);
    ck_assert_uint_eq(l.columns[2].offset, 8);
    ck_assert_uint_eq(l.row_bytes, 24);
    add(&l, "z", DT_UINT8, 1);
    ck_assert_uint_eq(l.columns[3].offset, 24);
    ck_assert_uint_eq(l.row_bytes, 32);
    store_layout_done(&l);

    l = example();
    ck_assert_int_eq(store_layout_find(&l, "a", "obs"), 0);
    ck_assert_int_eq(store_layout_find(&l, "ab", "obs"), 4);
    ck_assert_int_eq(store_layout_find(&l, NULL, "truncated"), 5);
    ck_assert_int_eq(store_layout_find(&l, NULL, "ab/obs"), 4);
    ck_assert_int_eq(store_layout_find(&l, "a", "truncated"), ERR_NOT_FOUND);
    ck_assert_int_eq(store_layout_find(&l, "a", "ob"), ERR_NOT_FOUND);
    ck_assert_int_eq(store_layout_find(&l, "abc", "obs"), ERR_NOT_FOUND);
    store_layout_done(&l);
}
END_TEST

START_TEST(impossible_columns_are_refused)
{
    struct store_layout l = example(), before = l;
    char name[STORE_COLUMN_NAME_MAX + 1];

    memset(name, 'n', sizeof(name));
    name[STORE_COLUMN_NAME_MAX] = '\0';
    ck_assert_int_eq(store_layout_add(&l, name, DT_FLOAT, 1, &err), ERR_ARG);
    ck_assert_int_eq(store_layout_add(&l, "", DT_FLOAT, 1, &err), ERR_ARG);
    ck_assert_int_eq(store_layout_add(&l, "x", DT_FLOAT, 0, &err), ERR_ARG);
    ck_assert_int_eq(store_layout_add(&l, "x", DT_STRING, 1, &err), ERR_DTYPE);
    ck_assert_int_eq(store_layout_add(&l, "a/obs", DT_FLOAT, 1, &err), ERR_EXISTS);
    ck_assert_int_eq(store_layout_add(&l, "x", DT_DOUBLE, 1u << 31, &err), ERR_LIMIT);
    ck_assert_mem_eq(&l, &before, sizeof(l));
    name[STORE_COLUMN_NAME_MAX - 1] = '\0';
    add(&l, name, DT_FLOAT, 1);
    store_layout_done(&l);
    for (int i = 0; i < STORE_MAX_COLUMNS; i++) {
        (void)snprintf(name, sizeof(name), "c%d", i);
        add(&l, name, DT_FLOAT, 1);
    }
    ck_assert_int_eq(store_layout_add(&l, "x", DT_FLOAT, 1, &err), ERR_LIMIT);
    store_layout_encode(&l, header);
    store_layout_done(&l);
    ck_assert_int_eq(store_layout_decode(header, &l, &err), 0);
    ck_assert_uint_eq(l.n_columns, STORE_MAX_COLUMNS);
    store_layout_done(&l);
}
END_TEST

START_TEST(a_header_reads_back)
{
    struct store_layout l = example(), got = {0};

    store_layout_encode(&l, header);
    ck_assert_mem_eq(header, "bordlog1", 8);
    ck_assert_int_eq(store_layout_decode(header, &got, &err), 0);
    ck_assert_uint_eq(got.n_columns, l.n_columns);
    ck_assert_uint_eq(got.row_bytes, l.row_bytes);
    ck_assert_mem_eq(got.columns, l.columns, l.n_columns * sizeof(*l.columns));
    ck_assert(store_layout_hash(&got) == store_layout_hash(&l));
    store_layout_done(&got);
    store_layout_done(&l);
    store_layout_done(&l);
}
END_TEST

/* Every flipped bit is refused, and so is a name without a NUL even if the hash is
 * correct. */
START_TEST(a_damaged_header_is_refused)
{
    struct store_layout l = example(), got = {0};
    size_t used = sizeof(struct store_header) + l.n_columns * sizeof(*l.columns);

    store_layout_encode(&l, header);
    for (size_t i = 0; i < used; i++) {
        for (int bit = 0; bit < 8; bit++) {
            header[i] ^= (uint8_t)(1 << bit);
            ck_assert_int_eq(store_layout_decode(header, &got, &err), ERR_FORMAT);
            header[i] ^= (uint8_t)(1 << bit);
        }
    }
    ck_assert_ptr_null(got.columns);
    memset(l.columns[0].name, 'x', STORE_COLUMN_NAME_MAX);
    store_layout_encode(&l, header);
    ck_assert_int_eq(store_layout_decode(header, &got, &err), ERR_FORMAT);
    store_layout_done(&l);
}
END_TEST

/* A log whose float j of row i is i * 1000 + j. */
static int make_log(const struct store_layout *l, size_t n_rows)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    size_t floats = l->row_bytes / sizeof(float);
    float *row = malloc(l->row_bytes);

    ck_assert_int_ge(fd, 0);
    store_layout_encode(l, header);
    ck_assert_int_eq(write(fd, header, sizeof(header)), sizeof(header));
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < floats; j++)
            row[j] = (float)(i * 1000 + j);
        ck_assert_int_eq(write(fd, row, l->row_bytes), (ssize_t)l->row_bytes);
    }
    free(row);
    return fd;
}

START_TEST(where_no_row_is_zeros_are_gathered)
{
    static const uint64_t rows[] = {ROW_NONE, 2, ROW_NONE, 0};
    struct store_layout l = example();
    struct store_view *v;
    float obs[4][5], reward[4];
    uint64_t beyond[] = {ROW_NONE, 3};
    int fd;

    add(&l, "a/allowed", DT_UINT8, 3);
    fd = make_log(&l, 3);
    memset(obs, 0x55, sizeof(obs));
    memset(reward, 0x55, sizeof(reward));
    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    ck_assert_int_eq(store_view_check(v, rows, 4, &err), 0);
    ck_assert_int_eq(store_view_check(v, beyond, 2, &err), ERR_LIMIT);
    store_view_gather(v, 0, rows, 4, obs[0], 5);
    store_view_gather(v, store_layout_find(&l, "a", "reward"), rows, 4, reward, 1);
    for (int j = 0; j < 5; j++) {
        ck_assert(obs[0][j] == 0.0f && obs[2][j] == 0.0f);
        ck_assert(obs[1][j] == (float)(2000 + j) && obs[3][j] == (float)j);
    }
    ck_assert(reward[0] == 0.0f && reward[1] == 2009.0f && reward[3] == 9.0f);
    {
        uint8_t allowed[4 * 3];

        memset(allowed, 0x55, sizeof(allowed));
        store_view_gather_bytes(v, store_layout_find(&l, "a", "allowed"), rows, 4,
                                allowed);
        for (int j = 0; j < 3; j++)
            ck_assert_uint_eq(allowed[j] | allowed[6 + j], 0);
        ck_assert_uint_ne(allowed[3] | allowed[4] | allowed[5], 0);
    }
    store_view_close(v);
    (void)close(fd);
    store_layout_done(&l);
}
END_TEST

START_TEST(rows_are_gathered_in_the_order_given)
{
    struct store_layout l = example();
    int fd = make_log(&l, 100);
    uint64_t rows[300];
    struct store_view *v = NULL;
    float dst[300 * 20];

    for (size_t i = 0; i < 300; i++)
        rows[i] = (i * 37 + 11) % 100;
    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    close(fd);
    ck_assert_int_eq(store_view_check(v, rows, 300, &err), 0);
    for (int c = 0; c < (int)l.n_columns; c++) {
        size_t n = l.columns[c].elements, at = l.columns[c].offset / sizeof(float);

        memset(dst, 0xff, sizeof(dst));
        store_view_gather(v, c, rows, 300, dst, 20);
        for (size_t i = 0; i < 300; i++) {
            for (size_t j = 0; j < n; j++)
                ck_assert(dst[i * 20 + j] == (float)(rows[i] * 1000 + at + j));
            for (size_t j = n; j < 20; j++) /* the space between rows is unchanged */
                ck_assert(dst[i * 20 + j] != dst[i * 20 + j]);
        }
    }
    ck_assert_uint_eq(store_view_layout(v)->n_columns, l.n_columns);
    store_view_close(v);
    store_layout_done(&l);
}
END_TEST

/* Columns in any order, some of them adjacent in the row. */
START_TEST(columns_are_joined)
{
    static const int orders[][6] = {
        {0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 3, 4, 0, 1, 5}, {0, 0, 1, 2, 2, 3}};
    struct store_layout l = example();
    int fd = make_log(&l, 100);
    uint64_t rows[50];
    struct store_view *v = NULL;
    float dst[50 * 64];

    for (size_t i = 0; i < 50; i++)
        rows[i] = (i * 37 + 11) % 100;
    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    close(fd);
    for (size_t k = 0; k < sizeof(orders) / sizeof(orders[0]); k++) {
        size_t column = 0;

        memset(dst, 0xff, sizeof(dst));
        store_view_gather_joined(v, orders[k], 6, rows, 50, dst, 64);
        for (int c = 0; c < 6; c++) {
            const struct store_column *from = &l.columns[orders[k][c]];

            for (size_t j = 0; j < from->elements; j++, column++)
                for (size_t i = 0; i < 50; i++)
                    ck_assert(dst[i * 64 + column] ==
                              (float)(rows[i] * 1000 + from->offset / sizeof(float) + j));
        }
        for (; column < 64; column++) /* the space between rows is unchanged */
            ck_assert(dst[column] != dst[column]);
    }
    store_view_close(v);
    store_layout_done(&l);
}
END_TEST

START_TEST(bytes_are_gathered)
{
    struct store_layout l = {0};
    const uint64_t rows[] = {7, 0, 7, 3};
    struct store_view *v = NULL;
    uint8_t dst[4 * 5 + 1], want[8];
    int fd, c;

    add(&l, "a/reward", DT_FLOAT, 1);
    c = add(&l, "a/allowed", DT_UINT8, 5);
    add(&l, "a/next_allowed", DT_UINT8, 3);
    fd = make_log(&l, 10);
    memset(dst, 0xee, sizeof(dst));
    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    store_view_gather_bytes(v, c, rows, 4, dst);
    for (size_t i = 0; i < 4; i++) {
        const float numbers[2] = {(float)(rows[i] * 1000 + 1),
                                  (float)(rows[i] * 1000 + 2)};

        memcpy(want, numbers, sizeof(want));
        ck_assert_mem_eq(dst + i * 5, want, 5);
    }
    ck_assert_uint_eq(dst[4 * 5], 0xee);
    store_view_close(v);
    close(fd);
    store_layout_done(&l);
}
END_TEST

/* Columns of bytes are converted to floats, alone or joined with others; 255 becomes
 * 255. */
START_TEST(bytes_are_gathered_as_floats)
{
    struct store_layout l = {0};
    const uint64_t rows[] = {7, ROW_NONE, 3};
    const int columns[] = {1, 2, 0};
    uint8_t row[24] = {0};
    struct store_view *v = NULL;
    float dst[3 * 9], reward = 0.5f;
    int fd;

    add(&l, "a/reward", DT_FLOAT, 1);
    add(&l, "a/obs", DT_UINT8, 5);
    add(&l, "b/obs", DT_UINT8, 3);
    fd = make_log(&l, 10);
    memcpy(row, &reward, sizeof(reward));
    for (int i = 0; i < 8; i++)
        row[4 + i] = (uint8_t)(248 + i);
    ck_assert_int_eq(
        pwrite(fd, row, l.row_bytes, STORE_HEADER_BYTES + (off_t)(7 * l.row_bytes)),
        (ssize_t)l.row_bytes);
    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    store_view_gather_joined(v, columns, 3, rows, 3, dst, 9);
    for (int i = 0; i < 9; i++) {
        ck_assert(dst[i] == (i < 8 ? (float)(248 + i) : reward));
        ck_assert(dst[9 + i] == 0.0f);
    }
    store_view_gather(v, 2, rows, 1, dst, 3);
    ck_assert(dst[0] == 253.0f && dst[2] == 255.0f);
    store_view_close(v);
    close(fd);
    store_layout_done(&l);
}
END_TEST

enum { STEPS = 5, COPIES = 2, STACK = 3 };

/* Two copies, of which the first begins an episode at steps 0 and 2, the second at 0. An
 * observation is two numbers (10 row, 10 row + 1), that after it (10 row + 5, 10 row + 6); or a
 * picture of two points with two channels, of bytes. */
static int make_stacked(struct store_layout *l)
{
    const int fd = memfd_create("log", MFD_CLOEXEC);
    const int obs = add(l, "a/obs", DT_FLOAT, 2),
              next = add(l, "a/next_obs", DT_FLOAT, 2);
    const int seen = add(l, "b/obs", DT_UINT8, 4), first = add(l, "first", DT_FLOAT, 1);
    uint8_t row[64] = {0};

    store_layout_stack(l, obs, STACK, COPIES, 2);
    store_layout_stack(l, next, STACK, COPIES, 2);
    store_layout_stack(l, seen, STACK, COPIES, 2);
    ck_assert_uint_eq(store_column_width(&l->columns[obs]), 6);
    ck_assert_uint_eq(store_column_width(&l->columns[first]), 1);
    store_layout_encode(l, header);
    ck_assert_int_eq(write(fd, header, sizeof(header)), sizeof(header));
    for (int r = 0; r < STEPS * COPIES; r++) {
        const float is_first = r < COPIES || r == 2 * COPIES;
        const float x[] = {(float)(10 * r), (float)(10 * r + 1), (float)(10 * r + 5),
                           (float)(10 * r + 6)};
        const uint8_t points[] = {(uint8_t)(10 * r), (uint8_t)(10 * r + 1),
                                  (uint8_t)(10 * r + 2), (uint8_t)(10 * r + 3)};

        memcpy(row + l->columns[obs].offset, x, sizeof(x));
        memcpy(row + l->columns[seen].offset, points, sizeof(points));
        memcpy(row + l->columns[first].offset, &is_first, sizeof(is_first));
        ck_assert_int_eq(write(fd, row, l->row_bytes), (ssize_t)l->row_bytes);
    }
    return fd;
}

/* Oldest first; an episode's first observation stands for those that it does not have. */
START_TEST(stacked_observations_are_put_together)
{
    static const struct {
        uint64_t row;
        int now[STACK],
            next[STACK]; /* rows; of next, -1: the observation after the row */
    } cases[] = {
        {0, {0, 0, 0}, {0, 0, -1}}, {2, {0, 0, 2}, {0, 2, -1}},
        {4, {4, 4, 4}, {4, 4, -1}}, {8, {4, 6, 8}, {6, 8, -1}},
        {9, {5, 7, 9}, {7, 9, -1}}, {3, {1, 1, 3}, {1, 3, -1}},
    };
    struct store_layout l = {0};
    const int fd = make_stacked(&l), order[] = {3, 0, 1};
    struct store_view *v = NULL;

    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const uint64_t rows[] = {cases[i].row, ROW_NONE};
        float now[2][7], next[2][6], points[2][12], joined[2][13];

        memset(now, 0xff, sizeof(now));
        store_view_hide(v);
        store_view_show(v, 0);
        store_view_gather(v, 0, rows, 2, now[0], 7);
        store_view_show_all(v);
        store_view_gather(v, 1, rows, 2, next[0], 6);
        store_view_gather(v, 2, rows, 2, points[0], 12);
        store_view_gather_joined(v, order, 3, rows, 2, joined[0], 13);
        ck_assert(now[0][6] != now[0][6]);
        ck_assert_mem_eq(joined[0] + 1, now[0], 6 * sizeof(float));
        ck_assert_mem_eq(joined[0] + 7, next[0], 6 * sizeof(float));
        for (int k = 0; k < STACK; k++)
            for (int j = 0; j < 2; j++) {
                const int after = cases[i].next[k] < 0;

                ck_assert(now[0][2 * k + j] == (float)(10 * cases[i].now[k] + j));
                ck_assert(next[0][2 * k + j] == (float)(after
                                                            ? 10 * (int)rows[0] + 5 + j
                                                            : 10 * cases[i].next[k] + j));
                for (int point = 0; point < 2; point++)
                    ck_assert(points[0][point * 2 * STACK + 2 * k + j] ==
                              (float)(10 * cases[i].now[k] + 2 * point + j));
                ck_assert(now[1][2 * k + j] == 0.0f && next[1][2 * k + j] == 0.0f);
            }
    }
    store_view_close(v);
    (void)close(fd);
    store_layout_done(&l);
}
END_TEST

START_TEST(impossible_stacks_are_refused)
{
    static const struct {
        int column;
        uint32_t stack, back, together;
    } wrong[] = {{0, 1, 2, 2}, {0, 65, 2, 2}, {0, 3, 0, 2}, {0, 3, 2, 0},
                 {2, 3, 2, 3}, {0, 0, 2, 2},  {3, 3, 2, 1}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct store_layout l = {0}, got = {0};

        (void)close(make_stacked(&l));
        store_layout_stack(&l, wrong[i].column, wrong[i].stack, wrong[i].back,
                           wrong[i].together);
        store_layout_encode(&l, header);
        ck_assert_int_eq(store_layout_decode(header, &got, &err), ERR_FORMAT);
        store_layout_done(&l);
    }
}
END_TEST

START_TEST(rows_that_are_not_there_are_told)
{
    struct store_layout l = example();
    int fd = make_log(&l, 10);
    uint64_t rows[] = {3, 9, 10, UINT64_MAX - 1};
    float x[3];
    struct store_view *v = NULL;

    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    ck_assert_int_eq(store_view_check(v, rows, 2, &err), 0);
    ck_assert_int_eq(store_view_check(v, rows, 0, &err), 0);
    ck_assert_int_eq(store_view_check(v, rows, 3, &err), ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, "row 10 "));
    /* an incomplete row does not count until its rest is written */
    ck_assert_int_eq(ftruncate(fd, STORE_HEADER_BYTES + (off_t)(11 * l.row_bytes - 1)),
                     0);
    ck_assert_int_eq(store_view_check(v, rows, 3, &err), ERR_LIMIT);
    ck_assert_int_eq(ftruncate(fd, STORE_HEADER_BYTES + (off_t)(11 * l.row_bytes)), 0);
    ck_assert_int_eq(store_view_check(v, rows, 3, &err), 0);
    store_view_gather(v, 3, rows, 3, x, 1);
    ck_assert(x[2] == 0.0f);
    ck_assert_int_eq(store_view_check(v, rows, 4, &err), ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(err.msg, "18446744073709551614"));
    store_view_close(v);
    store_view_close(NULL);
    close(fd);
    store_layout_done(&l);
}
END_TEST

START_TEST(what_is_no_log_is_refused)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    struct store_view *v = NULL;

    ck_assert_int_eq(store_view_open(&v, -1, &err), -EBADF);
    ck_assert_int_eq(store_view_open(&v, fd, &err), ERR_FORMAT);
    ck_assert_int_eq(ftruncate(fd, STORE_HEADER_BYTES), 0);
    ck_assert_int_eq(store_view_open(&v, fd, &err), ERR_FORMAT);
    ck_assert_ptr_null(v);
    close(fd);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
START_TEST(a_limit_on_address_space_is_lived_with)
{
    struct store_layout l = example();
    int fd = make_log(&l, 10);
    struct rlimit limit = {.rlim_cur = (rlim_t)2 << 30, .rlim_max = (rlim_t)2 << 30};
    const uint64_t row = 9;
    struct store_view *v = NULL;

    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_int_eq(store_view_open(&v, fd, &err), 0);
    ck_assert_int_eq(store_view_check(v, &row, 1, &err), 0);
    store_view_close(v);
    close(fd);
    store_layout_done(&l);
}
END_TEST
#endif

static Suite *make_suite(void)
{
    Suite *s = suite_create("store");
    TCase *tc = tcase_create("store");

    tcase_set_timeout(tc, 60); /* 8000 columns under sanitizers */
    tcase_add_test(tc, columns_are_aligned_and_found);
    tcase_add_test(tc, impossible_columns_are_refused);
    tcase_add_test(tc, a_header_reads_back);
    tcase_add_test(tc, a_damaged_header_is_refused);
    tcase_add_test(tc, rows_are_gathered_in_the_order_given);
    tcase_add_test(tc, where_no_row_is_zeros_are_gathered);
    tcase_add_test(tc, columns_are_joined);
    tcase_add_test(tc, bytes_are_gathered);
    tcase_add_test(tc, bytes_are_gathered_as_floats);
    tcase_add_test(tc, stacked_observations_are_put_together);
    tcase_add_test(tc, impossible_stacks_are_refused);
    tcase_add_test(tc, rows_that_are_not_there_are_told);
    tcase_add_test(tc, what_is_no_log_is_refused);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(tc, a_limit_on_address_space_is_lived_with);
#endif
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
