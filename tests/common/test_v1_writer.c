/* V1 checkpoints: what v1_writer.h writes, bundle.h reads. tests/integration/test_foreign.py reads
 * files made by another writer, tests/tensorflow what TensorFlow makes and reads. */
#include "common/ckpt/bundle.h"
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/v1_writer.h"
#include "common/mem/xmalloc.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct temp_dir dir;
static struct err err;

static void set_up(void)
{
    temp_dir_init(&dir);
    err = (struct err){0};
}

static void tear_down(void)
{
    temp_dir_done(&dir);
}

static struct v1_writer *writer(const char *name)
{
    return v1_writer_new(temp_dir_file(&dir, name), 0);
}

static void finish(struct v1_writer *w)
{
    ck_assert_msg(v1_writer_finish(w, &err) == 0, "%s", err.msg);
    v1_writer_free(w);
}

static void add(struct v1_writer *w, const char *name, struct tensor t)
{
    ck_assert_msg(v1_writer_add(w, name, &t, &err) == 0, "%s", err.msg);
}

static void assert_holds(const char *file, const char *name, struct tensor want)
{
    struct bundle_reader *r;
    struct tensor t;

    ck_assert_msg(bundle_reader_new(&r, temp_dir_file(&dir, file), &err) == 0, "%s",
                  err.msg);
    ck_assert_ptr_nonnull(bundle_reader_find(r, name));
    ck_assert_msg(bundle_reader_read(r, bundle_reader_find(r, name), &t, &err) == 0, "%s",
                  err.msg);
    ck_assert_msg(tensor_equal(&t, &want), "%s", name);
    tensor_free(&t);
    bundle_reader_free(r);
}

START_TEST(every_type_comes_back)
{
    static const struct {
        const char *name;
        enum dtype dtype;
        struct shape shape;
    } kinds[] = {
        {"a", DT_DOUBLE, {3, {2, 3, 4}}}, {"b", DT_HALF, {1, {7}}},
        {"c", DT_INT8, {2, {3, 5}}},      {"d", DT_COMPLEX128, {0, {0}}},
        {"e", DT_COMPLEX64, {1, {3}}},    {"f", DT_INT16, {8, {1, 1, 1, 1, 1, 1, 1, 2}}},
        {"g", DT_UINT16, {1, {4}}},       {"h", DT_UINT8, {1, {9}}},
        {"i", DT_INT32, {0, {0}}},        {"j", DT_INT64, {1, {2}}},
        {"k", DT_FLOAT, {2, {300, 500}}}, /* more than a block of the table */
        {"l", DT_FLOAT, {2, {0, 5}}},     {"m/n", DT_FLOAT, {0, {0}}},
    };
    enum { N = sizeof(kinds) / sizeof(kinds[0]) };
    struct tensor_string texts[] = {
        {(char[]){"ab\0c"}, 4}, {NULL, 0}, {(char[]){"d"}, 1}};
    uint8_t flags[] = {1, 0, 1};
    const struct tensor strings = tensor_view(DT_STRING, SHAPE(3), texts),
                        bools = tensor_view(DT_BOOL, SHAPE(3), flags);
    struct v1_writer *w = writer("m");
    struct tensor t[N];

    add(w, "strings", strings);
    for (size_t i = N; i-- > 0;) { /* in any order */
        ck_assert_int_eq(tensor_alloc(&t[i], kinds[i].dtype, kinds[i].shape, NULL), 0);
        for (size_t k = 0; k < tensor_bytes(&t[i]); k++)
            ((unsigned char *)t[i].data)[k] = (unsigned char)(k * 31 + i + 130);
        add(w, kinds[i].name, t[i]);
    }
    add(w, "bools", bools);
    finish(w);
    for (size_t i = 0; i < N; i++) {
        assert_holds("m", kinds[i].name, t[i]);
        tensor_free(&t[i]);
    }
    assert_holds("m", "strings", strings);
    assert_holds("m", "bools", bools);
}
END_TEST

/* Two parts in one file, the third in the other. */
START_TEST(shards_have_parts_of_a_tensor)
{
    static const struct bundle_slice parts[] = {
        {{0, 0}, {2, -1}}, {{2, 0}, {3, 1}}, {{2, 1}, {3, 2}}};
    const struct shape whole = SHAPE(5, 3);
    int32_t all[15], own[9];
    struct v1_writer *w = NULL;

    for (int i = 0; i < 15; i++)
        all[i] = i * i - 50;
    for (size_t p = 0; p < 3; p++) {
        struct tensor part = {.dtype = DT_INT32, .data = own};
        int n = 0;

        ck_assert_int_eq(bundle_slice_shape(&whole, &parts[p], &part.shape), 0);
        for (int64_t i = 0; i < part.shape.dim[0]; i++)
            for (int64_t k = 0; k < part.shape.dim[1]; k++)
                own[n++] = all[(parts[p].start[0] + i) * 3 + parts[p].start[1] + k];
        if (p == 0 || p == 2)
            w = writer(p == 0 ? "m-00000-of-00002" : "m-00001-of-00002");
        ck_assert_msg(v1_writer_add_slice(w, "t", &whole, &parts[p], &part, &err) == 0,
                      "%s", err.msg);
        if (p > 0)
            finish(w);
    }
    assert_holds("m-?????"
                 "-of-00002",
                 "t", tensor_view(DT_INT32, whole, all));
}
END_TEST

static void assert_found(const char *path, const char *want)
{
    char *prefix;

    ck_assert_msg(ckpt_find_prefix(&prefix, temp_dir_file(&dir, path), &err) == 0, "%s",
                  err.msg);
    ck_assert_str_eq(prefix + strlen(dir.path) + 1, want);
    free(prefix);
}

/* By the name that was saved, by one of them, and by their graph. */
START_TEST(shards_are_found)
{
    static const char pattern[] = "m-?????"
                                  "-of-00002";
    float one = 1;

    for (int i = 0; i < 2; i++) {
        struct v1_writer *w = writer(i == 0 ? "m-00000-of-00002" : "m-00001-of-00002");

        add(w, i == 0 ? "a" : "b", tensor_scalar_f32(&one));
        finish(w);
    }
    temp_dir_write(temp_dir_file(&dir, "m.meta"), "x", 1);
    assert_found("m.meta", pattern);
    assert_found("m-00001-of-00002", pattern);
    ck_assert_int_eq(unlink(temp_dir_file(&dir, "m.meta")), 0);
    assert_found("m", pattern);
    assert_found("other", "other");
    ck_assert_int_eq(ckpt_is_there(temp_dir_file(&dir, "m"), &err), 1);
    ck_assert_int_eq(ckpt_is_there(temp_dir_file(&dir, "other"), &err), 0);
}
END_TEST

START_TEST(what_cannot_be_written_is_refused)
{
    static const struct bundle_slice half = {{0}, {1}}, outside = {{1}, {2}};
    const struct shape two = SHAPE(2), three = SHAPE(3);
    struct v1_writer *w = writer("m");
    float x[2] = {1, 2};
    uint32_t u = 0;
    struct tensor t = tensor_view(DT_FLOAT, SHAPE(1), x);
    const struct tensor odd = tensor_view(DT_UINT32, SHAPE_SCALAR, &u);

    ck_assert_int_eq(v1_writer_add(w, "", &t, &err), ERR_ARG);
    ck_assert_int_eq(v1_writer_add(w, "u", &odd, &err), ERR_DTYPE);
    ck_assert_str_eq(err.msg, "u: a V1 checkpoint cannot hold a uint32");
    ck_assert_int_eq(v1_writer_add_slice(w, "p", &two, &outside, &t, &err), ERR_SHAPE);
    ck_assert_int_eq(v1_writer_add_slice(w, "p", &two, &half, &t, &err), 0);
    ck_assert_int_eq(v1_writer_add_slice(w, "p", &three, &half, &t, &err), ERR_ARG);
    add(w, "t", t);
    add(w, "t", t);
    ck_assert_int_eq(v1_writer_finish(w, &err), ERR_EXISTS);
    ck_assert_str_eq(err.msg, "two tensors of the name t");
    v1_writer_free(w);
    ck_assert_int_ne(access(temp_dir_file(&dir, "m"), F_OK), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("v1_writer");
    TCase *tc = tcase_create("v1_writer");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, every_type_comes_back);
    tcase_add_test(tc, shards_have_parts_of_a_tensor);
    tcase_add_test(tc, shards_are_found);
    tcase_add_test(tc, what_cannot_be_written_is_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
