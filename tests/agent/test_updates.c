/* The update ops of the optimisers: every type of the table. Their values over ten steps:
 * tests/tensorflow/cases_optimizers.py. */
#include "agent/graph/op_def.h"
#include "agent/graph/signature.h"
#include "agent/ops/op_table.h"
#include "tests/agent/variable_help.h"
#include "tests/support/test_main.h"

enum { ROWS = 4, WIDTH = 2, N = ROWS * WIDTH };

/* What an update op gets: the variable and its slots, a gradient, perhaps row numbers. */
struct update {
    struct bed b;
    struct variable *v[4];
    int n_variables;
    struct operation *op; /* NULL: refused */
};

static double scalar_value(struct span name)
{
    static const struct {
        const char *name;
        double value;
    } scalars[] = {{"lr_power", -0.5}, {"beta1_power", 0.9}, {"beta2_power", 0.99},
                   {"epsilon", 0.01},  {"global_step", 3},   {"lr", 0.1},
                   {"alpha", 0.1},     {"l1", 0.01}};

    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); i++)
        if (span_is(name, scalars[i].name))
            return scalars[i].value;
    return 0.8;
}

static struct variable *slot(struct update *u, int is_handle)
{
    double x[N];
    char name[8];

    for (int i = 0; i < N; i++)
        x[i] = 0.4 + 0.02 * i + 0.5 * u->n_variables; /* mg^2 < ms */
    (void)snprintf(name, sizeof(name), "v%d", u->n_variables);
    return u->v[u->n_variables++] =
               variable_new(u->b.g, constant_of(&u->b, DT_FLOAT, SHAPE(ROWS, WIDTH), x),
                            name, is_handle ? VARIABLE_RESOURCE : 0);
}

/* grad (rows, WIDTH), perhaps with another last dimension; indices NULL: as many as rows */
static void begin(struct update *u, const char *type, const double *grad, int rows,
                  int width, const double *indices, int n_indices)
{
    struct output in[SIGNATURE_MAX];
    struct signature_room room;
    struct signature sig;
    struct op_builder *o;

    *u = (struct update){0};
    bed_init(&u->b);
    ck_assert_int_eq(
        signature_parse(&sig, &room, op_def_find(&op_table, type)->signature), 0);
    for (int i = 0; i < sig.n_in; i++) {
        const struct span name = sig.in[i].name;
        const double x = scalar_value(name);

        if (sig.in[i].is_ref || span_is(sig.in[i].type, "resource"))
            in[i] = slot(u, !sig.in[i].is_ref)->ref;
        else if (span_is(name, "grad") || span_is(name, "delta"))
            in[i] = constant_of(&u->b, DT_FLOAT, SHAPE(rows, width), grad);
        else if (span_is(name, "indices"))
            in[i] = constant_of(&u->b, DT_INT32, SHAPE(n_indices), indices);
        else
            in[i] = constant_of(&u->b, span_is(name, "global_step") ? DT_INT64 : DT_FLOAT,
                                SHAPE_SCALAR, &x);
    }
    o = op_begin(u->b.g, type, "tested");
    for (int i = 0; i < sig.n_in; i++)
        op_input(o, in[i]);
    u->op = op_finish(o);
    if (u->op != NULL)
        bed_init_variables(&u->b);
}

static const double gradient[N] = {1, -2, 0.5, 0, 3, -0.25, 0.75, -1},
                    all_rows[ROWS] = {0, 1, 2, 3};

/* The type's steps with the gradient above; of all rows, if it is sparse. */
static void begin_whole(struct update *u, const char *type)
{
    begin(u, type, gradient, ROWS, WIDTH, all_rows, ROWS);
    ck_assert_msg(u->op != NULL, "%s", type);
}

static void check_same(struct update *u, struct update *other, double tolerance)
{
    ck_assert_int_eq(u->n_variables, other->n_variables);
    for (int k = 0; k < u->n_variables; k++) {
        const struct tensor t = value_of(&other->b, other->v[k]);
        double x[N];

        for (int i = 0; i < N; i++)
            x[i] = element(&t, i);
        check_values(&u->b, u->v[k], x, N, tolerance);
    }
}

static int is_optimiser(const char *type)
{
    return strstr(type, "Apply") != NULL;
}

static int is_sparse(const char *type)
{
    return strstr(type, "Sparse") != NULL;
}

/* NULL past the end */
static const char *optimiser_at(int i)
{
    const struct op_def *d;

    for (size_t k = 0; (d = op_def_at(&op_table, k)) != NULL; k++)
        if (is_optimiser(d->type) && i-- == 0)
            return d->type;
    return NULL;
}

/* The type without this part of its name, if the table has it; otherwise NULL. */
static const char *type_without(const char *type, const char *part)
{
    const char *at = strstr(type, part);
    char name[64];
    const struct op_def *d;

    if (at == NULL)
        return NULL;
    (void)snprintf(name, sizeof(name), "%.*s%s", (int)(at - type), type,
                   at + strlen(part));
    d = op_def_find(&op_table, name);
    return d != NULL ? d->type : NULL;
}

START_TEST(an_update_by_handle_or_by_rows_is_the_same_update)
{
    static const char *const parts[] = {"Resource", "Sparse"};
    const char *type = optimiser_at(_i);

    for (int k = 0; k < 2; k++) {
        const char *other = type_without(type, parts[k]);
        struct update u, plain;

        if (other == NULL)
            continue;
        begin_whole(&u, type);
        begin_whole(&plain, other);
        for (int t = 0; t < 3; t++) {
            bed_target(&u.b, u.op);
            bed_target(&plain.b, plain.op);
        }
        check_same(&u, &plain, k == 0 ? 0 : 1e-6);
        bed_done(&u.b);
        bed_done(&plain.b);
    }
}
END_TEST

/* A row that occurs twice gets two steps, in the order of the gradient's rows. */
START_TEST(a_row_may_occur_twice)
{
    const char *type = optimiser_at(_i);
    static const double twice[] = {2, 2};
    struct update both, first, second;

    if (!is_sparse(type))
        return;
    begin(&both, type, gradient, 2, WIDTH, twice, 2);
    begin(&first, type, gradient, 1, WIDTH, twice, 1);
    begin(&second, type, gradient + WIDTH, 1, WIDTH, twice, 1);
    bed_target(&both.b, both.op);
    bed_target(&first.b, first.op);
    for (int k = 0; k < first.n_variables; k++) {
        const struct tensor x = value_of(&first.b, first.v[k]);

        ck_assert_int_eq(session_variable_set(second.b.s, second.v[k], &x, NULL), 0);
    }
    bed_target(&second.b, second.op);
    check_same(&both, &second, 0);
    bed_done(&both.b);
    bed_done(&first.b);
    bed_done(&second.b);
}
END_TEST

START_TEST(a_wrong_row_changes_nothing)
{
    static const double wrong[][2] = {{0, ROWS}, {1, -1}};
    const char *type = optimiser_at(_i);

    if (!is_sparse(type))
        return;
    for (int k = 0; k < 2; k++) {
        struct update u, before;

        begin(&u, type, gradient, 2, WIDTH, wrong[k], 2);
        begin(&before, type, gradient, 2, WIDTH, wrong[k], 2);
        ck_assert_ptr_nonnull(strstr(refusal(&u.b, u.op), "tested: index"));
        check_same(&u, &before, 0);
        bed_done(&u.b);
        bed_done(&before.b);
    }
}
END_TEST

START_TEST(a_gradient_of_another_shape_is_refused)
{
    const char *type = optimiser_at(_i);
    struct update u;

    begin(&u, type, gradient, ROWS, 1, all_rows, ROWS);
    ck_assert_ptr_null(u.op);
    ck_assert_ptr_nonnull(strstr(refusal(&u.b, NULL), "but the variable is (4, 2)"));
    bed_done(&u.b);
    if (!is_sparse(type))
        return;
    begin(&u, type, gradient, 3, WIDTH, all_rows, 2);
    ck_assert_ptr_null(u.op);
    ck_assert_ptr_nonnull(strstr(refusal(&u.b, NULL), "(3, 2) for (2) indices"));
    bed_done(&u.b);
}
END_TEST

/* Bits of a NaN are the same after every step, whatever those of the gradient. */
START_TEST(every_nan_is_the_canonical_one)
{
    const uint64_t bits = UINT64_C(0x7ff8dead00000000);
    double x[N], nan;
    const char *type = optimiser_at(_i);
    struct update u;

    memcpy(&nan, &bits, sizeof(nan));
    for (int i = 0; i < N; i++)
        x[i] = i == 3 ? -nan : gradient[i];
    begin(&u, type, x, ROWS, WIDTH, all_rows, ROWS);
    bed_target(&u.b, u.op);
    for (int k = 0; k < u.n_variables; k++) {
        const struct tensor t = value_of(&u.b, u.v[k]);
        struct tensor same;

        ck_assert_int_eq(tensor_copy(&same, &t, &u.b.err), 0);
        tensor_canonical_nans(&same);
        ck_assert_mem_eq(same.data, t.data, sizeof(float) * N);
        tensor_free(&same);
    }
    bed_done(&u.b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("updates");
    TCase *tc = tcase_create("updates");
    int n = 0;

    while (optimiser_at(n) != NULL)
        n++;
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, an_update_by_handle_or_by_rows_is_the_same_update, 0, n);
    tcase_add_loop_test(tc, a_row_may_occur_twice, 0, n);
    tcase_add_loop_test(tc, a_wrong_row_changes_nothing, 0, n);
    tcase_add_loop_test(tc, a_gradient_of_another_shape_is_refused, 0, n);
    tcase_add_loop_test(tc, every_nan_is_the_canonical_one, 0, n);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
