/* Distributions and losses of policy.h, and products row by row, against their formulas
 * in double: values, and gradients against differences. */
#include "agent/nn/policy.h"

#include "agent/nn/nn.h"
#include "tests/agent/metagraph_help.h"
#include "tests/agent/session_help.h"
#include "tests/support/metagraph_check.h"
#include "tests/support/test_main.h"

enum { ROWS = 4, WIDE = 12, MAX_INPUTS = 3 };

#define LOW  -1.5
#define HIGH 2.5

/* One function: the number of columns of its inputs, the range of their numbers, and the
 * inputs for which it has a gradient. */
struct row {
    const char *name;
    int width[MAX_INPUTS], outputs; /* columns */
    double low[MAX_INPUTS], high[MAX_INPUTS];
    unsigned differentiable; /* bit i: input i */
    struct output (*build)(struct graph *g, const struct output *in);
    void (*want)(const double *const *in, double *ret); /* expected values of one row */
    double tolerance;
};

static double log_sum_exp(const double *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += exp(x[i]);
    return log(sum);
}

/* ---- choices: the entropy of those that are not forbidden ---- */

enum { CHOICES = 5 };

/* Choice 1 is forbidden in every row. */
static struct output build_masked(struct graph *g, const struct output *in)
{
    static const float allowed[CHOICES] = {1, 0, 1, 1, 1};
    const struct tensor t = tensor_const_view(DT_FLOAT, SHAPE(1, CHOICES), allowed);
    struct output log_p = forbid_choices(g, in[0], constant(g, &t, NULL));

    log_p = unary(g, "LogSoftmax", log_p, NULL);
    log_p = binary(g, "Mul", unary(g, "Exp", log_p, NULL), log_p, NULL);
    return unary(g, "Neg", reduce(g, "Sum", log_p, (int32_t[]){1}, 1, 1, NULL), NULL);
}

static void want_masked(const double *const *in, double *ret)
{
    const double open[] = {in[0][0], in[0][2], in[0][3], in[0][4]};

    ret[0] = 0;
    for (int i = 0; i < CHOICES - 1; i++) {
        const double log_p = open[i] - log_sum_exp(open, CHOICES - 1);

        ret[0] -= exp(log_p) * log_p;
    }
}

/* ---- normal: mean, log_std, x ---- */

enum { ACTION = 3 };

static double log_normal(double z, double log_std)
{
    return -z * z / 2 - log_std - log(2 * acos(-1)) / 2;
}

static struct output build_normal(struct graph *g, const struct output *in)
{
    return normal_log_prob(g, in[0], in[1], in[2]);
}

static void want_normal(const double *const *in, double *ret)
{
    ret[0] = 0;
    for (int i = 0; i < ACTION; i++)
        ret[0] += log_normal((in[2][i] - in[0][i]) / exp(in[1][i]), in[1][i]);
}

static struct output build_normal_entropy(struct graph *g, const struct output *in)
{
    return normal_entropy(g, in[0], in[1]);
}

static void want_normal_entropy(const double *const *in, double *ret)
{
    ret[0] = 0;
    for (int i = 0; i < ACTION; i++)
        ret[0] += in[1][i] + (1 + log(2 * acos(-1))) / 2;
}

/* log(half (1 - tanh(x)^2)), in the one form that holds for all x: with exp(-2 |x|). */
static double log_slope(double x)
{
    const double far = exp(-2 * fabs(x));

    return log((HIGH - LOW) / 2) + log(4) - 2 * fabs(x) - 2 * log1p(far);
}

/* The noise is replaced by the third input (feed_noise). */
static struct squashed_normal squashed(struct graph *g, const struct output *in)
{
    return squashed_normal(g, in[0], in[1], LOW, HIGH);
}

static struct output build_squashed_action(struct graph *g, const struct output *in)
{
    return squashed(g, in).action;
}

static void want_squashed_action(const double *const *in, double *ret)
{
    for (int i = 0; i < ACTION; i++)
        ret[i] = (LOW + HIGH) / 2 +
                 (HIGH - LOW) / 2 * tanh(in[0][i] + exp(in[1][i]) * in[2][i]);
}

static struct output build_squashed_log_prob(struct graph *g, const struct output *in)
{
    return squashed(g, in).log_prob;
}

static void want_squashed_log_prob(const double *const *in, double *ret)
{
    ret[0] = 0;
    for (int i = 0; i < ACTION; i++)
        ret[0] += log_normal(in[2][i], in[1][i]) -
                  log_slope(in[0][i] + exp(in[1][i]) * in[2][i]);
}

/* ---- losses ---- */

static struct output build_huber(struct graph *g, const struct output *in)
{
    return huber(g, in[0], 1.25);
}

static void want_huber(const double *const *in, double *ret)
{
    for (int i = 0; i < ACTION; i++)
        ret[i] = fabs(in[0][i]) <= 1.25 ? in[0][i] * in[0][i] / 2
                                        : 1.25 * (fabs(in[0][i]) - 1.25 / 2);
}

/* PPO's: min(ratio A, clip(ratio) A) */
static struct output build_ppo(struct graph *g, const struct output *in)
{
    struct output clipped = clip_by_value(g, in[0], 0.8, 1.2, NULL);

    clipped = binary(g, "Mul", clipped, in[1], NULL);
    return binary(g, "Minimum", binary(g, "Mul", in[0], in[1], NULL), clipped, NULL);
}

static void want_ppo(const double *const *in, double *ret)
{
    for (int i = 0; i < ACTION; i++)
        ret[i] = fmin(in[0][i] * in[1][i], fmin(fmax(in[0][i], 0.8), 1.2) * in[1][i]);
}

static const struct row table[] = {
    {"forbid_choices", {CHOICES}, 1, {-3}, {3}, 1, build_masked, want_masked, 2e-6},
    {"normal_log_prob",
     {ACTION, ACTION, ACTION},
     1,
     {-2, -1, -2},
     {2, 1, 2},
     7,
     build_normal,
     want_normal,
     2e-5},
    {"normal_entropy",
     {ACTION, ACTION},
     1,
     {-2, -1},
     {2, 1},
     2,
     build_normal_entropy,
     want_normal_entropy,
     2e-6},
    {"squashed_normal, action",
     {ACTION, ACTION, ACTION},
     ACTION,
     {-2, -1, -2},
     {2, 0, 2},
     3,
     build_squashed_action,
     want_squashed_action,
     2e-6},
    {"squashed_normal, log_prob",
     {ACTION, ACTION, ACTION},
     1,
     {-2, -1, -2},
     {2, 0, 2},
     3,
     build_squashed_log_prob,
     want_squashed_log_prob,
     5e-6},
    /* tanh of these numbers is rounded to 1 */
    {"squashed_normal, far",
     {ACTION, ACTION, ACTION},
     1,
     {12, -1, -2},
     {60, 0, 2},
     3,
     build_squashed_log_prob,
     want_squashed_log_prob,
     3e-5},
    {"squashed_normal, far below",
     {ACTION, ACTION, ACTION},
     1,
     {-60, -1, -2},
     {-12, 0, 2},
     3,
     build_squashed_log_prob,
     want_squashed_log_prob,
     3e-5},
    {"huber", {ACTION}, ACTION, {-3}, {3}, 1, build_huber, want_huber, 2e-6},
    {"PPO", {ACTION, ACTION}, ACTION, {0.5, -2}, {1.5, 2}, 1, build_ppo, want_ppo, 2e-6},
};

/* ---- one function as a graph ---- */

struct trial {
    const struct row *row;
    struct bed b;
    float in[MAX_INPUTS][ROWS * WIDE], weight[ROWS * WIDE];
    double x[MAX_INPUTS][ROWS * WIDE];
    struct output input[MAX_INPUTS], y, loss;
};

static float drawn(int i, double low, double high)
{
    const double u = (double)((unsigned)i * 7919u % 2003u) / 2003;

    return (float)(low + u * (high - low));
}

/* The noise of squashed_normal is the only random op; the third input is fed for it. */
static void feed_noise(struct trial *t)
{
    for (int i = 0; i < graph_n_operations(t->b.g); i++) {
        struct operation *op = graph_operation_at(t->b.g, i);

        if (strcmp(operation_type(op), "RandomStandardNormal") == 0)
            t->b.feeds[2].output = (struct output){op, 0};
    }
}

static void trial_init(struct trial *t, const struct row *row)
{
    struct graph *g;

    *t = (struct trial){.row = row};
    bed_init(&t->b);
    g = t->b.g;
    for (int i = 0; i < MAX_INPUTS && row->width[i] > 0; i++) {
        const int w = row->width[i];

        for (int e = 0; e < ROWS * w; e++)
            t->x[i][e] = (double)(t->in[i][e] =
                                      drawn(1000 * i + e + 1, row->low[i], row->high[i]));
        t->input[i] = bed_input(&t->b, SHAPE(-1, w), t->in[i], SHAPE(ROWS, w));
    }
    t->y = row->build(g, t->input);
    feed_noise(t);
    for (int e = 0; e < ROWS * row->outputs; e++)
        t->weight[e] = drawn(5000 + e, -1, 1);
    t->loss =
        bed_input(&t->b, SHAPE(-1, row->outputs), t->weight, SHAPE(ROWS, row->outputs));
    t->loss = binary(g, "Mul", t->loss, t->y, NULL);
    t->loss = reduce(g, "Sum", t->loss, NULL, 0, 0, NULL);
}

static void want_row(const struct trial *t, int r, double *ret)
{
    const double *in[MAX_INPUTS];

    for (int i = 0; i < MAX_INPUTS; i++)
        in[i] = t->x[i] + r * t->row->width[i];
    t->row->want(in, ret);
}

static double want_loss(const struct trial *t)
{
    double loss = 0, y[WIDE];

    for (int r = 0; r < ROWS; r++) {
        want_row(t, r, y);
        for (int k = 0; k < t->row->outputs; k++)
            loss += (double)t->weight[r * t->row->outputs + k] * y[k];
    }
    return loss;
}

START_TEST(values_follow_the_formulas)
{
    const struct row *row = &table[_i];
    struct tensor got;
    struct trial t;

    trial_init(&t, row);
    got = bed_fetch(&t.b, t.y);
    ck_assert_int_eq(tensor_elements(&got), ROWS * row->outputs);
    for (int r = 0; r < ROWS; r++) {
        double y[WIDE];

        want_row(&t, r, y);
        for (int k = 0; k < row->outputs; k++) {
            const double is = (double)tensor_f32(&got)[r * row->outputs + k];

            ck_assert_msg(fabs(is - y[k]) <= row->tolerance * (1 + fabs(y[k])),
                          "%s: %.9g, not %.9g", row->name, is, y[k]);
        }
    }
    tensor_free(&got);
    bed_done(&t.b);
}
END_TEST

static double difference(struct trial *t, double *at)
{
    const double was = *at, step = 1e-6;
    double up, down;

    *at = was + step;
    up = want_loss(t);
    *at = was - step;
    down = want_loss(t);
    *at = was;
    return (up - down) / (2 * step);
}

START_TEST(gradients_are_differences)
{
    const struct row *row = &table[_i];
    struct trial t;

    trial_init(&t, row);
    for (int i = 0; i < MAX_INPUTS; i++) {
        struct output d;
        struct tensor got;

        if ((row->differentiable >> i & 1) == 0)
            continue;
        ck_assert_int_eq(graph_gradients(t.b.g, &t.loss, 1, &t.input[i], 1, NULL, NULL, 0,
                                         &d, &t.b.err),
                         0);
        got = bed_fetch(&t.b, d);
        for (int e = 0; e < ROWS * row->width[i]; e++) {
            const double want = difference(&t, &t.x[i][e]);
            const double is = (double)tensor_f32(&got)[e];

            ck_assert_msg(fabs(is - want) <= 1e-5 + 2 * row->tolerance * (1 + fabs(want)),
                          "%s: input %d, element %d: %.9g, not %.9g", row->name, i, e, is,
                          want);
        }
        tensor_free(&got);
    }
    bed_done(&t.b);
}
END_TEST

/* TensorFlow would accept the exported file, with the gradients. */
START_TEST(exported_graphs_pass_the_check)
{
    struct trial t;
    struct output grads[MAX_INPUTS];
    struct wbuf file;
    struct err err = {0};
    size_t n = 0;

    trial_init(&t, &table[_i]);
    while (n < MAX_INPUTS && table[_i].width[n] > 0)
        n++;
    ck_assert_int_eq(
        graph_gradients(t.b.g, &t.loss, 1, t.input, n, NULL, NULL, 0, grads, &t.b.err),
        0);
    file = export_of(t.b.g, NULL);
    ck_assert_msg(metagraph_check(file.data, file.len, NULL, 0, &err) == 0, "%s: %s",
                  table[_i].name, err.msg);
    wbuf_done(&file);
    bed_done(&t.b);
}
END_TEST

/* ---- draws ---- */

enum { MANY = 4000 };

/* Without a feed, the noise is standard normal; it depends on the counter alone. */
START_TEST(noise_is_drawn_by_key_and_counter)
{
    static float mean[MANY * ACTION], log_std[MANY * ACTION];
    struct squashed_normal s;
    struct tensor first, again, other;
    struct output in[2];
    struct bed b;
    double sum = 0, squares = 0;

    bed_init(&b);
    b.key = rng_key_make(1, "agent_0", "stage learn");
    in[0] = bed_input(&b, SHAPE(-1, ACTION), mean, SHAPE(MANY, ACTION));
    in[1] = bed_input(&b, SHAPE(-1, ACTION), log_std, SHAPE(MANY, ACTION));
    s = squashed(b.g, in);
    first = bed_fetch(&b, s.noise);
    again = bed_fetch(&b, s.noise);
    b.counter = 1;
    other = bed_fetch(&b, s.noise);
    ck_assert_mem_eq(first.data, again.data, sizeof(mean));
    ck_assert_mem_ne(first.data, other.data, sizeof(mean));
    for (int i = 0; i < MANY * ACTION; i++) {
        sum += (double)tensor_f32(&first)[i];
        squares += (double)tensor_f32(&first)[i] * (double)tensor_f32(&first)[i];
    }
    ck_assert_double_lt(fabs(sum) / sqrt(MANY * ACTION), 4); /* standard errors */
    ck_assert_double_lt(fabs(squares / (MANY * ACTION) - 1), 0.06);
    tensor_free(&first);
    tensor_free(&again);
    tensor_free(&other);
    bed_done(&b);
}
END_TEST

static Suite *make_suite(void)
{
    const int n = sizeof(table) / sizeof(table[0]);
    Suite *s = suite_create("policy");
    TCase *tc = tcase_create("policy");

    tcase_add_loop_test(tc, values_follow_the_formulas, 0, n);
    tcase_add_loop_test(tc, gradients_are_differences, 0, n);
    tcase_add_loop_test(tc, exported_graphs_pass_the_check, 0, n);
    tcase_add_test(tc, noise_is_drawn_by_key_and_counter);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
