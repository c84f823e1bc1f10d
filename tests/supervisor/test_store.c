#include "common/store/store_view.h"
#include "supervisor/store/store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct temp_dir dir;

static void setup(void)
{
    temp_dir_init(&dir);
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

static struct env_agent agents[] = {
    {.name = "agent_0", .team = "agent", .obs_width = 3, .space = {.width = 2}},
    {.name = "agent_1", .team = "agent", .obs_width = 4, .space = {.width = 1}},
};
static const struct env_spec spec = {.id = "toy", .n_agents = 2, .agents = agents};

static struct store *new_store(uint64_t capacity)
{
    const struct store_extra extra = {"agent_1", "log_prob", 2};
    struct store_layout layout;
    struct store *s;
    struct err err = {0};

    ck_assert_int_eq(store_create(&s, temp_dir_file(&dir, "experience"), capacity, &err),
                     0);
    ck_assert_int_eq(store_layout_make(&layout, &spec, &extra, 1, &err), 0);
    ck_assert_int_eq(store_describe(s, &layout, &err), 0);
    return s;
}

/* Every float of row r is r. */
static void append(struct store *s, uint64_t first, size_t n)
{
    size_t floats = store_layout(s)->row_bytes / sizeof(float);
    uint8_t *rows = store_rows(s, n);
    struct err err = {0};

    for (size_t i = 0; i < n * floats; i++) {
        float v = (float)(first + i / floats);
        memcpy(rows + i * sizeof(v), &v, sizeof(v));
    }
    ck_assert_int_eq(store_append(s, n, &err), 0);
}

START_TEST(test_columns)
{
    struct store *s = new_store(10);
    const struct store_layout *l = store_layout(s);

    ck_assert_uint_eq(l->n_columns, 2 * 6 + 2 + 1);
    ck_assert_uint_eq(l->columns[store_layout_find(l, "agent_1", "next_obs")].elements,
                      4);
    ck_assert_uint_eq(l->columns[store_layout_find(l, "agent_1", "log_prob")].elements,
                      2);
    ck_assert_int_ge(store_layout_find(l, NULL, "truncated"), 0);
    ck_assert_int_ge(store_layout_find(l, NULL, "first"), 0);
    ck_assert_int_eq(store_layout_find(l, "agent_0", "log_prob"), ERR_NOT_FOUND);
    store_free(s);
}
END_TEST

START_TEST(test_agents_see_rows)
{
    struct store *s = new_store(10);
    struct store_view *view;
    uint64_t rows[3] = {4, 0, 2};
    float got[3];
    struct err err = {0};

    append(s, 0, 2);
    ck_assert_int_eq(store_view_open(&view, store_agent_fd(s), &err), 0);
    append(s, 2, 3);
    ck_assert_int_eq(store_view_check(view, rows, 3, &err), 0);
    store_view_gather(view, store_layout_find(store_layout(s), "agent_0", "reward"), rows,
                      3, got, 1);
    for (int i = 0; i < 3; i++)
        ck_assert(got[i] == (float)rows[i]);
    store_view_close(view);
    store_free(s);
}
END_TEST

START_TEST(test_window)
{
    struct store *s = new_store(10);

    ck_assert_uint_eq(store_window_rows(s), 0);
    append(s, 0, 4);
    append(s, 4, 4);
    ck_assert_uint_eq(store_window_first(s), 0);
    ck_assert_uint_eq(store_window_rows(s), 8);
    append(s, 8, 4);
    ck_assert_uint_eq(store_head(s), 12);
    ck_assert_uint_eq(store_window_first(s), 2);
    ck_assert_uint_eq(store_window_rows(s), 10);
    store_free(s);
}
END_TEST

START_TEST(test_draws)
{
    struct rng_key key = rng_key_make(7, "experience", "rows");
    struct store *s = new_store(10);
    uint64_t a[4000], b[4000];
    int seen[16] = {0};

    append(s, 0, 16);
    store_draw(s, key, 3, a, 4000);
    store_draw(s, key, 3, b, 4000);
    ck_assert_mem_eq(a, b, sizeof(a));
    store_draw(s, key, 4, b, 4000);
    ck_assert_mem_ne(a, b, sizeof(a));
    for (int i = 0; i < 4000; i++)
        seen[a[i]]++;
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(seen[i], 0);
    for (int i = 6; i < 16; i++) /* 400 expected, deviation 19 */
        ck_assert(seen[i] > 300 && seen[i] < 500);
    store_free(s);
}
END_TEST

/* Rows long past keep no disk; the header and later rows stay as they are. */
START_TEST(test_forget)
{
    struct store *s = new_store(10);
    uint64_t row = 3999;
    struct store_view *view;
    struct stat before, after;
    struct err err = {0};
    float got;

    for (int i = 0; i < 4; i++)
        append(s, (uint64_t)i * 1000, 1000);
    ck_assert_int_eq(store_sync(s, &err), 0);
    ck_assert_int_eq(stat(temp_dir_file(&dir, "experience"), &before), 0);
    ck_assert_int_eq(store_forget(s, 3990, &err), 0);
    ck_assert_int_eq(store_forget(s, 3990, &err), 0);
    ck_assert_int_eq(stat(temp_dir_file(&dir, "experience"), &after), 0);
    ck_assert_int_eq(after.st_size, before.st_size);
    ck_assert_int_lt(after.st_blocks, before.st_blocks);

    ck_assert_int_eq(store_view_open(&view, store_agent_fd(s), &err), 0);
    for (row = 3990; row < 4000; row++) {
        store_view_gather(view, 0, &row, 1, &(float[3]){0}[0], 3);
        store_view_gather(view, store_layout_find(store_layout(s), NULL, "first"), &row,
                          1, &got, 1);
        ck_assert(got == (float)row);
    }
    store_view_close(view);
    store_free(s);
}
END_TEST

START_TEST(test_not_twice)
{
    struct store *s = new_store(10), *other;
    struct err err = {0};

    ck_assert_int_eq(store_create(&other, temp_dir_file(&dir, "experience"), 10, &err),
                     ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, dir.path));
    store_free(s);
}
END_TEST

/* A file that may not grow any more stands in for a full disk. */
START_TEST(test_full_disk)
{
    struct rlimit limit = {STORE_HEADER_BYTES + 1000, STORE_HEADER_BYTES + 1000};
    struct store *s = new_store(10);
    struct err err = {0};

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    memset(store_rows(s, 100), 0, 100 * store_layout(s)->row_bytes);
    ck_assert_int_lt(store_append(s, 100, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, dir.path));
    ck_assert_uint_eq(store_head(s), 0);
    store_free(s);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("store");
    TCase *tc = tcase_create("store");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_columns);
    tcase_add_test(tc, test_agents_see_rows);
    tcase_add_test(tc, test_window);
    tcase_add_test(tc, test_draws);
    tcase_add_test(tc, test_forget);
    tcase_add_test(tc, test_not_twice);
    tcase_add_test(tc, test_full_disk);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
