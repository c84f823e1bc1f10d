#include "common/ckpt/bundle.h"
#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/table.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "tests/support/checkpoints.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static char dir[64];

static void set_up(void)
{
    (void)strcpy(dir, "/tmp/brood-bundle-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    char *command = xasprintf("rm -r '%s'", dir);

    ck_assert_int_eq(system(command), 0);
    free(command);
}

static char *in_dir(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static void assert_file(const char *name, const void *want, size_t n)
{
    char *path = in_dir(name);
    size_t len;
    unsigned char *got = test_read_file(path, &len);

    ck_assert_uint_eq(len, n);
    ck_assert_mem_eq(got, want, n);
    free(got);
    free(path);
}

static struct bundle_writer *writer(const char *name)
{
    char *prefix = in_dir(name);
    struct bundle_writer *w;
    struct err err;

    ck_assert_msg(bundle_writer_new(&w, prefix, 0, &err) == 0, "%s", err.msg);
    free(prefix);
    return w;
}

static void finish(struct bundle_writer *w)
{
    struct err err;

    ck_assert_msg(bundle_writer_finish(w, &err) == 0, "%s", err.msg);
    bundle_writer_free(w);
}

static struct bundle_reader *reader(const char *name)
{
    char *prefix = in_dir(name);
    struct bundle_reader *r;
    struct err err;

    ck_assert_msg(bundle_reader_new(&r, prefix, &err) == 0, "%s", err.msg);
    free(prefix);
    return r;
}

static void add(struct bundle_writer *w, const char *name, struct tensor t)
{
    struct err err;

    ck_assert_msg(bundle_writer_add(w, name, &t, &err) == 0, "%s", err.msg);
}

static void assert_holds(struct bundle_reader *r, const char *name, struct tensor want)
{
    const struct bundle_entry *e = bundle_reader_find(r, name);
    struct tensor got;
    struct err err;

    ck_assert_msg(e != NULL, "%s", name);
    ck_assert_msg(bundle_reader_read(r, e, &got, &err) == 0, "%s", err.msg);
    ck_assert_msg(tensor_equal(&got, &want), "%s", name);
    tensor_free(&got);
}

/* Opens and reads everything; 0 or the first error. */
static int read_all(const char *prefix, struct err *err)
{
    struct bundle_reader *r;
    int rc = bundle_reader_new(&r, prefix, err);

    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < bundle_reader_count(r); i++) {
        struct tensor t = TENSOR_NONE;

        rc = bundle_reader_read(r, bundle_reader_entry(r, i), &t, err);
        tensor_free(&t);
    }
    bundle_reader_free(r);
    return rc;
}

static void write_tiny(const char *name)
{
    static const float V[] = {1.0f, -2.5f};
    struct bundle_writer *w = writer(name);

    add(w, "v", tensor_const_view(DT_FLOAT, SHAPE(2), V));
    finish(w);
}

static const char TINY_INDEX[] =
    "\x00\x00\x06\x08\x01\x1a\x02\x08\x01\x00\x01\x0f\x76\x08\x01\x12"
    "\x04\x12\x02\x08\x02\x28\x08\x35\x52\x96\x1a\xc6\x00\x00\x00\x00"
    "\x01\x00\x00\x00\x00\xfd\x7b\x63\x97\x00\x00\x00\x00\x01\x00\x00"
    "\x00\x00\xc0\xf2\xa1\xb0\x00\x01\x02\x77\x00\x24\x00\x00\x00\x00"
    "\x01\x00\x00\x00\x00\x94\x60\xb2\xcd\x29\x08\x36\x0e\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x57\xfb\x80\x8b\x24\x75\x47\xdb";

START_TEST(one_variable_is_written_as_tensorflow_would)
{
    write_tiny("tiny");
    assert_file("tiny.index", TINY_INDEX, sizeof(TINY_INDEX) - 1);
    assert_file("tiny.data-00000-of-00001", "\x00\x00\x80\x3f\x00\x00\x20\xc0", 8);
}
END_TEST

static const float W_PARTS[] = {1, 2, 3, 4};
static const uint8_t FLAG = 1;
static const int64_t STEP = 7;
static struct tensor_string NAMES[] = {{(char[]){"hi"}, 2}, {(char[]){"abc"}, 3}};

static void write_multi(const char *name)
{
    struct bundle_writer *w = writer(name);

    add(w, "flag", tensor_const_view(DT_BOOL, SHAPE_SCALAR, &FLAG));
    add(w, "global_step", tensor_scalar_i64(&STEP));
    add(w, "names", tensor_view(DT_STRING, SHAPE(2), NAMES));
    for (int i = 0; i < 2; i++) {
        struct bundle_slice slice = {.start = {2 * i}, .length = {2}};
        struct tensor part = tensor_const_view(DT_FLOAT, SHAPE(2), W_PARTS + 2 * i);

        ck_assert_int_eq(bundle_writer_add_slice(w, "w", &SHAPE(4), &slice, &part, NULL),
                         0);
    }
    finish(w);
}

START_TEST(scalars_strings_and_slices_are_written_as_tensorflow_would)
{
    static const char INDEX[] =
        "\x00\x00\x06\x08\x01\x1a\x02\x08\x01\x00\x08\x11\x00\x77\x00\x01"
        "\x01\x01\x80\x82\x08\x01\x12\x04\x12\x02\x08\x02\x20\x14\x28\x08"
        "\x35\x59\x3c\xe5\x35\x06\x02\x11\x82\x82\x08\x01\x12\x04\x12\x02"
        "\x08\x02\x20\x1c\x28\x08\x35\x62\x0a\x97\x6b\x00\x04\x0b\x66\x6c"
        "\x61\x67\x08\x0a\x12\x00\x28\x01\x35\x05\x2b\x28\x43\x00\x0b\x0d"
        "\x67\x6c\x6f\x62\x61\x6c\x5f\x73\x74\x65\x70\x08\x09\x12\x00\x20"
        "\x01\x28\x08\x35\xbb\xd7\x9f\x11\x00\x05\x11\x6e\x61\x6d\x65\x73"
        "\x08\x07\x12\x04\x12\x02\x08\x02\x20\x09\x28\x0b\x35\x25\x61\xfd"
        "\xd7\x00\x01\x16\x77\x08\x01\x12\x04\x12\x02\x08\x04\x3a\x04\x0a"
        "\x02\x10\x02\x3a\x06\x0a\x04\x08\x02\x10\x02\x00\x00\x00\x00\x01"
        "\x00\x00\x00\x00\x27\xbc\x77\x85\x00\x00\x00\x00\x01\x00\x00\x00"
        "\x00\xc0\xf2\xa1\xb0\x00\x01\x03\x78\x00\xa3\x01\x00\x00\x00\x00"
        "\x01\x00\x00\x00\x00\x2c\x6c\x67\x96\xa8\x01\x08\xb5\x01\x0f\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x00\x57\xfb\x80\x8b\x24\x75\x47\xdb";
    static const char DATA[] =
        "\x01\x07\x00\x00\x00\x00\x00\x00\x00\x02\x03\xbd\xe3\x7d\x26\x68\x69\x61\x62\x63"
        "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40\x00\x00\x80\x40";

    write_multi("multi");
    assert_file("multi.index", INDEX, sizeof(INDEX) - 1);
    assert_file("multi.data-00000-of-00001", DATA, sizeof(DATA) - 1);
}
END_TEST

START_TEST(what_is_written_is_read)
{
    struct bundle_reader *r;
    float w[4];
    struct tensor dst = tensor_view(DT_FLOAT, SHAPE(4), w);
    struct tensor wrong = tensor_view(DT_FLOAT, SHAPE(5), w);
    struct err err;

    write_multi("multi");
    r = reader("multi");
    ck_assert_uint_eq(bundle_reader_count(r), 4);
    ck_assert_str_eq(bundle_reader_entry(r, 0)->name, "flag");
    ck_assert_str_eq(bundle_reader_entry(r, 3)->name, "w");
    ck_assert_uint_eq(bundle_reader_entry(r, 3)->n_slices, 2);
    ck_assert_ptr_null(bundle_reader_find(r, "x"));
    assert_holds(r, "flag", tensor_const_view(DT_BOOL, SHAPE_SCALAR, &FLAG));
    assert_holds(r, "global_step", tensor_scalar_i64(&STEP));
    assert_holds(r, "names", tensor_view(DT_STRING, SHAPE(2), NAMES));
    assert_holds(r, "w", tensor_const_view(DT_FLOAT, SHAPE(4), W_PARTS));
    ck_assert_int_eq(bundle_reader_read_into(r, bundle_reader_find(r, "w"), &dst, &err),
                     0);
    ck_assert_mem_eq(w, W_PARTS, sizeof(w));
    ck_assert_int_eq(bundle_reader_read_into(r, bundle_reader_find(r, "w"), &wrong, &err),
                     ERR_SHAPE);
    ck_assert_int_eq(
        bundle_reader_read_into(r, bundle_reader_find(r, "flag"), &dst, &err), ERR_DTYPE);
    bundle_reader_free(r);
}
END_TEST

START_TEST(a_prefix_may_end_in_a_slash)
{
    struct bundle_reader *r;
    char *sub = in_dir("5");

    ck_assert_int_eq(mkdir(sub, 0755), 0);
    write_tiny("5/");
    assert_file("5/.index", TINY_INDEX, sizeof(TINY_INDEX) - 1);
    r = reader("5/");
    ck_assert_uint_eq(bundle_reader_count(r), 1);
    bundle_reader_free(r);
    free(sub);
}
END_TEST

START_TEST(names_are_sorted_and_unique)
{
    static const float X = 1;
    struct bundle_writer *w = writer("m");
    struct bundle_reader *r;
    char *data = in_dir("twice.data-00000-of-00001");
    struct err err;

    add(w, "b", tensor_scalar_f32(&X));
    add(w, "a", tensor_scalar_f32(&X));
    finish(w);
    r = reader("m");
    ck_assert_str_eq(bundle_reader_entry(r, 0)->name, "a");
    ck_assert_uint_eq(bundle_reader_entry(r, 0)->offset, 4);
    bundle_reader_free(r);

    w = writer("twice");
    add(w, "b", tensor_scalar_f32(&X));
    add(w, "a", tensor_scalar_f32(&X));
    add(w, "b", tensor_scalar_f32(&X));
    ck_assert_int_eq(bundle_writer_finish(w, &err), ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(err.msg, "the name b"));
    bundle_writer_free(w);
    ck_assert_int_eq(access(data, F_OK), -1);
    free(data);
}
END_TEST

START_TEST(every_kind_and_shape_comes_back)
{
    static const struct {
        const char *name;
        enum dtype dtype;
        struct shape shape;
    } KINDS[] = {
        {"a", DT_DOUBLE, {3, {2, 3, 4}}},
        {"b", DT_HALF, {1, {7}}},
        {"c", DT_INT8, {2, {0, 5}}},
        {"d", DT_COMPLEX128, {0, {0}}},
        {"e", DT_UINT64, {8, {1, 1, 1, 1, 1, 1, 1, 2}}},
        {"f", DT_STRING, {1, {0}}},
        {"g", DT_FLOAT, {2, {300, 500}}},
    };
    enum { N_KINDS = sizeof(KINDS) / sizeof(KINDS[0]) };
    struct tensor t[N_KINDS];
    struct bundle_writer *w = writer("m");
    struct bundle_reader *r;

    for (size_t i = 0; i < N_KINDS; i++) {
        ck_assert_int_eq(tensor_alloc(&t[i], KINDS[i].dtype, KINDS[i].shape, NULL), 0);
        for (size_t k = 0; k < tensor_bytes(&t[i]); k++)
            ((unsigned char *)t[i].data)[k] = (unsigned char)(k * 31 + i);
        add(w, KINDS[i].name, t[i]);
    }
    finish(w);
    r = reader("m");
    for (size_t i = 0; i < N_KINDS; i++) {
        assert_holds(r, KINDS[i].name, t[i]);
        tensor_free(&t[i]);
    }
    bundle_reader_free(r);
}
END_TEST

/* Four quarters and a stripe of a 5 x 6 x 2 tensor. */
START_TEST(slices_of_many_dimensions_are_put_together)
{
    static const struct bundle_slice SLICES[] = {
        {{0, 0, 0}, {2, 3, -1}}, {{0, 3, 0}, {2, 3, -1}},  {{2, 0, 0}, {2, 3, -1}},
        {{2, 3, 0}, {2, 3, 2}},  {{4, 0, 0}, {1, -1, -1}},
    };
    const struct shape whole = SHAPE(5, 6, 2);
    int32_t want[60], part[12];
    struct bundle_writer *w = writer("m");
    struct bundle_reader *r;

    for (int i = 0; i < 60; i++)
        want[i] = i * i;
    for (size_t s = 0; s < sizeof(SLICES) / sizeof(SLICES[0]); s++) {
        struct shape shape;
        struct tensor t;
        size_t n = 0;

        ck_assert_int_eq(bundle_slice_shape(&whole, &SLICES[s], &shape), 0);
        for (int64_t a = 0; a < shape.dim[0]; a++)
            for (int64_t b = 0; b < shape.dim[1]; b++)
                for (int64_t c = 0; c < shape.dim[2]; c++)
                    part[n++] =
                        want[((SLICES[s].start[0] + a) * 6 + SLICES[s].start[1] + b) * 2 +
                             SLICES[s].start[2] + c];
        t = tensor_view(DT_INT32, shape, part);
        ck_assert_int_eq(bundle_writer_add_slice(w, "p", &whole, &SLICES[s], &t, NULL),
                         0);
    }
    finish(w);
    r = reader("m");
    assert_holds(r, "p", tensor_view(DT_INT32, whole, want));
    bundle_reader_free(r);
}
END_TEST

START_TEST(slices_that_do_not_make_a_whole_are_refused)
{
    static const struct {
        struct bundle_slice a, b;
        const char *says;
    } CASES[] = {
        {{{0}, {2}}, {{3}, {1}}, "do not cover"},
        {{{0}, {2}}, {{1}, {2}}, "overlap"},
        {{{0}, {3}}, {{1}, {3}}, "overlap"},
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct bundle_writer *w = writer("m");
        struct tensor a =
            tensor_const_view(DT_FLOAT, SHAPE(CASES[i].a.length[0]), W_PARTS);
        struct tensor b =
            tensor_const_view(DT_FLOAT, SHAPE(CASES[i].b.length[0]), W_PARTS);
        char *prefix = in_dir("m");
        struct err err;

        ck_assert_int_eq(
            bundle_writer_add_slice(w, "p", &SHAPE(4), &CASES[i].a, &a, NULL), 0);
        ck_assert_int_eq(
            bundle_writer_add_slice(w, "p", &SHAPE(4), &CASES[i].b, &b, NULL), 0);
        ck_assert_int_eq(
            bundle_writer_add_slice(w, "p", &SHAPE(1), &CASES[i].b, &b, NULL), ERR_SHAPE);
        finish(w);
        ck_assert_int_eq(read_all(prefix, &err), ERR_FORMAT);
        ck_assert_ptr_nonnull(strstr(err.msg, CASES[i].says));
        free(prefix);
    }
}
END_TEST

/* The examples of OrderedCode's own tests, and numbers of the greatest length. */
START_TEST(slice_keys_are_ordered_codes)
{
    static const struct bundle_slice SLICE = {{0x424242, INT64_MAX, 64, 0},
                                              {-1, 63, 8192, 0}};
    static const char KEY[] = "\0a\xff\0b\0\1\1\4"
                              "\xf0\x42\x42\x42\x7f"
                              "\xff\xc0\x7f\xff\xff\xff\xff\xff\xff\xff\xbf"
                              "\xc0\x40\xe0\x20\x00\x80\x80";
    struct wbuf b = {0};

    bundle_put_slice_key(&b,
                         "a\xff"
                         "b",
                         4, &SLICE);
    ck_assert_uint_eq(b.len, sizeof(KEY) - 1);
    ck_assert_mem_eq(b.data, KEY, b.len);
    wbuf_done(&b);
}
END_TEST

/* ---- what TensorFlow wrote ---- */

START_TEST(real_checkpoints_are_read_and_written_byte_for_byte)
{
    struct test_paths paths = test_real_indexes();
    char *copy = in_dir("copy");

    for (size_t i = 0; i < paths.n; i++) {
        char *prefix = xstrndup(paths.path[i], strlen(paths.path[i]) - 6);
        char *data_path = xasprintf("%s.data-00000-of-00001", prefix);
        struct bundle_writer *w;
        struct bundle_reader *r;
        struct err err;
        size_t len;
        unsigned char *want;

        ck_assert_msg(bundle_reader_new(&r, prefix, &err) == 0, "%s", err.msg);
        ck_assert_int_eq(bundle_writer_new(&w, copy, 0, &err), 0);
        for (size_t k = 0; k < bundle_reader_count(r); k++) {
            const struct bundle_entry *e = bundle_reader_entry(r, k);
            struct tensor t;

            ck_assert_msg(bundle_reader_read(r, e, &t, &err) == 0, "%s", err.msg);
            add(w, e->name, t);
            tensor_free(&t);
        }
        bundle_reader_free(r);
        finish(w);
        want = test_read_file(paths.path[i], &len);
        assert_file("copy.index", want, len);
        free(want);
        want = test_read_file(data_path, &len);
        assert_file("copy.data-00000-of-00001", want, len);
        free(want);
        free(data_path);
        free(prefix);
    }
    free(copy);
    test_paths_free(&paths);
}
END_TEST

/* ---- damage ---- */

START_TEST(any_changed_byte_is_reported)
{
    static const char *const SUFFIXES[] = {"index", "data-00000-of-00001"};
    char *prefix = in_dir("m");

    write_multi("m");
    for (size_t s = 0; s < 2; s++) {
        char *path = xasprintf("%s.%s", prefix, SUFFIXES[s]);
        size_t len;
        unsigned char *data = test_read_file(path, &len);

        for (size_t at = 0; at < len; at++) {
            for (unsigned bit = 0; bit < 9; bit++) {
                unsigned char x = bit < 8 ? (unsigned char)(1u << bit) : 0xff;
                struct err err = {0};

                data[at] ^= x;
                temp_dir_write(path, data, len);
                ck_assert_msg(read_all(prefix, &err) < 0, "%s byte %zu", SUFFIXES[s], at);
                ck_assert_ptr_nonnull(strstr(err.msg, prefix));
                data[at] ^= x;
            }
        }
        for (size_t cut = 0; cut < len; cut++) {
            temp_dir_write(path, data, cut);
            ck_assert_int_lt(read_all(prefix, NULL), 0);
        }
        temp_dir_write(path, data, len);
        free(data);
        free(path);
    }
    ck_assert_int_eq(read_all(prefix, NULL), 0);
    free(prefix);
}
END_TEST

/* An index with right checksums and these values under "" and "v". */
static void forge(const char *name, const char *header, size_t header_len,
                  const char *entry, size_t entry_len)
{
    struct table_writer *w = table_writer_new();
    char *base = in_dir(name);
    char *path = xasprintf("%s.index", base);
    const void *bytes;
    size_t len;

    ck_assert_int_eq(table_writer_add(w, "", 0, header, header_len, NULL), 0);
    ck_assert_int_eq(table_writer_add(w, "v", 1, entry, entry_len, NULL), 0);
    bytes = table_writer_finish(w, &len);
    temp_dir_write(path, bytes, len);
    table_writer_free(w);
    free(path);
    free(base);
}

#define BYTES(s) (s), sizeof(s) - 1
#define HEADER   BYTES("\x08\x01\x1a\x02\x08\x01")
#define ENTRY    BYTES("\x08\x01\x12\x04\x12\x02\x08\x02\x28\x08\x35\x52\x96\x1a\xc6")

static const struct {
    const char *header;
    size_t header_len;
    const char *entry;
    size_t entry_len;
    int code;
    const char *says;
} FORGED[] = {
    {HEADER, ENTRY, 0, NULL},
    {BYTES("\x08\x01"), ENTRY, 0, NULL}, /* without a version: version 0 */
    {BYTES("\x08\x01\x10\x01"), ENTRY, ERR_UNSUPPORTED, "big-endian"},
    {BYTES("\x08\x01\x1a\x02\x10\x02"), ENTRY, ERR_UNSUPPORTED, "newer"},
    {BYTES("\x08\x01\x1a\x02\x18\x01"), ENTRY, ERR_UNSUPPORTED, "newer"},
    {BYTES("\x08\x01\x1a\x03\x1a\x01\x01"), ENTRY, ERR_UNSUPPORTED, "newer"},
    {BYTES("\x08\x00"), ENTRY, ERR_FORMAT, "header"},
    {BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), ENTRY, ERR_FORMAT, "header"},
    {BYTES(""), ENTRY, ERR_FORMAT, "header"},
    {BYTES("\x08"), ENTRY, ERR_FORMAT, "header"},
    {HEADER, BYTES(""), ERR_UNSUPPORTED, "v: data type number 0"},
    {HEADER, BYTES("\x08\x15\x12\x00"), ERR_UNSUPPORTED, "v: a stored variant"},
    {HEADER, BYTES("\x08\x14\x12\x00"), ERR_UNSUPPORTED, "stored resource"},
    {HEADER, BYTES("\x08\x01\x12\x00\x28\x05"), ERR_FORMAT, "size and shape"},
    {HEADER, BYTES("\x08\x01\x12\x00\x28\x04\x18\x01"), ERR_FORMAT, "shard 1 of 1"},
    {HEADER, BYTES("\x08\x01\x12\x00\x28\x04\x20\x05"), ERR_FORMAT, "outside the data"},
    {HEADER, BYTES("\x08\x01\x12\x00\x28\x04\x20\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
     ERR_FORMAT, "outside the data"},
    {HEADER, BYTES("\x08\x01\x12\x02\x18\x01\x28\x04"), ERR_FORMAT, "shape"},
    {HEADER,
     BYTES("\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
     ERR_FORMAT, "dimension"},
    /* 2^62 by 4, and 2^62 floats */
    {HEADER,
     BYTES("\x08\x01\x12\x10\x12\x0a\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40"
           "\x12\x02\x08\x04"),
     ERR_FORMAT, "too many elements"},
    {HEADER, BYTES("\x08\x01\x12\x0c\x12\x0a\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40"),
     ERR_FORMAT, "size and shape"},
    {HEADER,
     BYTES("\x08\x01\x12\x12\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00\x12\x00"
           "\x12\x00\x12\x00"),
     ERR_UNSUPPORTED, "more than 8 dimensions"},
    /* 2^62 strings in eight bytes; slices: outside, too few dimensions, absent */
    {HEADER,
     BYTES("\x08\x07\x12\x0c\x12\x0a\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40\x28\x08"),
     ERR_FORMAT, "lengths of strings"},
    {HEADER, BYTES("\x08\x01\x12\x04\x12\x02\x08\x04\x3a\x06\x0a\x04\x08\x03\x10\x02"),
     ERR_FORMAT, "slice"},
    {HEADER, BYTES("\x08\x01\x12\x04\x12\x02\x08\x04\x3a\x00"), ERR_FORMAT, "slice"},
    {HEADER, BYTES("\x08\x01\x12\x04\x12\x02\x08\x04\x3a\x04\x0a\x02\x10\x04"),
     ERR_FORMAT, "slice 0 is missing"},
};

START_TEST(forged_indexes_are_refused_and_ask_for_no_memory)
{
    char *prefix = in_dir("m");
    struct err err = {0};
    int rc;

    write_tiny("m");
    forge("m", FORGED[_i].header, FORGED[_i].header_len, FORGED[_i].entry,
          FORGED[_i].entry_len);
    rc = read_all(prefix, &err);
    ck_assert_msg(rc == FORGED[_i].code, "%d: %s", rc, err.msg);
    if (FORGED[_i].says != NULL)
        ck_assert_msg(strstr(err.msg, FORGED[_i].says) != NULL, "%s", err.msg);
    free(prefix);
}
END_TEST

START_TEST(tensors_may_lie_in_any_shard)
{
    static const char *const KEYS[] = {"a", "b"};
    struct table_writer *table = table_writer_new();
    struct wbuf value = {0};
    const void *bytes;
    size_t len;
    char *prefix = in_dir("m");
    char *path = in_dir("m.index");
    struct bundle_reader *r;

    bundle_put_header(&value, 2);
    ck_assert_int_eq(table_writer_add(table, "", 0, value.data, value.len, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        char *shard = xasprintf("%s.data-%05u-of-00002", prefix, i);
        struct bundle_entry e = {.dtype = DT_FLOAT,
                                 .shape = SHAPE(2),
                                 .shard = i,
                                 .size_bytes = 8,
                                 .masked_crc = crc32c_mask(crc32c(W_PARTS + 2 * i, 8))};

        wbuf_clear(&value);
        bundle_put_entry(&value, &e);
        ck_assert_int_eq(table_writer_add(table, KEYS[i], 1, value.data, value.len, NULL),
                         0);
        temp_dir_write(shard, W_PARTS + 2 * i, 8);
        free(shard);
    }
    bytes = table_writer_finish(table, &len);
    temp_dir_write(path, bytes, len);
    r = reader("m");
    assert_holds(r, "b", tensor_const_view(DT_FLOAT, SHAPE(2), W_PARTS + 2));
    assert_holds(r, "a", tensor_const_view(DT_FLOAT, SHAPE(2), W_PARTS));
    bundle_reader_free(r);
    table_writer_free(table);
    wbuf_done(&value);
    free(path);
    free(prefix);
}
END_TEST

START_TEST(what_is_no_v2_checkpoint_is_named)
{
    char *prefix = in_dir("m");
    char *index = in_dir("m.index");
    char *data = in_dir("m.data-00000-of-00001");
    char *v1 = in_dir("old.ckpt"), *odd = in_dir("a?b");
    struct err err;

    ck_assert_int_eq(read_all(prefix, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "there is no checkpoint"));
    ck_assert_int_eq(read_all(index, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "named by its prefix"));
    temp_dir_write(v1, "x", 1);
    ck_assert_int_eq(read_all(v1, &err), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "V1 checkpoint: not a table file"));
    temp_dir_write(odd, "x", 1); /* no pattern of several files */
    ck_assert_int_eq(read_all(odd, &err), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "a V1 checkpoint: not a table file"));
    write_tiny("m");
    ck_assert_int_eq(unlink(data), 0);
    ck_assert_int_eq(read_all(prefix, &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.msg, "m.data-00000-of-00001: No such file"));
    ck_assert_int_eq(unlink(index), 0);
    ck_assert_int_eq(mkfifo(index, 0600), 0);
    ck_assert_int_eq(read_all(prefix, &err), ERR_FORMAT);
    free(odd);
    free(v1);
    free(data);
    free(index);
    free(prefix);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("bundle");
    TCase *tc = tcase_create("bundle");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, one_variable_is_written_as_tensorflow_would);
    tcase_add_test(tc, scalars_strings_and_slices_are_written_as_tensorflow_would);
    tcase_add_test(tc, what_is_written_is_read);
    tcase_add_test(tc, a_prefix_may_end_in_a_slash);
    tcase_add_test(tc, names_are_sorted_and_unique);
    tcase_add_test(tc, every_kind_and_shape_comes_back);
    tcase_add_test(tc, slices_of_many_dimensions_are_put_together);
    tcase_add_test(tc, slices_that_do_not_make_a_whole_are_refused);
    tcase_add_test(tc, slice_keys_are_ordered_codes);
    tcase_add_test(tc, any_changed_byte_is_reported);
    tcase_add_loop_test(tc, forged_indexes_are_refused_and_ask_for_no_memory, 0,
                        sizeof(FORGED) / sizeof(FORGED[0]));
    tcase_add_test(tc, tensors_may_lie_in_any_shard);
    tcase_add_test(tc, what_is_no_v2_checkpoint_is_named);
    if (test_has_real_checkpoints())
        tcase_add_test(tc, real_checkpoints_are_read_and_written_byte_for_byte);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
