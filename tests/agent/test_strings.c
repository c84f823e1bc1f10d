/* Variables of strings: in the block, read, written, saved and restored. */
#include "agent/graph/ops.h"
#include "agent/saver/saver.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"
#include "tests/agent/session_help.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

static struct tensor_string two[] = {{(char[]){"ab\0c"}, 4}, {NULL, 0}};
static struct tensor_string others[] = {{(char[]){"x"}, 1}, {(char[]){"yz"}, 2}};

struct fixture {
    struct bed bed;
    struct variable *v;
    struct output other; /* a placeholder */
    struct operation *assign;
};

static void setup(struct fixture *f)
{
    const struct tensor value = tensor_view(DT_STRING, SHAPE(2), two);

    *f = (struct fixture){0};
    bed_init(&f->bed);
    f->v = variable_new(f->bed.g, constant(f->bed.g, &value, NULL), "v", 0);
    ck_assert_msg(f->v != NULL, "%s", graph_error(f->bed.g)->msg);
    f->other = placeholder(f->bed.g, DT_STRING, &SHAPE(2), "other");
    f->assign = variable_assign(f->v, f->other, NULL).op;
    bed_init_variables(&f->bed);
}

static void check(struct fixture *f, struct output x, struct tensor_string *want)
{
    const struct tensor w = tensor_view(DT_STRING, SHAPE(2), want);
    struct tensor t = bed_fetch(&f->bed, x);

    ck_assert(tensor_equal(&t, &w));
    tensor_free(&t);
}

static void assign(struct fixture *f, struct tensor_string *value)
{
    f->bed.feeds[0] = (struct feed){f->other, tensor_view(DT_STRING, SHAPE(2), value)};
    f->bed.n_feeds = 1;
    bed_target(&f->bed, f->assign);
}

START_TEST(strings_are_read_and_written)
{
    struct fixture f;
    struct output again;
    void *before;
    size_t n;

    setup(&f);
    check(&f, f.v->read, two);
    check(&f, f.v->ref, two);
    n = session_block_bytes(f.bed.s);
    before = xmalloc(n);
    session_snapshot(f.bed.s, before);
    assign(&f, others);
    check(&f, f.v->read, others);
    again = unary(f.bed.g, "Identity", f.v->read, NULL);
    check(&f, again, others);
    session_restore(f.bed.s, before);
    check(&f, again, two);
    assign(&f, two); /* equal bytes, as there are no pointers */
    ck_assert_mem_eq(before, session_block(f.bed.s), n);
    free(before);
    bed_done(&f.bed);
}
END_TEST

/* A session remembers what the last kinds of runs read, but never the values. */
START_TEST(many_kinds_of_runs_read)
{
    enum { KINDS = 70 };
    struct output reads[KINDS];
    struct fixture f;

    setup(&f);
    for (int i = 0; i < KINDS; i++)
        reads[i] = unary(f.bed.g, "Identity", f.v->read, NULL);
    for (int i = 0; i < KINDS; i++)
        check(&f, reads[i], two);
    assign(&f, others);
    f.bed.n_feeds = 0;
    for (int i = KINDS - 1; i >= 0; i--)
        check(&f, reads[i], others);
    assign(&f, two);
    check(&f, reads[0], two);
    bed_done(&f.bed);
}
END_TEST

/* Planning copies the strings that an operation moves. */
START_TEST(moved_strings_keep_zeros)
{
    const struct tensor_string text = two[0];
    const struct tensor value = tensor_const_view(DT_STRING, SHAPE_SCALAR, &text);
    const struct tensor_string *s;
    struct op_builder *o;
    struct fixture f;
    struct tensor t;

    setup(&f);
    o = op_begin(f.bed.g, "Pack", NULL);
    op_input(o, constant(f.bed.g, &value, NULL));
    op_input(o, constant(f.bed.g, &value, NULL));
    t = bed_fetch(&f.bed, (struct output){op_finish(o), 0});
    s = t.data;
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(s[i].len_bytes, text.len_bytes);
        ck_assert_mem_eq(s[i].bytes, text.bytes, text.len_bytes);
    }
    tensor_free(&t);
    bed_done(&f.bed);
}
END_TEST

START_TEST(what_cannot_be_done_is_refused)
{
    struct tensor_string long_ones[] = {
        {xcalloc(STRING_SLAB_BYTES, 2), 2 * STRING_SLAB_BYTES}, {NULL, 0}};
    struct session *fresh;
    struct fixture f;
    struct run_args args;
    struct tensor t = TENSOR_NONE;

    setup(&f);
    f.bed.feeds[f.bed.n_feeds++] =
        (struct feed){f.other, tensor_view(DT_STRING, SHAPE(2), long_ones)};
    args = bed_args(&f.bed);
    args.targets = &f.assign;
    args.n_targets = 1;
    ck_assert_int_eq(session_run(f.bed.s, &args, NULL, &f.bed.err), ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(f.bed.err.msg, "too long"));
    args.fetches = &f.v->read;
    args.n_fetches = 1;
    ck_assert_int_eq(session_run(f.bed.s, &args, &t, &f.bed.err), ERR_UNSUPPORTED);
    f.bed.feeds[0].value.data = others;
    args.fetches = &(struct output){f.assign, 0};
    ck_assert_int_eq(session_run(f.bed.s, &args, &t, &f.bed.err), ERR_UNSUPPORTED);
    check(&f, f.v->read, two);
    ck_assert_int_eq(session_new(&fresh, f.bed.g, NULL, &f.bed.err), 0);
    args = (struct run_args){.fetches = &f.v->read, .n_fetches = 1};
    ck_assert_int_eq(session_run(fresh, &args, &t, &f.bed.err), ERR_UNINITIALIZED);
    session_free(fresh);
    free(long_ones[0].bytes);
    bed_done(&f.bed);
}
END_TEST

/* By the Saver, and by its nodes, whose strings only a run knows. */
START_TEST(strings_are_saved_and_restored)
{
    for (int version = SAVER_V1; version <= SAVER_V2; version++) {
        struct saver_options o = SAVER_DEFAULTS;
        struct tensor_string path = {0};
        struct saver *s;
        struct temp_dir dir;
        struct output file;
        struct fixture f;

        setup(&f);
        temp_dir_init(&dir);
        o.write_version = version;
        ck_assert_msg(saver_new(&s, f.bed.g, &o, &f.bed.err) == 0, "%s", f.bed.err.msg);
        path.bytes = xasprintf("%s/m", dir.path);
        path.len_bytes = strlen(path.bytes);
        ck_assert_msg(saver_save(s, f.bed.s, path.bytes, NULL, NULL, &f.bed.err) == 0,
                      "%s", f.bed.err.msg);
        assign(&f, others);
        ck_assert_int_eq(saver_restore(s, f.bed.s, path.bytes, &f.bed.err), 0);
        check(&f, f.v->read, two);
        for (int i = 0; i < 2; i++) {
            assign(&f, others);
            ck_assert_int_eq(graph_tensor(f.bed.g, saver_as_def(s)->filename_tensor,
                                          &file, &f.bed.err),
                             0);
            f.bed.feeds[0] =
                (struct feed){file, tensor_view(DT_STRING, SHAPE_SCALAR, &path)};
            bed_target(&f.bed, graph_operation(f.bed.g, saver_as_def(s)->restore_op));
            check(&f, f.v->read, two);
            bed_target(&f.bed, graph_operation(f.bed.g, "save/control_dependency"));
            f.bed.n_feeds = 0;
        }
        saver_free(s);
        free(path.bytes);
        temp_dir_done(&dir);
        bed_done(&f.bed);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("strings");
    TCase *tc = tcase_create("strings");

    tcase_add_test(tc, strings_are_read_and_written);
    tcase_add_test(tc, many_kinds_of_runs_read);
    tcase_add_test(tc, moved_strings_keep_zeros);
    tcase_add_test(tc, what_cannot_be_done_is_refused);
    tcase_add_test(tc, strings_are_saved_and_restored);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
