/* Ops that write variables, ops that draw, and QR: those whose results are no function of
 * their inputs alone, or not unique.
 */
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <float.h>

#define N 5

/* ---- variables ---- */

/* A tensor of N elements of a type, from doubles. */
struct vector {
    float f[N];
    double d[N];
};

static struct tensor vector_view(struct vector *v, enum dtype dtype, const double *x)
{
    for (int i = 0; i < N; i++) {
        v->d[i] = x[i];
        v->f[i] = (float)x[i];
    }
    return tensor_view(dtype, SHAPE(N), dtype == DT_FLOAT ? (void *)v->f : (void *)v->d);
}

static struct variable *variable_of(struct bed *b, enum dtype dtype, const double *x,
                                    const char *name)
{
    struct vector v;
    struct tensor t = vector_view(&v, dtype, x);

    return variable_new(b->g, constant(b->g, &t, NULL), name, 0);
}

static void check_variable(struct bed *b, const struct variable *v, const double *want,
                           double tolerance)
{
    struct tensor t;

    ck_assert_int_eq(session_variable(b->s, v, &t, &b->err), 0);
    for (int i = 0; i < N; i++) {
        double have =
            t.dtype == DT_FLOAT ? (double)tensor_f32(&t)[i] : ((const double *)t.data)[i];

        ck_assert_msg(fabs(have - want[i]) <= tolerance * fmax(1, fabs(want[i])),
                      "%s[%d] is %.17g, not %.17g", v->name, i, have, want[i]);
    }
}

static const double some[N] = {1, -2, 0.5, 0, 3}, others[N] = {0.25, 1, -1, 0, 2};
static const enum dtype reals[] = {DT_FLOAT, DT_DOUBLE};

START_TEST(assignments_change_the_variable)
{
    double sum[N], difference[N];
    struct bed b;
    struct variable *v, *w;
    struct vector x;
    struct tensor t = vector_view(&x, reals[_i], others);
    struct output value;

    bed_init(&b);
    value = constant(b.g, &t, NULL);
    v = variable_of(&b, reals[_i], some, "v");
    w = variable_of(&b, reals[_i], some, "w");
    bed_init_variables(&b);
    for (int i = 0; i < N; i++) {
        sum[i] = some[i] + others[i];
        difference[i] = some[i] - others[i];
    }
    bed_target(&b, variable_assign_add(v, value, NULL).op);
    check_variable(&b, v, sum, 0);
    bed_target(&b, binary(b.g, "AssignSub", w->ref, value, NULL).op);
    check_variable(&b, w, difference, 0);
    bed_target(&b, variable_assign(w, value, NULL).op);
    check_variable(&b, w, others, 0);
    bed_done(&b);
}
END_TEST

START_TEST(a_variable_tells_whether_it_has_a_value)
{
    struct bed b;
    struct variable *v;
    struct output told;
    struct tensor t;

    bed_init(&b);
    v = bed_variable(&b, 1, "v");
    told = unary(b.g, "IsVariableInitialized", v->ref, NULL);
    t = bed_fetch(&b, told);
    ck_assert_uint_eq(*(const uint8_t *)t.data, 0);
    tensor_free(&t);
    bed_target(&b, v->initializer);
    t = bed_fetch(&b, told);
    ck_assert_uint_eq(*(const uint8_t *)t.data, 1);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

START_TEST(a_value_of_another_shape_is_refused)
{
    static const char *const types[] = {"Assign", "AssignAdd", "AssignSub"};
    struct bed b;
    struct variable *v;

    bed_init(&b);
    v = bed_variable(&b, 1, "v");
    for (int i = 0; i < 3; i++) {
        (void)binary(b.g, types[i], v->ref, zeros(b.g, DT_FLOAT, &SHAPE(2), NULL),
                     "tested");
        ck_assert_ptr_nonnull(graph_error(b.g));
        ck_assert_ptr_nonnull(strstr(graph_error(b.g)->msg, "a value of shape (2) for"));
        graph_clear_error(b.g);
    }
    bed_done(&b);
}
END_TEST

/* ---- steps of the optimisers ---- */

/* A variable x and its slots a and b. */
struct step {
    double x, a, b;
};

static struct step descent(struct step s, double g, int nesterov)
{
    (void)nesterov;
    s.x -= 0.1 * g;
    return s;
}

/* Sutskever et al. 2013, with the learning rate applied before the momentum, as in
 * TensorFlow */
static struct step momentum(struct step s, double g, int nesterov)
{
    s.a = 0.9 * s.a + g;
    s.x -= nesterov ? 0.1 * g + 0.1 * 0.9 * s.a : 0.1 * s.a;
    return s;
}

static struct step rms_prop(struct step s, double g, int nesterov)
{
    (void)nesterov;
    s.a = 0.9 * s.a + 0.1 * g * g;
    s.b = 0.5 * s.b + 0.1 * g / sqrt(s.a + 1e-3);
    s.x -= s.b;
    return s;
}

/* Kingma & Ba 2015; the powers of beta are constants, as after two steps */
static struct step adam(struct step s, double g, int nesterov)
{
    double rate = 0.1 * sqrt(1 - 0.99 * 0.99) / (1 - 0.9 * 0.9);

    s.a = 0.9 * s.a + 0.1 * g;
    s.b = 0.99 * s.b + 0.01 * g * g;
    s.x -= rate * (nesterov ? 0.9 * s.a + 0.1 * g : s.a) / (sqrt(s.b) + 1e-3);
    return s;
}

/* inputs: v the variable, a and b its slots, g the gradient, a digit: index of a scalar
 * below */
static const double scalars[] = {0.1, 0.9, 0.99, 0.5, 1e-3, 0.9 * 0.9, 0.99 * 0.99};
enum { N_SCALARS = sizeof(scalars) / sizeof(scalars[0]) };
static const struct {
    const char *op, *inputs;
    int nesterov;
    struct step (*want)(struct step s, double g, int nesterov);
} steps[] = {
    {"ApplyGradientDescent", "v0g", 0, descent},
    {"ApplyMomentum", "va0g1", 0, momentum},
    {"ApplyMomentum", "va0g1", 1, momentum},
    {"ApplyRMSProp", "vab0134g", 0, rms_prop},
    {"ApplyAdam", "vab560124g", 0, adam},
    {"ApplyAdam", "vab560124g", 1, adam},
};
enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };

static struct operation *step_op(struct bed *b, int row, enum dtype dtype,
                                 struct variable *const *v, struct output g)
{
    struct op_builder *p;
    struct output scalar[N_SCALARS];

    for (int i = 0; i < N_SCALARS; i++)
        scalar[i] = constant_like(b->g, dtype, scalars[i], NULL);
    p = op_begin(b->g, steps[row].op, NULL);
    for (const char *c = steps[row].inputs; *c != '\0'; c++)
        op_input(p, *c == 'v'   ? v[0]->ref
                    : *c == 'a' ? v[1]->ref
                    : *c == 'b' ? v[2]->ref
                    : *c == 'g' ? g
                                : scalar[*c - '0']);
    if (steps[row].nesterov)
        op_attr_bool(p, "use_nesterov", 1);
    return op_finish(p);
}

/* Ten steps with different gradients. In float32, 1 - beta2 has three digits less. */
START_TEST(optimisers_step_as_their_formulas_say)
{
    int row = _i / 2;
    enum dtype dtype = reals[_i % 2];
    const double slot_a[N] = {1, 1, 1, 1, 1}, slot_b[N] = {0};
    double tolerance = dtype == DT_FLOAT ? 2e-5 : 1e-13, column[N];
    struct step want[N];
    struct vector fed;
    struct variable *v[3];
    struct operation *op;
    struct output g;
    struct bed b;

    bed_init(&b);
    v[0] = variable_of(&b, dtype, some, "v");
    v[1] = variable_of(&b, dtype, slot_a, "a");
    v[2] = variable_of(&b, dtype, slot_b, "b");
    g = placeholder(b.g, dtype, &SHAPE(N), NULL);
    op = step_op(&b, row, dtype, v, g);
    ck_assert_ptr_nonnull(op);
    bed_init_variables(&b);
    for (int i = 0; i < N; i++)
        want[i] = (struct step){some[i], slot_a[i], slot_b[i]};
    for (int t = 0; t < 10; t++) {
        for (int i = 0; i < N; i++) {
            column[i] = others[i] * (t % 3 - 0.75);
            want[i] = steps[row].want(want[i], column[i], steps[row].nesterov);
        }
        b.feeds[0] = (struct feed){g, vector_view(&fed, dtype, column)};
        b.n_feeds = 1;
        bed_target(&b, op);
    }
    for (int i = 0; i < N; i++)
        column[i] = want[i].x;
    check_variable(&b, v[0], column, tolerance);
    bed_done(&b);
}
END_TEST

START_TEST(a_gradient_of_another_shape_is_refused)
{
    struct variable *v[3];
    struct bed b;

    bed_init(&b);
    v[0] = variable_of(&b, DT_FLOAT, some, "v");
    v[1] = v[2] = v[0];
    ck_assert_ptr_null(
        step_op(&b, _i, DT_FLOAT, v, zeros(b.g, DT_FLOAT, &SHAPE(N + 1), NULL)));
    ck_assert_ptr_nonnull(strstr(graph_error(b.g)->msg, steps[_i].op));
    ck_assert_ptr_nonnull(strstr(graph_error(b.g)->msg, "but the variable is (5)"));
    graph_clear_error(b.g);
    bed_done(&b);
}
END_TEST

/* ---- draws ---- */

#define DRAWS 40000

static struct output draw(struct bed *b, const char *type, enum dtype dtype,
                          const char *name)
{
    int integers = strcmp(type, "RandomUniformInt") == 0;
    struct output shape = constant_i32s(b->g, (int32_t[]){DRAWS}, 1, NULL);
    struct output low = constant_like(b->g, dtype, -3, NULL);
    struct output high = constant_like(b->g, dtype, 4, NULL);
    struct op_builder *p = op_begin(b->g, type, name);

    op_input(p, shape);
    if (integers) {
        op_input(p, low);
        op_input(p, high);
    } else {
        op_attr_type(p, "dtype", dtype);
    }
    return (struct output){op_finish(p), 0};
}

static double drawn(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_FLOAT:
        return tensor_f32(t)[i];
    case DT_DOUBLE:
        return ((const double *)t->data)[i];
    case DT_INT32:
        return ((const int32_t *)t->data)[i];
    default:
        return (double)((const int64_t *)t->data)[i];
    }
}

/* Means and variances from textbooks; a normal cut at two deviations has the variance
 * 1 - 4 phi(2) / (2 Phi(2) - 1). */
static const struct {
    const char *type;
    enum dtype dtype;
    double mean, variance, low, high;
} draws[] = {
    {"RandomUniform", DT_FLOAT, 0.5, 1.0 / 12, 0, 1},
    {"RandomUniform", DT_DOUBLE, 0.5, 1.0 / 12, 0, 1},
    {"RandomStandardNormal", DT_FLOAT, 0, 1, -7, 7},
    {"RandomStandardNormal", DT_DOUBLE, 0, 1, -9, 9},
    {"TruncatedNormal", DT_FLOAT, 0, 0.7737413, -2, 2},
    {"TruncatedNormal", DT_DOUBLE, 0, 0.7737413, -2, 2},
    {"RandomUniformInt", DT_INT32, 0, 4, -3, 3},
    {"RandomUniformInt", DT_INT64, 0, 4, -3, 3},
};
enum { N_DRAWS = sizeof(draws) / sizeof(draws[0]) };

/* The numbers that TensorFlow's documentation prints for seed [1, 2] (random.split). A
 * uniform float32 consists of the low 23 bits of one of them; a float64 of 20 bits of one
 * and all bits of another. */
START_TEST(stateless_draws_are_tensorflows)
{
    static const uint32_t words[] = {1105988140, 1738052849, 3959391294, 370444179};
    struct output seed, shape, alg, x;
    struct op_builder *p;
    struct operation *keys;
    struct tensor t;
    struct bed b;

    bed_init(&b);
    seed = constant_i32s(b.g, (int32_t[]){1, 2}, 2, NULL);
    keys = unary(b.g, "StatelessRandomGetKeyCounter", seed, NULL).op;
    for (int doubles = 0; doubles < 2; doubles++) {
        shape = constant_i32s(b.g, (int32_t[]){doubles ? 2 : 7}, 1, NULL);
        alg = constant_i32(b.g, doubles ? 3 : 1, NULL);
        p = op_begin(b.g, "StatelessRandomUniformV2", NULL);
        op_input(p, shape);
        op_input(p, (struct output){keys, 0});
        op_input(p, (struct output){keys, 1});
        op_input(p, alg);
        op_attr_type(p, "dtype", doubles ? DT_DOUBLE : DT_FLOAT);
        x = (struct output){op_finish(p), 0};
        t = bed_fetch(&b, x);
        for (int i = 0; i < 4 && !doubles; i++)
            ck_assert_float_eq(tensor_f32(&t)[i],
                               (float)(words[i] & 0x7fffff) / (float)(1 << 23));
        for (int i = 0; i < 2 && doubles; i++)
            ck_assert_double_eq(((double *)t.data)[i],
                                ((words[2 * i] & 0xfffff) * 0x1p32 + words[2 * i + 1]) *
                                    0x1p-52);
        for (int i = 4; i < 7 && !doubles; i++)
            ck_assert(tensor_f32(&t)[i] >= 0 && tensor_f32(&t)[i] < 1 &&
                      tensor_f32(&t)[i] != tensor_f32(&t)[i - 4]);
        tensor_free(&t);
    }
    bed_done(&b);
}
END_TEST

/* Another algorithm and keys of a wrong shape are refused. */
START_TEST(stateless_draws_are_checked)
{
    static const struct {
        int32_t alg;
        int swapped;
    } bad[] = {{2, 0}, {1, 1}};

    for (size_t i = 0; i < 2; i++) {
        struct bed b;
        struct operation *keys;
        struct output seed, shape, alg;
        struct op_builder *p;

        bed_init(&b);
        seed = constant_i32s(b.g, (int32_t[]){1, 2}, 2, NULL);
        keys = unary(b.g, "StatelessRandomGetKeyCounter", seed, NULL).op;
        shape = constant_i32s(b.g, (int32_t[]){3}, 1, NULL);
        alg = constant_i32(b.g, bad[i].alg, NULL);
        p = op_begin(b.g, "StatelessRandomUniformV2", NULL);
        op_input(p, shape);
        op_input(p, (struct output){keys, bad[i].swapped});
        op_input(p, (struct output){keys, !bad[i].swapped});
        op_input(p, alg);
        if (bad[i].swapped) {
            ck_assert_ptr_null(op_finish(p));
            ck_assert_ptr_nonnull(strstr(graph_error(b.g)->msg, "a key of (2)"));
            graph_clear_error(b.g);
        } else {
            ck_assert_int_eq(bed_try(&b, (struct output){op_finish(p), 0}),
                             ERR_UNSUPPORTED);
        }
        bed_done(&b);
    }
}
END_TEST

START_TEST(draws_have_their_distribution)
{
    double mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
    struct tensor t;
    struct bed b;

    bed_init(&b);
    b.key = rng_key_make(3, "draws", "test");
    t = bed_fetch(&b, draw(&b, draws[_i].type, draws[_i].dtype, NULL));
    for (int64_t i = 0; i < DRAWS; i++) {
        low = fmin(low, drawn(&t, i)); /* faster than an assertion each */
        high = fmax(high, drawn(&t, i));
        mean += drawn(&t, i) / DRAWS;
    }
    ck_assert_double_ge(low, draws[_i].low);
    ck_assert_double_le(high, draws[_i].high);
    for (int64_t i = 0; i < DRAWS; i++)
        variance += pow(drawn(&t, i) - mean, 2) / DRAWS;
    /* four standard errors of 40,000 draws */
    ck_assert_double_eq_tol(mean, draws[_i].mean, 4 * sqrt(draws[_i].variance) / 200);
    ck_assert_double_eq_tol(variance, draws[_i].variance, 0.03 * draws[_i].variance);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

START_TEST(draws_are_named_by_key_counter_and_operation)
{
    struct tensor t[5];
    struct bed b;
    struct output x, y;

    bed_init(&b);
    b.key = rng_key_make(3, "draws", "test");
    x = draw(&b, draws[_i].type, draws[_i].dtype, "x");
    y = draw(&b, draws[_i].type, draws[_i].dtype, "y");
    t[0] = bed_fetch(&b, x);
    t[1] = bed_fetch(&b, x);
    t[2] = bed_fetch(&b, y);
    b.counter = 1;
    t[3] = bed_fetch(&b, x);
    b.counter = 0;
    b.key = rng_key_make(4, "draws", "test");
    t[4] = bed_fetch(&b, x);
    ck_assert(tensor_equal(&t[0], &t[1]));
    for (int i = 2; i < 5; i++)
        ck_assert(!tensor_equal(&t[0], &t[i]));
    for (int i = 0; i < 5; i++)
        tensor_free(&t[i]);
    bed_done(&b);
}
END_TEST

/* ---- q r = x, q orthogonal, r upper triangular ---- */

static const struct {
    int64_t m, n;
} matrices[] = {{4, 4}, {6, 3}, {1, 1}};
enum { N_MATRICES = sizeof(matrices) / sizeof(matrices[0]) };

/* of a (rows, k) times b (k, columns) */
static double entry(const struct tensor *a, const struct tensor *b, int64_t i, int64_t j)
{
    int64_t k = b->shape.dim[0];
    double sum = 0;

    for (int64_t l = 0; l < k; l++)
        sum += drawn(a, i * k + l) * drawn(b, l * b->shape.dim[1] + j);
    return sum;
}

static double dot_of_columns(const struct tensor *q, int64_t i, int64_t j)
{
    int64_t width = q->shape.dim[1];
    double sum = 0;

    for (int64_t l = 0; l < q->shape.dim[0]; l++)
        sum += drawn(q, l * width + i) * drawn(q, l * width + j);
    return sum;
}

START_TEST(qr_multiplies_out)
{
    int64_t m = matrices[_i / 2].m, n = matrices[_i / 2].n;
    enum dtype dtype = reals[_i % 2];
    double tolerance = dtype == DT_FLOAT ? 1e-5 : 1e-13;
    struct op_builder *p;
    struct operation *op;
    struct tensor x, q, r;
    struct bed b;

    bed_init(&b);
    b.key = rng_key_make(3, "qr", "test");
    x = bed_fetch(&b, random_normal_of(b.g, "RandomStandardNormal", dtype, &SHAPE(m, n),
                                       0, 1, "x"));
    p = op_begin(b.g, "Qr", NULL);
    op_input(p, constant(b.g, &x, NULL));
    op = op_finish(p);
    q = bed_fetch(&b, (struct output){op, 0});
    r = bed_fetch(&b, (struct output){op, 1});
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            ck_assert_double_eq_tol(entry(&q, &r, i, j), drawn(&x, i * n + j), tolerance);
    for (int64_t i = 0; i < q.shape.dim[1]; i++)
        for (int64_t j = 0; j <= i; j++)
            ck_assert_double_eq_tol(dot_of_columns(&q, i, j), i == j, tolerance);
    for (int64_t i = 0; i < r.shape.dim[0]; i++)
        for (int64_t j = 0; j < i && j < n; j++)
            ck_assert_double_eq(drawn(&r, i * n + j), 0);
    tensor_free(&x);
    tensor_free(&q);
    tensor_free(&r);
    bed_done(&b);
}
END_TEST

START_TEST(wide_qr_is_refused)
{
    struct bed b;

    bed_init(&b);
    ck_assert_int_eq(
        bed_try(&b, unary(b.g, "Qr", zeros(b.g, DT_FLOAT, &SHAPE(3, 6), NULL), "wide")),
        ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(b.err.msg, "wide: "));
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("kernels_state");
    TCase *tc = tcase_create("kernels_state");

    tcase_add_loop_test(tc, assignments_change_the_variable, 0, 2);
    tcase_add_test(tc, a_variable_tells_whether_it_has_a_value);
    tcase_add_test(tc, a_value_of_another_shape_is_refused);
    tcase_add_loop_test(tc, optimisers_step_as_their_formulas_say, 0, 2 * N_STEPS);
    tcase_add_loop_test(tc, a_gradient_of_another_shape_is_refused, 0, N_STEPS);
    tcase_add_test(tc, stateless_draws_are_tensorflows);
    tcase_add_test(tc, stateless_draws_are_checked);
    tcase_add_loop_test(tc, draws_have_their_distribution, 0, N_DRAWS);
    tcase_add_loop_test(tc, draws_are_named_by_key_counter_and_operation, 0, N_DRAWS);
    tcase_add_loop_test(tc, qr_multiplies_out, 0, 2 * N_MATRICES);
    tcase_add_test(tc, wide_qr_is_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
