/* Random ops: those that are functions of a seed against TensorFlow's numbers, the others
 * against their distributions. */
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#define MAX_INPUTS 8

/* An operation with inputs that are constants. */
static struct output build(struct bed *b, const char *type, const struct output *in,
                           int n, enum dtype dtype)
{
    struct op_builder *p = op_begin(b->g, type, NULL);

    for (int i = 0; i < n; i++)
        op_input(p, in[i]);
    if (dtype != DT_INVALID)
        op_attr_type(p, "dtype", dtype);
    return (struct output){op_finish(p), 0};
}

static struct output number(struct bed *b, enum dtype dtype, double value)
{
    return constant_like(b->g, dtype, value, NULL);
}

static struct output vector(struct bed *b, const int32_t *values, size_t n)
{
    return constant_i32s(b->g, values, n, NULL);
}

static double element(const struct tensor *t, int64_t i)
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

/* ---- functions of a seed: what TensorFlow 2.21 gives for the seed [1, 2] ---- */

static const struct {
    const char *type;
    enum dtype dtype;
    int n;
    double low, high; /* of integers in a range */
    double want[9];
} seeded[] = {
    {"StatelessRandomUniform",
     DT_FLOAT,
     3,
     0,
     0,
     {0.8440604209899902, 0.19204533100128174, 0.9962232112884521}},
    {"StatelessRandomUniform",
     DT_DOUBLE,
     3,
     0,
     0,
     {0.7524837538451801, 0.9697857725627486, 0.17592233912897481}},
    {"StatelessRandomNormal",
     DT_FLOAT,
     6,
     0,
     0,
     {0.544110119342804, 0.20738030970096588, 0.0735643208026886, 0.04643455147743225,
      -1.301589846611023, -0.9538565278053284}},
    {"StatelessRandomNormal",
     DT_DOUBLE,
     6,
     0,
     0,
     {-0.1423118100189212, 0.7406072461585091, -1.469047669443883, 1.147747453689489,
      -0.7218813856153005, -0.898217540706226}},
    {"StatelessTruncatedNormal",
     DT_FLOAT,
     9,
     0,
     0,
     {0.544110119342804, 0.20738030970096588, 0.0735643208026886, 0.04643455147743225,
      0.16820591688156128, -1.6850333213806152, 0.24202857911586761, 1.703450322151184,
      1.1060677766799927}},
    {"StatelessTruncatedNormal",
     DT_DOUBLE,
     9,
     0,
     0,
     {-0.1423118100189212, 0.7406072461585091, -0.552387756244845, -0.734450092480207,
      -0.39842023956588357, 0.1899654040344941, -1.1075957112525743, -0.8609937252601593,
      -0.7872817214842733}},
    {"StatelessRandomUniformInt", DT_INT32, 6, -5, 100, {35, 24, 49, 79, 17, 50}},
    {"StatelessRandomUniformInt",
     DT_INT64,
     6,
     -5,
     1e12,
     {146243290039, 637750006048, 318077103687, 515994380383, 327611604148,
      779563676434}},
    {"StatelessRandomUniformFullInt",
     DT_INT32,
     4,
     0,
     0,
     {1105988140, 1738052849, -335576002, 370444179}},
    {"StatelessRandomUniformFullInt", DT_INT64, 1, 0, 0, {7464880146280614444.0}},
};
enum { N_SEEDED = sizeof(seeded) / sizeof(seeded[0]) };

static void compare_seeded(struct bed *b, struct output x, int row)
{
    struct tensor t = bed_fetch(b, x);
    const double limit = seeded[row].dtype == DT_FLOAT    ? 1e-6
                         : seeded[row].dtype == DT_DOUBLE ? 1e-14
                                                          : 0;

    ck_assert_int_eq(t.dtype, seeded[row].dtype);
    for (int i = 0; i < seeded[row].n; i++)
        ck_assert_msg(fabs(element(&t, i) - seeded[row].want[i]) <= limit,
                      "%s[%d] is %.17g, not %.17g", seeded[row].type, i, element(&t, i),
                      seeded[row].want[i]);
    tensor_free(&t);
}

/* Both forms: a seed, and the key, counter and algorithm that follow from it. */
START_TEST(stateless_numbers_are_tensorflows)
{
    const int is_range = seeded[_i].high != 0;
    struct output in[MAX_INPUTS], keys, seed;
    enum dtype dtype = is_range ? DT_INVALID : seeded[_i].dtype;
    char type[64];
    struct bed b;
    int n = 0;

    bed_init(&b);
    seed = vector(&b, (int32_t[]){1, 2}, 2);
    in[n++] = vector(&b, (int32_t[]){seeded[_i].n}, 1);
    in[n++] = seed;
    for (int k = 0; is_range && k < 2; k++)
        in[n++] = number(&b, seeded[_i].dtype, k ? seeded[_i].high : seeded[_i].low);
    compare_seeded(&b, build(&b, seeded[_i].type, in, n, dtype), _i);
    keys = unary(b.g, "StatelessRandomGetKeyCounterAlg", seed, NULL);
    n = 1;
    for (int k = 0; k < 3; k++)
        in[n++] = (struct output){keys.op, k};
    for (int k = 0; is_range && k < 2; k++)
        in[n++] = number(&b, seeded[_i].dtype, k ? seeded[_i].high : seeded[_i].low);
    (void)snprintf(type, sizeof(type), "%sV2", seeded[_i].type);
    compare_seeded(&b, build(&b, type, in, n, dtype), _i);
    bed_done(&b);
}
END_TEST

START_TEST(the_algorithm_is_philox)
{
    struct tensor t;
    struct bed b;

    bed_init(&b);
    t = bed_fetch(&b, build(&b, "StatelessRandomGetAlg", NULL, 0, DT_INVALID));
    ck_assert_int_eq(*(const int32_t *)t.data, 1);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

START_TEST(stateless_classes_are_tensorflows)
{
    static const int64_t want[20] = {2, 2, 1, 2, 2, 2, 2, 1, 2, 2,
                                     0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
    float logits[6] = {0, 1, 2, 3, 1, 0};
    struct tensor value = tensor_view(DT_FLOAT, SHAPE(2, 3), logits), t;
    struct output in[3];
    struct bed b;

    bed_init(&b);
    in[0] = constant(b.g, &value, NULL);
    in[1] = number(&b, DT_INT32, 10);
    in[2] = vector(&b, (int32_t[]){1, 2}, 2);
    t = bed_fetch(&b, build(&b, "StatelessMultinomial", in, 3, DT_INVALID));
    ck_assert_mem_eq(t.data, want, sizeof(want));
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* ---- distributions ---- */

enum { DRAWS = 20000 };

/* Multinomial: counts of classes against their probabilities. The bound of chi-square of two
 * degrees is passed by chance once in 10,000; the draws are always the same. */
START_TEST(classes_are_drawn_by_their_weights)
{
    float logits[8] = {0, 1, -INFINITY, 2, 5, 5, 5, NAN};
    const double weight[8] = {1, exp(1), 0, exp(2), 1, 1, 1, 0};
    struct tensor value = tensor_view(DT_FLOAT, SHAPE(2, 4), logits), t;
    struct output in[2];
    struct bed b;

    bed_init(&b);
    b.key = rng_key_make(5, "classes", "test");
    in[0] = constant(b.g, &value, NULL);
    in[1] = number(&b, DT_INT32, DRAWS);
    t = bed_fetch(&b, build(&b, "Multinomial", in, 2, DT_INVALID));
    ck_assert_int_eq(t.dtype, DT_INT64);
    for (int row = 0; row < 2; row++) {
        double counts[4] = {0}, sum = 0, chi = 0;

        for (int i = 0; i < DRAWS; i++)
            counts[((const int64_t *)t.data)[row * DRAWS + i]]++;
        for (int k = 0; k < 4; k++)
            sum += weight[4 * row + k];
        for (int k = 0; k < 4; k++) {
            const double want = DRAWS * weight[4 * row + k] / sum;

            ck_assert(want > 0 || counts[k] == 0);
            chi += want > 0 ? (counts[k] - want) * (counts[k] - want) / want : 0;
        }
        ck_assert_msg(chi < 18.4, "row %d: %g", row, chi);
    }
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* Every row is there once, whole; where the first row comes to is uniform over 2,000 keys. */
START_TEST(rows_are_shuffled)
{
    int32_t rows[10];
    struct tensor value = tensor_view(DT_INT32, SHAPE(5, 2), rows), t;
    double counts[5] = {0}, chi = 0;
    struct output x;
    struct bed b;

    for (int i = 0; i < 10; i++)
        rows[i] = 10 * (i / 2) + i % 2;
    bed_init(&b);
    x = constant(b.g, &value, NULL);
    x = build(&b, "RandomShuffle", &x, 1, DT_INVALID);
    for (int k = 0; k < 2000; k++) {
        int seen = 0;

        b.key = rng_key_make((uint64_t)k, "shuffle", "test");
        t = bed_fetch(&b, x);
        for (int i = 0; i < 5; i++) {
            const int32_t *row = (const int32_t *)t.data + 2 * i;

            ck_assert_int_eq(row[1], row[0] + 1);
            seen |= 1 << row[0] / 10;
            counts[i] += row[0] == 0;
        }
        ck_assert_int_eq(seen, 31);
        tensor_free(&t);
    }
    for (int i = 0; i < 5; i++)
        chi += (counts[i] - 400) * (counts[i] - 400) / 400;
    ck_assert_msg(chi < 23.5, "%g", chi);
    bed_done(&b);
}
END_TEST

/* mean and variance from textbooks */
static const struct {
    const char *type;
    enum dtype dtype;
    int n;
    double parameters[4];
    double mean, variance, low, high;
} laws[] = {
    {"RandomGamma", DT_FLOAT, 1, {2.5}, 2.5, 2.5, 0, 40},
    {"RandomGamma", DT_DOUBLE, 1, {0.3}, 0.3, 0.3, 0, 40},
    {"RandomGamma", DT_DOUBLE, 1, {100}, 100, 100, 20, 300},
    {"RandomPoisson", DT_FLOAT, 1, {3}, 3, 3, 0, 40},
    {"RandomPoisson", DT_DOUBLE, 1, {40}, 40, 40, 0, 200},
    {"RandomPoissonV2", DT_INT64, 1, {0.5}, 0.5, 0.5, 0, 40},
    {"RandomPoissonV2", DT_INT32, 1, {12}, 12, 12, 0, 60},
    /* cut at two deviations on both sides; on one side at the mean; far in a tail */
    {"ParameterizedTruncatedNormal",
     DT_DOUBLE,
     4,
     {1, 2, -3, 5},
     1,
     4 * 0.7737413,
     -3,
     5},
    {"ParameterizedTruncatedNormal",
     DT_FLOAT,
     4,
     {0, 1, 0, 1e6},
     0.7978846,
     0.3633802,
     0,
     9},
    {"ParameterizedTruncatedNormal",
     DT_DOUBLE,
     4,
     {0, 1, -1e9, -6},
     -6.1584826,
     0.0239876,
     -12,
     -6},
    {"ParameterizedTruncatedNormal",
     DT_DOUBLE,
     4,
     {0, 1, 0.5, 0.75},
     0.6217529,
     0.0051912,
     0.5,
     0.75},
};
enum { N_LAWS = sizeof(laws) / sizeof(laws[0]) };

static struct output draw_law(struct bed *b, int row, const char *name)
{
    const int is_count = strcmp(laws[row].type, "RandomPoissonV2") == 0;
    const enum dtype of = is_count ? DT_DOUBLE : laws[row].dtype;
    struct output in[MAX_INPUTS];
    struct op_builder *p;

    in[0] = vector(b, (int32_t[]){DRAWS}, 1);
    for (int k = 0; k < laws[row].n; k++)
        in[1 + k] = number(b, of, laws[row].parameters[k]);
    p = op_begin(b->g, laws[row].type, name);
    for (int k = 0; k < 1 + laws[row].n; k++)
        op_input(p, in[k]);
    if (is_count)
        op_attr_type(p, "dtype", laws[row].dtype);
    return (struct output){op_finish(p), 0};
}

/* The mean of gamma numbers is alpha, so that of their derivatives by alpha is 1. */
START_TEST(gamma_numbers_move_with_alpha)
{
    for (int k = 0; k < 3; k++) {
        const float alphas[] = {0.4f, 2.5f, 30};
        float alpha[2] = {alphas[k], alphas[k]};
        struct output x, y, d;
        struct tensor t;
        struct bed b;

        bed_init(&b);
        x = bed_input(&b, SHAPE(-1), alpha, SHAPE(2));
        y = binary(b.g, "RandomGamma", vector(&b, (int32_t[]){4000}, 1), x, NULL);
        ck_assert_msg(graph_gradients(b.g, &y, 1, &x, 1, NULL, NULL, 0, &d, &b.err) == 0,
                      "%s", b.err.msg);
        t = bed_fetch(&b, d);
        ck_assert(shape_equal(&t.shape, &SHAPE(2)));
        for (int i = 0; i < 2; i++)
            ck_assert_float_eq_tol(tensor_f32(&t)[i] / 4000, 1, 0.06f);
        tensor_free(&t);
        bed_done(&b);
    }
}
END_TEST

START_TEST(laws_have_their_moments)
{
    double mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
    struct tensor t;
    struct bed b;

    bed_init(&b);
    b.key = rng_key_make(3, "laws", "test");
    t = bed_fetch(&b, draw_law(&b, _i, NULL));
    ck_assert_int_eq(tensor_elements(&t), DRAWS);
    for (int i = 0; i < DRAWS; i++) {
        low = fmin(low, element(&t, i));
        high = fmax(high, element(&t, i));
        mean += element(&t, i) / DRAWS;
    }
    for (int i = 0; i < DRAWS; i++)
        variance += pow(element(&t, i) - mean, 2) / DRAWS;
    ck_assert_double_ge(low, laws[_i].low);
    ck_assert_double_le(high, laws[_i].high);
    /* four standard errors */
    ck_assert_double_eq_tol(mean, laws[_i].mean, 4 * sqrt(laws[_i].variance / DRAWS));
    ck_assert_double_eq_tol(variance, laws[_i].variance, 0.08 * laws[_i].variance);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* The numbers are those of the key, and another operation has others. */
START_TEST(laws_are_drawn_by_key_and_name)
{
    struct tensor t[3];
    struct bed b;
    struct output x, y;

    bed_init(&b);
    b.key = rng_key_make(3, "laws", "test");
    x = draw_law(&b, _i, "x");
    y = draw_law(&b, _i, "y");
    t[0] = bed_fetch(&b, x);
    t[1] = bed_fetch(&b, x);
    t[2] = bed_fetch(&b, y);
    ck_assert(tensor_equal(&t[0], &t[1]));
    ck_assert(!tensor_equal(&t[0], &t[2]));
    for (int i = 0; i < 3; i++)
        tensor_free(&t[i]);
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("random");
    TCase *tc = tcase_create("random");

    tcase_add_loop_test(tc, stateless_numbers_are_tensorflows, 0, N_SEEDED);
    tcase_add_test(tc, the_algorithm_is_philox);
    tcase_add_test(tc, stateless_classes_are_tensorflows);
    tcase_add_test(tc, classes_are_drawn_by_their_weights);
    tcase_add_test(tc, rows_are_shuffled);
    tcase_add_test(tc, gamma_numbers_move_with_alpha);
    tcase_add_loop_test(tc, laws_have_their_moments, 0, N_LAWS);
    tcase_add_loop_test(tc, laws_are_drawn_by_key_and_name, 0, N_LAWS);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
