#include "agent/nn/accept_reject.h"
#include "agent/nn/nn.h"
#include "agent/session/memory.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

/* ---- memory ---- */

START_TEST(named_variables_come_back_and_others_stay)
{
    struct bed b;
    struct variable *v[3], *some[2];
    struct memory *m;

    bed_init(&b);
    for (int i = 0; i < 3; i++)
        v[i] = bed_variable(&b, (float)i, NULL);
    some[0] = v[2];
    some[1] = v[0];
    bed_target(&b, v[0]->initializer);
    bed_target(&b, v[1]->initializer);
    ck_assert_int_eq(memory_new(&m, b.s, some, 2, &b.err), 0);
    ck_assert_int_eq(memory_restore(m, &b.err), ERR_STATE);
    memory_store(m);
    for (int i = 0; i < 3; i++)
        bed_target(&b, variable_assign(v[i], constant_f32(b.g, 9, NULL), NULL).op);
    /* the block moves when the graph grows */
    bed_target(&b, bed_variable(&b, 4, "later")->initializer);
    ck_assert_int_eq(memory_restore(m, &b.err), 0);
    ck_assert_float_eq(bed_scalar(&b, v[0]->read), 0);
    ck_assert_float_eq(bed_scalar(&b, v[1]->read), 9);
    ck_assert_int_eq(bed_try(&b, v[2]->read), ERR_UNINITIALIZED);
    memory_free(m);
    bed_done(&b);
}
END_TEST

START_TEST(all_variables_come_back)
{
    struct bed b;
    struct variable *v[2];
    struct memory *m;

    bed_init(&b);
    for (int i = 0; i < 2; i++)
        v[i] = bed_variable(&b, 6, NULL);
    bed_init_variables(&b);
    ck_assert_int_eq(memory_new(&m, b.s, NULL, 0, &b.err), 0);
    memory_store(m);
    bed_target(&b, variable_assign(v[1], constant_f32(b.g, 0, NULL), NULL).op);
    ck_assert_int_eq(memory_restore(m, &b.err), 0);
    ck_assert_float_eq(bed_scalar(&b, v[1]->read), 6);
    memory_free(m);
    bed_done(&b);
}
END_TEST

START_TEST(variables_of_another_graph_are_refused)
{
    struct bed a, b;
    struct variable *v;
    struct memory *m = NULL;

    bed_init(&a);
    bed_init(&b);
    v = bed_variable(&a, 1, "v");
    ck_assert_int_eq(memory_new(&m, b.s, &v, 1, &b.err), ERR_ARG);
    ck_assert_ptr_null(m);
    bed_done(&a);
    bed_done(&b);
}
END_TEST

/* ---- the optimiser ---- */

enum { ROWS = 16 };

static struct output regression(struct bed *b, float *x, float *y)
{
    struct output in, want, out;

    for (int i = 0; i < ROWS; i++) {
        x[i] = (float)i / 8.0f - 1.0f;
        y[i] = 0.5f * x[i] - 0.25f;
    }
    in = bed_input(b, SHAPE(-1, 1), x, SHAPE(ROWS, 1));
    want = bed_input(b, SHAPE(-1, 1), y, SHAPE(ROWS, 1));
    out = fully_connected(b->g, in, 8, ACTIVATION_TANH, NULL, NULL);
    out = fully_connected(b->g, out, 1, ACTIVATION_LINEAR, NULL, NULL);
    return reduce(b->g, "Mean", binary(b->g, "SquaredDifference", out, want, NULL), NULL,
                  0, 0, NULL);
}

START_TEST(accept_reject_lowers_a_regression_loss)
{
    struct bed b;
    float x[ROWS], y[ROWS], first, loss, before;
    struct accept_reject *a;
    struct tensor place = tensor_view(DT_FLOAT, SHAPE_SCALAR, &loss);
    struct output out;
    struct run_args run = {.fetches = &out, .n_fetches = 1};
    int n_kept = 0;

    bed_init(&b);
    b.key = rng_key_make(3, "test", "init");
    out = regression(&b, x, y);
    bed_init_variables(&b);
    first = before = bed_scalar(&b, out);
    run.feeds = b.feeds;
    run.n_feeds = b.n_feeds;
    ck_assert_int_eq(accept_reject_new(&a, b.s, NULL, b.key, &b.err), 0);
    ck_assert_int_eq(accept_reject_begin(a, &run, &place, &b.err), 0);
    ck_assert_float_eq(loss, first);
    for (int i = 0; i < 500; i++) {
        int kept = accept_reject_step(a, 0.05f, &loss, &b.err);

        ck_assert_int_ge(kept, 0);
        ck_assert(kept ? loss < before : loss == before);
        n_kept += kept;
        before = loss;
    }
    ck_assert(loss < 0.1f * first);
    ck_assert_int_gt(n_kept, 0);
    ck_assert_int_lt(n_kept, 500);
    ck_assert_float_eq(bed_scalar(&b, out), loss); /* the variables are the best ones */
    accept_reject_free(a);
    bed_done(&b);
}
END_TEST

/* Only the scope's variables change; a noisy loss is compared under the same draws; draws
 * depend on the counter alone, not on earlier runs. */
START_TEST(a_scope_of_variables_and_a_noisy_loss)
{
    struct bed b;
    struct variable *in, *out;
    struct accept_reject *a, *none;
    struct run_args run = {.n_fetches = 1, .counter = 7};
    struct output loss;
    float value, first = 0;
    struct tensor place = tensor_view(DT_FLOAT, SHAPE_SCALAR, &value);

    bed_init(&b);
    in = bed_variable(&b, 1, "net/w");
    out = bed_variable(&b, 1, "other");
    loss = binary(b.g, "Add", unary(b.g, "Square", in->read, NULL),
                  random_uniform(b.g, shape_of(b.g, in->read, NULL), 0, 100, NULL), NULL);
    bed_init_variables(&b);
    run.fetches = &loss;
    run.key = b.key;
    ck_assert_int_eq(accept_reject_new(&a, b.s, "net/", b.key, &b.err), 0);
    for (int round = 0; round < 2; round++) {
        const float one = 1;
        struct tensor t = tensor_const_view(DT_FLOAT, SHAPE_SCALAR, &one);

        ck_assert_int_eq(session_variable_set(b.s, in, &t, &b.err), 0);
        ck_assert_int_eq(accept_reject_begin(a, &run, &place, &b.err), 0);
        for (int i = 0; i < 20; i++)
            ck_assert_int_ge(accept_reject_step(a, 0.2f, &value, &b.err), 0);
        ck_assert_float_lt(bed_scalar(&b, in->read), 0.5f);
        if (round == 0)
            first = bed_scalar(&b, in->read);
        ck_assert_float_eq(bed_scalar(&b, in->read), first);
    }
    ck_assert_float_eq(bed_scalar(&b, out->read), 1);
    ck_assert_int_eq(accept_reject_new(&none, b.s, "nobody/", b.key, &b.err), ERR_ARG);
    accept_reject_free(a);
    bed_done(&b);
}
END_TEST

START_TEST(nothing_to_optimise_is_an_error)
{
    struct bed b;
    struct accept_reject *a = NULL;

    bed_init(&b);
    ck_assert_int_eq(accept_reject_new(&a, b.s, NULL, b.key, &b.err), ERR_ARG);
    ck_assert_str_eq(b.err.msg, "No variables to optimize.");
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("accept_reject");
    TCase *tc = tcase_create("accept_reject");

    tcase_add_test(tc, named_variables_come_back_and_others_stay);
    tcase_add_test(tc, all_variables_come_back);
    tcase_add_test(tc, variables_of_another_graph_are_refused);
    tcase_add_test(tc, accept_reject_lowers_a_regression_loss);
    tcase_add_test(tc, a_scope_of_variables_and_a_noisy_loss);
    tcase_add_test(tc, nothing_to_optimise_is_an_error);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
