/* Linear equations under native numerics: OpenBLAS's results are close to those of the loops, and
 * the same each time; small matrices go through the loops. */
#include "agent/kernels/lapack.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <stdlib.h>

enum { BATCH = 2, COLUMNS = 3 };

static const char *const types[] = {
    "Cholesky",      "CholeskyGrad",      "MatrixTriangularSolve", "MatrixSolve",
    "MatrixInverse", "MatrixDeterminant", "LogMatrixDeterminant",
};
enum { N_TYPES = sizeof(types) / sizeof(types[0]) };

/* One operation in a session of each kind of numerics. */
struct both {
    struct graph *g;
    struct session *portable, *native;
    struct operation *op;
};

static struct output matrices(struct graph *g, int64_t rows, int64_t cols,
                              double diagonal)
{
    struct tensor t = TENSOR_NONE;
    struct err err;
    struct output ret;

    ck_assert_int_eq(tensor_alloc(&t, DT_DOUBLE, SHAPE(BATCH, rows, cols), &err), 0);
    for (int64_t i = 0; i < BATCH * rows * cols; i++) {
        const int64_t y = i / cols % rows, x = i % cols;
        /* the second matrix has its rows in another order, so that rows must be exchanged */
        const int on = diagonal > 0 && (i < rows * cols ? y == x : y == (x + 1) % cols);

        ((double *)t.data)[i] =
            (double)((y * 7919 + x * x * 104729 + i / cols) % 2003 - 1001) / 2003 +
            (on ? diagonal : 0);
    }
    ret = constant(g, &t, NULL);
    tensor_free(&t);
    return ret;
}

/* x x', with the diagonal made larger */
static struct output symmetric(struct graph *g, int64_t n)
{
    struct output x = matrices(g, n, n, 2.0 * (double)n);
    struct op_builder *b = op_begin(g, "BatchMatMul", NULL);

    op_input(b, x);
    op_input(b, x);
    op_attr_bool(b, "adj_y", 1);
    return (struct output){op_finish(b), 0};
}

static void both_init(struct both *s, const char *type, int64_t n, int turned)
{
    const struct session_options native = {.numerics = NUMERICS_NATIVE};
    const int is_factor = strncmp(type, "Cholesky", 8) == 0;
    struct op_builder *b;
    struct output x, y;
    struct err err;

    *s = (struct both){.g = graph_new()};
    x = is_factor ? symmetric(s->g, n) : matrices(s->g, n, n, 2.0 * (double)n);
    if (strcmp(type, "MatrixTriangularSolve") == 0 || strcmp(type, "CholeskyGrad") == 0)
        x = unary(s->g, "Cholesky", symmetric(s->g, n), NULL);
    y = matrices(s->g, n, strcmp(type, "CholeskyGrad") == 0 ? n : COLUMNS, 0);
    b = op_begin(s->g, type, NULL);
    op_input(b, x);
    if (strstr(type, "Solve") != NULL || strcmp(type, "CholeskyGrad") == 0)
        op_input(b, y);
    if (turned)
        op_attr_bool(b, "adjoint", 1);
    s->op = op_finish(b);
    ck_assert_msg(s->op != NULL, "%s", graph_error(s->g)->msg);
    ck_assert_int_eq(session_new(&s->portable, s->g, NULL, &err), 0);
    ck_assert_int_eq(session_new(&s->native, s->g, &native, &err), 0);
}

static void both_done(struct both *s)
{
    session_free(s->portable);
    session_free(s->native);
    graph_free(s->g);
}

static struct tensor run(struct session *s, struct operation *op, int i)
{
    const struct output y = {op, i};
    const struct run_args args = {.fetches = &y, .n_fetches = 1};
    struct tensor ret = TENSOR_NONE;
    struct err err;

    ck_assert_msg(session_run(s, &args, &ret, &err) == 0, "%s", err.msg);
    return ret;
}

static void compare(const char *type, int64_t n, int turned)
{
    struct both s;

    both_init(&s, type, n, turned);
    for (int k = 0; k < operation_n_outputs(s.op); k++) {
        struct tensor a = run(s.portable, s.op, k), b = run(s.native, s.op, k);
        struct tensor again = run(s.native, s.op, k);
        const double *x = a.data, *y = b.data;
        double most = 0, off = 0;

        for (int64_t i = 0; i < tensor_elements(&a); i++) {
            most = fmax(most, fabs(x[i]));
            off = fmax(off, isfinite(y[i]) ? fabs(x[i] - y[i]) : INFINITY);
        }
        ck_assert_msg(off <= 1e-11 * most, "%s, %lld rows: %g from %g", type,
                      (long long)n, off, most);
        ck_assert_int_eq(memcmp(b.data, again.data, tensor_bytes(&b)), 0);
        if (!lapack_wants(n))
            ck_assert_int_eq(memcmp(b.data, a.data, tensor_bytes(&b)), 0);
        tensor_free(&a);
        tensor_free(&b);
        tensor_free(&again);
    }
    both_done(&s);
}

START_TEST(results_are_close)
{
    static const int64_t sizes[] = {5, 31, 32, 33, 65, 100};
    const int has_adjoint =
        strstr(types[_i], "Solve") != NULL || strstr(types[_i], "Inverse") != NULL;

    ck_assert_int_eq(lapack_wants(31), 0);
    ck_assert_int_eq(lapack_wants(32), 1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int turned = 0; turned <= has_adjoint; turned++)
            compare(types[_i], sizes[i], turned);
}
END_TEST

/* ---- matrices without an inverse, and others that are no numbers ---- */

enum { SIDE = 40 };

/* The identity but for element (at, at). */
static struct output changed(struct graph *g, int at, double v)
{
    struct tensor t = TENSOR_NONE;
    struct err err;
    struct output ret;

    ck_assert_int_eq(tensor_alloc(&t, DT_DOUBLE, SHAPE(SIDE, SIDE), &err), 0);
    for (int i = 0; i < SIDE; i++)
        ((double *)t.data)[i * SIDE + i] = i == at ? v : 1;
    ret = constant(g, &t, NULL);
    tensor_free(&t);
    return ret;
}

START_TEST(matrices_that_have_no_inverse)
{
    const struct session_options native = {.numerics = NUMERICS_NATIVE};
    const double v = _i == 0 ? 0 : (double)NAN;
    struct graph *g = graph_new();
    struct output x = changed(g, 7, v), ys[5];
    struct session *s;
    struct err err;

    ys[0] = unary(g, "MatrixInverse", x, NULL);
    ys[1] = binary(g, "MatrixSolve", x, x, NULL);
    ys[2] = binary(g, "MatrixTriangularSolve", x, x, NULL);
    ys[3] = unary(g, "MatrixDeterminant", x, NULL);
    ys[4] = unary(g, "Cholesky", x, NULL);
    ck_assert_int_eq(session_new(&s, g, &native, &err), 0);
    for (int i = 0; i < 3; i++) {
        const struct run_args args = {.fetches = &ys[i], .n_fetches = 1};
        struct tensor ret = TENSOR_NONE;

        ck_assert_int_eq(session_run(s, &args, &ret, &err), ERR_ARG);
        ck_assert_msg(strstr(err.msg, "Input matrix is not invertible.") != NULL, "%s",
                      err.msg);
    }
    struct tensor d = run(s, ys[3].op, 0), l = run(s, ys[4].op, 0);
    ck_assert(_i == 0 ? *(double *)d.data == 0 : isnan(*(double *)d.data));
    for (int i = 0; i < SIDE * SIDE; i++)
        ck_assert(i % SIDE > i / SIDE ? ((double *)l.data)[i] == 0
                                      : isnan(((double *)l.data)[i]));
    tensor_free(&d);
    tensor_free(&l);
    session_free(s);
    graph_free(g);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("lapack");
    TCase *tc = tcase_create("native");

    tcase_add_loop_test(tc, results_are_close, 0, N_TYPES);
    tcase_add_loop_test(tc, matrices_that_have_no_inverse, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
