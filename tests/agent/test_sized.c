/* Operations whose values decide the sizes of their results: a run is cut at them. */
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

static struct output unique(struct bed *b, struct output x, const char *name)
{
    struct op_builder *o = op_begin(b->g, "Unique", name);

    op_input(o, x);
    return (struct output){op_finish(o), 0};
}

static void check(struct tensor t, const float *want, int64_t n)
{
    ck_assert_int_eq(tensor_elements(&t), n);
    for (int64_t i = 0; i < n; i++)
        ck_assert_float_eq(tensor_f32(&t)[i], want[i]);
    tensor_free(&t);
}

/* The operation sees what a write before it in the run wrote, and the write runs once. */
START_TEST(sizes_follow_from_writes)
{
    struct bed b;
    float data[4] = {0, 1, 0, 1};
    bed_init(&b);
    struct output x = bed_input(&b, SHAPE(-1), data, SHAPE(4));
    struct variable *v = bed_variable(&b, 1, "v");
    struct output sum, next = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL);
    struct output distinct =
        unique(&b,
               binary(b.g, "Minimum", x,
                      binary(b.g, "Sub", next, constant_f32(b.g, 2, NULL), NULL), NULL),
               NULL);
    bed_init_variables(&b);
    sum = binary(b.g, "Add", reduce(b.g, "Sum", distinct, NULL, 0, 0, NULL), next, NULL);
    check(bed_fetch(&b, distinct), (const float[]){0}, 1);
    ck_assert_float_eq(bed_scalar(&b, v->read), 2);
    ck_assert_float_eq(bed_scalar(&b, sum), 0 + 1 + 3);
    ck_assert_float_eq(bed_scalar(&b, v->read), 3);
    bed_done(&b);
}
END_TEST

/* What reads a variable reads it before the write, also if the run is cut between them. */
START_TEST(reads_come_before_writes_across_a_cut)
{
    struct bed b;
    float data[3] = {5, 5, 6};
    bed_init(&b);
    struct output x = bed_input(&b, SHAPE(-1), data, SHAPE(3));
    struct variable *v = bed_variable(&b, 1, "v");
    struct output sum = reduce(b.g, "Sum", unique(&b, x, NULL), NULL, 0, 0, NULL);
    struct output reads = binary(b.g, "Add", sum, v->read, NULL);
    struct output writes = variable_assign(v, sum, NULL);
    struct output both[2] = {reads, writes};
    struct tensor ret[2] = {TENSOR_NONE, TENSOR_NONE};
    struct run_args args = bed_args(&b);
    bed_init_variables(&b);
    args.fetches = both;
    args.n_fetches = 2;
    ck_assert_msg(session_run(b.s, &args, ret, &b.err) == 0, "%s", b.err.msg);
    check(ret[0], (const float[]){12}, 1);
    check(ret[1], (const float[]){11}, 1);
    bed_done(&b);
}
END_TEST

/* Where of a constant is known when planning; a feed in its place is not. */
START_TEST(a_feed_may_replace_the_constant)
{
    struct bed b;
    uint8_t own[3] = {1, 0, 1}, fed[3] = {0, 1, 0};
    bed_init(&b);
    struct tensor value = tensor_view(DT_BOOL, SHAPE(3), own), t;
    struct output c = constant(b.g, &value, NULL), at = unary(b.g, "Where", c, NULL);
    t = bed_fetch(&b, at);
    ck_assert_int_eq(tensor_elements(&t), 2);
    tensor_free(&t);
    b.feeds[b.n_feeds++] = (struct feed){c, tensor_view(DT_BOOL, SHAPE(3), fed)};
    t = bed_fetch(&b, at);
    ck_assert_int_eq(tensor_elements(&t), 1);
    ck_assert_int_eq(*(const int64_t *)t.data, 1);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* On a branch that is not taken the operation does not run. */
START_TEST(a_branch_not_taken_is_dead)
{
    struct bed b;
    float data[2] = {3, 3};
    uint8_t taken = 0;
    bed_init(&b);
    struct output x = bed_input(&b, SHAPE(-1), data, SHAPE(2)), merged;
    struct output p = placeholder(b.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    struct output sides = binary(b.g, "Switch", x, p, NULL);
    struct output n = {sides.op, 1};
    struct op_builder *o;
    b.feeds[b.n_feeds++] = (struct feed){p, tensor_view(DT_BOOL, SHAPE_SCALAR, &taken)};
    n = reduce(b.g, "Sum", unique(&b, n, "on_the_branch"), NULL, 0, 0, NULL);
    o = op_begin(b.g, "Merge", NULL);
    op_input(o, reduce(b.g, "Sum", sides, NULL, 0, 0, NULL));
    op_input(o, n);
    merged = (struct output){op_finish(o), 0};
    ck_assert_float_eq(bed_scalar(&b, merged), 6);
    taken = 1;
    ck_assert_float_eq(bed_scalar(&b, merged), 3);
    bed_done(&b);
}
END_TEST

START_TEST(strings_are_compared)
{
    struct bed b;
    struct tensor_string words[4] = {
        {(char[]){"ab"}, 2}, {(char[]){"a"}, 1}, {(char[]){"ab"}, 2}, {NULL, 0}};
    struct tensor value = tensor_view(DT_STRING, SHAPE(4), words);
    struct tensor ret[2] = {TENSOR_NONE, TENSOR_NONE};
    bed_init(&b);
    for (int fed = 0; fed < 2; fed++) {
        struct output x = fed ? placeholder(b.g, DT_STRING, &SHAPE(-1), NULL)
                              : constant(b.g, &value, NULL);
        struct output y = unique(&b, x, NULL), both[2] = {y, {y.op, 1}};
        struct feed f = {x, value};
        struct run_args args = {
            .feeds = &f, .n_feeds = (size_t)fed, .fetches = both, .n_fetches = 2};
        ck_assert_msg(session_run(b.s, &args, ret, &b.err) == 0, "%s", b.err.msg);
        ck_assert_int_eq(tensor_elements(&ret[0]), 3);
        const struct tensor_string *s = ret[0].data;
        ck_assert_int_eq((int)s[1].len_bytes, 1);
        ck_assert_mem_eq(s[0].bytes, "ab", 2);
        ck_assert_int_eq(((const int32_t *)ret[1].data)[3], 2);
        tensor_free(&ret[0]);
        tensor_free(&ret[1]);
    }
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("sized");
    TCase *tc = tcase_create("sized");

    tcase_add_test(tc, sizes_follow_from_writes);
    tcase_add_test(tc, reads_come_before_writes_across_a_cut);
    tcase_add_test(tc, a_feed_may_replace_the_constant);
    tcase_add_test(tc, a_branch_not_taken_is_dead);
    tcase_add_test(tc, strings_are_compared);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
