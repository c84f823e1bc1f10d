#include "common/store/store_view.h"
#include "supervisor/store/store.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void describe(struct store *s)
{
    const struct store_extra extra = {"agent_1", "log_prob", 2};
    struct store_layout layout;
    struct err err = {0};

    ck_assert_int_eq(store_layout_make(&layout, &spec, &extra, 1, &err), 0);
    ck_assert_int_eq(store_describe(s, &layout, &err), 0);
}

static struct store *new_store(uint64_t capacity)
{
    struct store *s;
    struct err err = {0};

    ck_assert_int_eq(store_create(&s, temp_dir_file(&dir, "experience"), capacity, &err),
                     0);
    describe(s);
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
    ck_assert_str_eq(l->columns[0].name, "agent_0/obs");
    ck_assert_str_eq(l->columns[1].name, "agent_1/obs");
    ck_assert_str_eq(l->columns[2].name, "agent_0/action");
    ck_assert_int_ge(store_layout_find(l, NULL, "truncated"), 0);
    ck_assert_int_ge(store_layout_find(l, NULL, "first"), 0);
    ck_assert_int_eq(store_layout_find(l, "agent_0", "log_prob"), ERR_NOT_FOUND);
    store_free(s);
}
END_TEST

/* Only agents with one-hot actions in a masked environment have mask columns. */
START_TEST(test_mask_columns)
{
    struct env_agent masked[] = {agents[0], agents[1]};
    struct env_spec with = {.id = "toy", .n_agents = 2, .agents = masked, .masks = 1};
    struct store_layout l, plain;
    const struct store_column *c;
    struct err err = {0};

    masked[0].space = (struct action_space){.n_heads = 2, .heads = {3, 2}, .width = 5};
    ck_assert_int_eq(store_layout_make(&l, &with, NULL, 0, &err), 0);
    ck_assert_uint_eq(l.n_columns, 2 * 6 + 2 + 2);
    for (int i = 0; i < 2; i++) {
        c = &l.columns[store_layout_find(&l, "agent_0", i ? "next_allowed" : "allowed")];
        ck_assert_int_eq(c->dtype, DT_UINT8);
        ck_assert_uint_eq(c->elements, 5);
    }
    ck_assert_int_eq(store_layout_find(&l, "agent_1", "allowed"), ERR_NOT_FOUND);
    with.masks = 0;
    ck_assert_int_eq(store_layout_make(&plain, &with, NULL, 0, &err), 0);
    ck_assert_uint_eq(plain.n_columns, 2 * 6 + 2);
    ck_assert_mem_eq(plain.columns, l.columns, 12 * sizeof(*plain.columns));
    store_layout_done(&plain);
    store_layout_done(&l);
}
END_TEST

/* A log whose columns differ from those of the run is refused. */
START_TEST(test_a_log_without_masks_is_refused)
{
    struct env_agent masked[] = {agents[0], agents[1]};
    const struct env_spec with = {
        .id = "toy", .n_agents = 2, .agents = masked, .masks = 1};
    struct store *s = new_store(10), *again;
    struct store_layout l;
    uint8_t *state;
    size_t len;
    struct err err = {0};

    masked[0].space.n_heads = 1;
    store_state_save(s, &state, &len);
    store_free(s);
    ck_assert_int_eq(
        store_open(&again, temp_dir_file(&dir, "experience"), 10, state, len, &err), 0);
    ck_assert_int_eq(store_layout_make(&l, &with, NULL, 0, &err), 0);
    ck_assert_int_eq(store_describe(again, &l, &err), ERR_FORMAT);
    store_layout_done(&l);
    store_free(again);
    free(state);
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

/* Where observations are stacked, rows are kept as long as those of the window need them. */
START_TEST(test_rows_before_the_window)
{
    const struct env_spec stacked = {
        .id = "toy", .n_agents = 2, .agents = agents, .stack = 4, .copies = 5};
    struct store_layout layout, plain;
    const struct store_column *c;
    struct store *s;
    uint8_t *state;
    size_t len;
    struct err err = {0};

    ck_assert_int_eq(store_layout_make(&plain, &spec, NULL, 0, &err), 0);
    ck_assert_int_eq(store_layout_make(&layout, &stacked, NULL, 0, &err), 0);
    ck_assert_uint_eq(layout.row_bytes, plain.row_bytes); /* each is there once */
    c = &layout.columns[store_layout_find(&layout, "agent_1", "next_obs")];
    ck_assert(c->elements == 4 && c->stack == 4 && c->back == 5 && c->together == 4);
    ck_assert_int_eq(store_create(&s, temp_dir_file(&dir, "experience"), 20, &err), 0);
    ck_assert_int_eq(store_describe(s, &layout, &err), 0);
    append(s, 0, 4000);
    ck_assert_uint_eq(store_window_first(s), 3980);
    ck_assert_uint_eq(store_needed_first_at(s, 4000), 3965);
    ck_assert_uint_eq(store_needed_first_at(s, 30), 0);
    store_state_save(s, &state, &len);
    store_free(s);
    ck_assert_int_eq(
        store_open(&s, temp_dir_file(&dir, "experience"), 20, state, len, &err), 0);
    ck_assert_uint_eq(store_needed_first_at(s, 4000), 3965);
    store_free(s);
    store_layout_done(&plain);
    free(state);
}
END_TEST

/* Old rows occupy no disk space; the header and later rows are unchanged. */
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
    ck_assert_int_eq(store_forget(s, 0, 3990, &err), 0);
    ck_assert_int_eq(store_forget(s, 0, 3990, &err), 0);
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

/* ---- continuing a log ---- */

static struct store *reopen(uint64_t capacity, const uint8_t *state, size_t len, int want,
                            const char *why)
{
    struct store *s = NULL;
    struct err err = {0};
    int rc =
        store_open(&s, temp_dir_file(&dir, "experience"), capacity, state, len, &err);

    ck_assert_msg(rc == want, "%d: %s", rc, err.msg);
    if (why != NULL)
        ck_assert_msg(strstr(err.msg, why) != NULL, "%s", err.msg);
    return s;
}

static void flip_byte(off_t at)
{
    int fd = open(temp_dir_file(&dir, "experience"), O_RDWR);
    uint8_t byte;

    ck_assert_int_eq(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Neither the sizes of earlier appends nor rows past the head make a difference. */
START_TEST(test_reopen)
{
    struct store *s = new_store(1500);
    size_t row_bytes = store_layout(s)->row_bytes, len, again_len;
    uint8_t *state, *again;
    struct stat st;
    struct err err = {0};

    for (int i = 0; i < 4; i++)
        append(s, (uint64_t)i * 1000, 1000);
    store_state_save(s, &state, &len);
    ck_assert_int_eq(store_forget(s, 0, store_window_first(s), &err), 0);
    append(s, 4000, 500);
    store_free(s);

    s = reopen(1500, state, len, 0, NULL);
    ck_assert_uint_eq(store_head(s), 4000);
    ck_assert_int_eq(store_cut(s, &err), 0);
    ck_assert_int_eq(stat(temp_dir_file(&dir, "experience"), &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_size, STORE_HEADER_BYTES + 4000 * row_bytes);
    store_state_save(s, &again, &again_len);
    ck_assert_uint_eq(again_len, len);
    ck_assert_mem_eq(again, state, len);
    for (int i = 0; i < 50; i++)
        append(s, 4000 + (uint64_t)i * 10, 10);
    free(again);
    store_state_save(s, &again, &again_len);
    store_free(s);
    store_free(reopen(1500, again, again_len, 0, NULL));

    (void)reopen(4000, state, len, ERR_LIMIT, "no longer holds");
    for (size_t cut = 0; cut < len; cut++) {
        struct store *none = NULL;

        ck_assert_int_lt(
            store_open(&none, temp_dir_file(&dir, "experience"), 1500, state, cut, &err),
            0);
    }
    free(again);
    free(state);
}
END_TEST

START_TEST(test_reopen_damaged)
{
    struct store *s = new_store(1500);
    size_t row_bytes = store_layout(s)->row_bytes, len;
    uint8_t *state;

    append(s, 0, 2000);
    store_state_save(s, &state, &len);
    store_free(s);
    flip_byte((off_t)(STORE_HEADER_BYTES + 500 * row_bytes));
    (void)reopen(1500, state, len, ERR_CORRUPT, "damaged");
    flip_byte((off_t)(STORE_HEADER_BYTES + 500 * row_bytes));
    flip_byte((off_t)(STORE_HEADER_BYTES + 2000 * row_bytes - 1));
    (void)reopen(1500, state, len, ERR_CORRUPT, "damaged");
    flip_byte((off_t)(STORE_HEADER_BYTES + 2000 * row_bytes - 1));
    store_free(reopen(1500, state, len, 0, NULL));
    ck_assert_int_eq(truncate(temp_dir_file(&dir, "experience"),
                              (off_t)(STORE_HEADER_BYTES + 2000 * row_bytes - 1)),
                     0);
    (void)reopen(1500, state, len, ERR_CORRUPT, "cut short");
    ck_assert_int_eq(unlink(temp_dir_file(&dir, "experience")), 0);
    (void)reopen(1500, state, len, ERR_NOT_FOUND, "missing");
    free(state);
}
END_TEST

/* Checks of a log that is still being written: damaged rows are named, and only rows
 * under the given checksums are read. */
START_TEST(test_check)
{
    struct store *s = new_store(1500);
    const size_t row_bytes = store_layout(s)->row_bytes;
    const uint64_t block = STORE_BLOCK_BYTES / row_bytes;
    const char *path = temp_dir_file(&dir, "experience");
    size_t len, later_len;
    uint8_t *sums, *later;
    char want[64];
    struct err err = {0};

    for (uint64_t i = 0; i < 8; i++)
        append(s, i * block, block);
    append(s, 8 * block, 3);
    store_sums_save(s, 2 * block + 1, &sums, &len);
    append(s, 8 * block + 3, 5); /* into a block that has a checksum of its first rows */
    store_sums_save(s, 8 * block, &later, &later_len);
    ck_assert_int_eq(store_check(s, sums, len, &err), 0);
    ck_assert_int_eq(store_forget(s, 0, 2 * block, &err), 0);
    ck_assert_int_eq(store_check(s, sums, len, &err), 0);

    /* The last byte of block 3, the first of block 5, all of 4, and one of 7: blocks 3 to
     * 5 are one range. */
    flip_byte((off_t)(STORE_HEADER_BYTES + 4 * block * row_bytes - 1));
    flip_byte((off_t)(STORE_HEADER_BYTES + 5 * block * row_bytes - 1));
    flip_byte((off_t)(STORE_HEADER_BYTES + 5 * block * row_bytes));
    flip_byte((off_t)(STORE_HEADER_BYTES + 7 * block * row_bytes));
    ck_assert_int_eq(store_check(s, sums, len, &err), ERR_CORRUPT);
    (void)snprintf(want, sizeof(want), "experience: rows %llu to %llu are damaged",
                   (unsigned long long)(3 * block), (unsigned long long)(6 * block - 1));
    ck_assert_msg(strstr(err.msg, want) != NULL, "%s", err.msg);
    ck_assert_int_eq(store_check(s, later, later_len, &err), 0);

    flip_byte(40);
    ck_assert_int_eq(store_check(s, later, later_len, &err), ERR_CORRUPT);
    ck_assert_msg(strstr(err.msg, "header") != NULL, "%s", err.msg);
    flip_byte(40);
    ck_assert_int_eq(truncate(path, STORE_HEADER_BYTES), 0);
    ck_assert_int_eq(store_check(s, later, later_len, &err), ERR_CORRUPT);
    ck_assert_msg(strstr(err.msg, "cut short") != NULL, "%s", err.msg);
    append(s, 8 * block + 8, 1); /* the file has its old length, with a hole */
    ck_assert_int_eq(store_check(s, later, later_len, &err), ERR_CORRUPT);
    ck_assert_msg(strstr(err.msg, "damaged") != NULL, "%s", err.msg);
    free(sums);
    free(later);
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

/* A limit on the file size simulates a full disk. */
START_TEST(test_full_disk)
{
    struct rlimit before, limit;
    struct store *s = new_store(10);
    struct err err = {0};

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){STORE_HEADER_BYTES + 1000, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    memset(store_rows(s, 100), 0, 100 * store_layout(s)->row_bytes);
    ck_assert_int_lt(store_append(s, 100, &err), 0);
    /* without forks, the next test runs in this process */
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_ptr_nonnull(strstr(err.msg, dir.path));
    ck_assert_uint_eq(store_head(s), 0);
    store_free(s);
}
END_TEST

/* A copy of an earlier state of the log gets rows of its own, which are compared with the
 * log's. */
START_TEST(test_copy)
{
    const char *path = temp_dir_file(&dir, "experience");
    struct store *s = new_store(1500), *copy;
    const size_t row_bytes = store_layout(s)->row_bytes;
    uint64_t n = 0, end = 0;
    size_t len;
    uint8_t *state;
    struct err err = {0};
    int log;

    append(s, 0, 1000);
    store_state_save(s, &state, &len);
    append(s, 1000, 500);
    ck_assert_int_eq(store_open_copy(&copy, path, 1500, state, len, &err), 0);
    ck_assert_uint_eq(store_head(copy), 1000);
    append(copy, 1000, 900);
    log = open(path, O_RDONLY);
    ck_assert_int_eq(store_log_end(log, &end, &err), 0);
    ck_assert_uint_eq(end, 1500);
    ck_assert_int_eq(store_compare(copy, log, 1000, 1900, &n, &err), 0);
    ck_assert_uint_eq(n, 500);

    (void)close(log);
    log = open(path, O_RDWR);
    ck_assert_int_eq(
        pwrite(log, "x", 1, (off_t)(STORE_HEADER_BYTES + 1234 * row_bytes + 4)), 1);
    ck_assert_int_eq(store_compare(copy, log, 1000, 1900, &n, &err), ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.msg, "at row 1234: agent_0/obs[1] is 1234 here"));
    /* the copy is an unnamed file, so the log's own rows do not change it */
    append(s, 1500, 10);
    ck_assert_uint_eq(store_head(copy), 1900);
    ck_assert_int_eq(store_forget(s, 0, 900, &err), 0);
    ck_assert_int_eq(store_compare(copy, log, 0, 1100, &n, &err), 0);
    ck_assert_uint_lt(n, 1100);
    (void)close(log);
    free(state);
    store_free(copy);
    store_free(s);
}
END_TEST

/* Rows of which either log has freed the disk space, anywhere in it, are not compared. */
START_TEST(test_holes_are_not_compared)
{
    struct store *s = new_store(4000), *copy;
    const size_t row_bytes = store_layout(s)->row_bytes;
    struct store_difference d;
    uint64_t n = 0;
    size_t len;
    uint8_t *state;
    struct err err = {0};

    append(s, 0, 4000);
    store_state_save(s, &state, &len);
    ck_assert_int_eq(
        store_open_copy(&copy, temp_dir_file(&dir, "experience"), 4000, state, len, &err),
        0);
    ck_assert_int_eq(store_forget(s, 1000, 2500, &err), 0);
    ck_assert_int_eq(store_forget(copy, 2500, 3500, &err), 0);
    flip_byte((off_t)(STORE_HEADER_BYTES + 3900 * row_bytes));
    ck_assert_int_eq(store_compare(copy, store_agent_fd(s), 0, 3900, &n, &err), 0);
    ck_assert_uint_gt(n, 1000);
    ck_assert_uint_lt(n, 3900);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(store_find_difference(&d, store_agent_fd(i == 0 ? s : copy),
                                               store_agent_fd(i == 0 ? copy : s), 0, 4000,
                                               &err),
                         1);
        ck_assert_uint_eq(d.row, 3900);
    }
    free(state);
    store_free(copy);
    store_free(s);
}
END_TEST

/* At a run's beginning there are no rows to copy. */
START_TEST(test_copy_without_a_log)
{
    const char *path = temp_dir_file(&dir, "experience");
    struct store *s = new_store(1500), *copy;
    size_t len;
    uint8_t *state;
    struct err err = {0};

    store_state_save(s, &state, &len);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(store_open_copy(&copy, path, 1500, state, len, &err), 0);
    ck_assert_uint_eq(store_head(copy), 0);
    describe(copy);
    append(copy, 0, 900);
    ck_assert_uint_eq(store_head(copy), 900);
    free(state);
    store_free(copy);
    append(s, 0, 1);
    store_state_save(s, &state, &len);
    ck_assert_int_eq(store_open_copy(&copy, path, 1500, state, len, &err), -ENOENT);
    free(state);
    store_free(s);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("store");
    TCase *tc = tcase_create("store");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_columns);
    tcase_add_test(tc, test_mask_columns);
    tcase_add_test(tc, test_a_log_without_masks_is_refused);
    tcase_add_test(tc, test_agents_see_rows);
    tcase_add_test(tc, test_window);
    tcase_add_test(tc, test_draws);
    tcase_add_test(tc, test_rows_before_the_window);
    tcase_add_test(tc, test_forget);
    tcase_add_test(tc, test_reopen);
    tcase_add_test(tc, test_reopen_damaged);
    tcase_add_test(tc, test_check);
    tcase_add_test(tc, test_not_twice);
    tcase_add_test(tc, test_full_disk);
    tcase_add_test(tc, test_copy);
    tcase_add_test(tc, test_holes_are_not_compared);
    tcase_add_test(tc, test_copy_without_a_log);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
