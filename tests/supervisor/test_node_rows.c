/* The parts of rows that travel to a node, and the file that they make there. */
#include "common/io/write_all.h"
#include "supervisor/node/node_files.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 100 };

static struct store_layout layout;
static struct node_files files;

/* wide: rows that are written in parts. */
static void make_layout(int wide)
{
    struct err err;

    layout = (struct store_layout){0};
    ck_assert_int_ge(store_layout_add(&layout, "a/obs", DT_FLOAT, 4, &err), 0);
    ck_assert_int_ge(store_layout_add(&layout, "b/obs", DT_FLOAT, 4, &err), 0);
    ck_assert_int_ge(store_layout_add(&layout, "a/allowed", DT_UINT8, 3, &err), 0);
    ck_assert_int_ge(store_layout_add(&layout, "first", DT_FLOAT, 1, &err), 0);
    ck_assert_int_ge(store_layout_add(&layout, "image", DT_UINT8, wide ? 40000 : 5, &err),
                     0);
    ck_assert_int_eq(layout.row_bytes > ROW_PARTS_WHOLE_BYTES, wide);
    ck_assert_int_eq(node_files_init(&files, &err), 0);
}

static void end_layout(void)
{
    node_files_done(&files);
    store_layout_done(&layout);
}

static struct row_parts parts_of(const char *columns)
{
    struct row_parts p;
    uint8_t is_read[5];

    for (int i = 0; i < 5; i++)
        is_read[i] = columns[i] == '1';
    row_parts_of(&p, &layout, is_read);
    return p;
}

static uint8_t byte_of(uint64_t row, uint64_t at)
{
    return (uint8_t)(1 + (row * 31 + at * 7) % 255);
}

/* Passes n rows of these columns from `first` on to the node, as a feed does. */
static int take(const char *columns, uint32_t pass, uint64_t first, uint32_t n)
{
    struct row_parts p = parts_of(columns);
    uint8_t *rows = malloc(n * layout.row_bytes), *packed;
    struct wbuf b = {0};
    struct node_message m = {.kind = NODE_COLUMNS, .worker = pass};
    struct err err;
    int rc;

    row_parts_pack(&b, &p);
    m.body = b.data;
    m.len = b.len;
    rc = node_files_columns(&files, &m, &err);
    wbuf_done(&b);
    for (uint64_t i = 0; i < n * layout.row_bytes; i++)
        rows[i] = byte_of(first + i / layout.row_bytes, i % layout.row_bytes);
    packed = malloc(n * p.packed_bytes + 1);
    row_parts_gather(&p, rows, n, packed);
    b = (struct wbuf){0};
    wbuf_u32(&b, n);
    wbuf_bytes(&b, packed, n * p.packed_bytes);
    m = (struct node_message){
        .kind = NODE_ROWS, .worker = pass, .number = first, .body = b.data, .len = b.len};
    if (rc == 0)
        rc = node_files_rows(&files, &m, &err);
    wbuf_done(&b);
    free(packed);
    free(rows);
    row_parts_done(&p);
    return rc;
}

/* The rows of the file must have these columns, and zeros elsewhere. */
static void check(const char *columns, uint64_t first, uint64_t n)
{
    struct row_parts p = parts_of(columns);
    uint8_t *row = malloc(layout.row_bytes), *want = malloc(layout.row_bytes);

    for (uint64_t r = first; r < first + n; r++) {
        const off_t at = (off_t)(STORE_HEADER_BYTES + r * layout.row_bytes);

        ck_assert_int_eq(pread(files.log_read_fd, row, layout.row_bytes, at),
                         layout.row_bytes);
        memset(want, 0, layout.row_bytes);
        for (size_t i = 0; i < p.n; i++)
            for (uint32_t k = 0; k < p.parts[i].bytes; k++)
                want[p.parts[i].offset + k] = byte_of(r, p.parts[i].offset + k);
        ck_assert_mem_eq(row, want, layout.row_bytes);
    }
    free(row);
    free(want);
    row_parts_done(&p);
}

/* Adjacent columns form one part. */
START_TEST(test_parts)
{
    struct row_parts p;

    make_layout(0);
    p = parts_of("11010");
    ck_assert_uint_eq(p.n, 2);
    ck_assert_uint_eq(p.parts[0].offset, 0);
    ck_assert_uint_eq(p.parts[0].bytes, 32);
    ck_assert_uint_eq(p.parts[1].bytes, 4);
    ck_assert_uint_eq(p.packed_bytes, 36);
    row_parts_done(&p);
    p = parts_of("00000");
    ck_assert_uint_eq(p.n + p.packed_bytes, 0);
    row_parts_done(&p);
    end_layout();
}
END_TEST

/* Columns that are needed later are added to the existing ones. */
START_TEST(test_rows_and_later_columns)
{
    make_layout(_i);
    ck_assert_int_eq(take("10001", NODE_PASS_HEAD, 7, ROWS), 0);
    check("10001", 7, ROWS);
    ck_assert_int_eq(take("10111", NODE_PASS_HEAD, 7 + ROWS, 3), 0);
    ck_assert_int_eq(take("00110", NODE_PASS_LATE, 7, ROWS), 0);
    check("10111", 7, ROWS + 3);
    end_layout();
}
END_TEST

/* More rows than are put together at a time: the memory for them stays small. */
START_TEST(test_many_rows)
{
    enum { MANY = 200000 };

    make_layout(0);
    ck_assert_int_eq(take("00010", NODE_PASS_HEAD, 3, MANY), 0);
    check("00010", 3, 10);
    check("00010", MANY - 10, 13);
    ck_assert_uint_lt(files.rows_bytes, MANY * layout.row_bytes);
    end_layout();
}
END_TEST

/* An agent that reads nothing must find the file long enough for the rows that its
 * requests name. */
START_TEST(test_rows_of_nothing)
{
    struct stat st;

    make_layout(_i);
    ck_assert_int_eq(take("00000", NODE_PASS_HEAD, 0, ROWS), 0);
    ck_assert_int_eq(fstat(files.log_read_fd, &st), 0);
    ck_assert_uint_eq((uint64_t)st.st_size, STORE_HEADER_BYTES + ROWS * layout.row_bytes);
    check("00000", 0, ROWS);
    end_layout();
}
END_TEST

static int post(enum node_message_kind kind, uint32_t pass, uint64_t number,
                const struct wbuf *b)
{
    const struct node_message m = {
        .kind = kind, .worker = pass, .number = number, .body = b->data, .len = b->len};
    struct err err;

    return kind == NODE_ROWS ? node_files_rows(&files, &m, &err)
                             : node_files_columns(&files, &m, &err);
}

static int send_parts(uint64_t row_bytes, uint32_t n, const uint32_t *numbers)
{
    struct wbuf b = {0};
    int rc;

    wbuf_u64(&b, row_bytes);
    wbuf_u32(&b, n);
    for (uint32_t i = 0; i < 4; i++)
        wbuf_u32(&b, numbers[i]);
    rc = post(NODE_COLUMNS, 0, 0, &b);
    wbuf_done(&b);
    return rc;
}

START_TEST(test_what_is_refused)
{
    static const uint32_t good[] = {0, 4, 8, 4}, over[] = {0, 4, 2, 4},
                          long_one[] = {0, 4, 8, 9}, empty[] = {0, 4, 8, 0},
                          wraps[] = {0, 4, UINT32_MAX, 8};
    struct wbuf b = {0};

    make_layout(0);
    wbuf_u32(&b, 1);
    wbuf_u64(&b, 0);
    ck_assert_int_eq(post(NODE_ROWS, 0, 0, &b), ERR_PROTOCOL); /* parts unknown */
    ck_assert_int_eq(send_parts(16, 2, over), ERR_PROTOCOL);
    ck_assert_int_eq(send_parts(16, 2, long_one), ERR_PROTOCOL);
    ck_assert_int_eq(send_parts(16, 2, empty), ERR_PROTOCOL);
    ck_assert_int_eq(send_parts(16, 2, wraps), ERR_PROTOCOL);
    ck_assert_int_eq(send_parts(16, 3, good), ERR_PROTOCOL);
    ck_assert_int_eq(send_parts(0, 2, good), ERR_PROTOCOL);
    ck_assert_int_eq(send_parts(UINT64_MAX, 2, good), ERR_PROTOCOL);
    ck_assert_int_eq(send_parts(16, 2, good), 0);
    ck_assert_int_eq(post(NODE_ROWS, 0, 0, &b), 0);
    ck_assert_int_eq(post(NODE_ROWS, 2, 0, &b), ERR_PROTOCOL);
    ck_assert_int_eq(post(NODE_ROWS, 0, UINT64_MAX, &b), ERR_PROTOCOL);
    ck_assert_int_eq(post(NODE_ROWS, 0, UINT64_MAX / 16, &b), ERR_PROTOCOL);
    wbuf_u32(&b, 0);
    ck_assert_int_eq(post(NODE_ROWS, 0, 0, &b), ERR_PROTOCOL);
    wbuf_done(&b);
    end_layout();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("node_rows");
    TCase *c = tcase_create("node_rows");

    tcase_add_test(c, test_parts);
    tcase_add_loop_test(c, test_rows_and_later_columns, 0, 2);
    tcase_add_test(c, test_many_rows);
    tcase_add_loop_test(c, test_rows_of_nothing, 0, 2);
    tcase_add_test(c, test_what_is_refused);
    suite_add_tcase(s, c);
    return s;
}

TEST_MAIN(make_suite)
