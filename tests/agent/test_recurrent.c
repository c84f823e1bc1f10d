/* Cells and sequences against the formulas of recurrent.h in double; gradients against
 * differences; resets; one step at a time against all steps at once. */
#include "agent/nn/recurrent.h"

#include "agent/nn/nn.h"
#include "agent/saver/metagraph_export.h"
#include "tests/agent/metagraph_help.h"
#include "tests/agent/session_help.h"
#include "tests/support/metagraph_check.h"
#include "tests/support/test_main.h"

enum {
    INPUTS = 3,
    UNITS = 4,
    ROWS = 5,
    STEPS = 6,
    CARRY = 2 * UNITS, /* at most */
    MAX_PARAMETERS = 4,
    MAX_NUMBERS = (INPUTS + UNITS) * 4 * UNITS,
};

static const enum cell_type types[] = {CELL_GRU, CELL_LSTM};

/* Different numbers between -1 and 1. */
static float number(int i)
{
    return (float)((unsigned)i * 7919u % 2003u) / 1001.0f - 1.0f;
}

/* ---- the formulas, in double ---- */

struct model {
    enum cell_type type;
    double parameter[MAX_PARAMETERS][MAX_NUMBERS]; /* as recurrent.h lists them */
    double x[STEPS][ROWS][INPUTS], first[STEPS][ROWS], carry[ROWS][CARRY];
    double weight[STEPS * ROWS * UNITS], carry_weight[ROWS * CARRY]; /* in the loss */
    double y[STEPS][ROWS][UNITS], last[ROWS][CARRY];
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* sum_i v_i w[row0 + i][column] of a matrix with n columns. */
static double times(const double *v, int n_v, const double *w, int row0, int n,
                    int column)
{
    double sum = 0;

    for (int i = 0; i < n_v; i++)
        sum += v[i] * w[(row0 + i) * n + column];
    return sum;
}

static void torch_step(const struct model *m, const double *x, double *h)
{
    enum { N = 3 * UNITS };
    const double *wi = m->parameter[0], *wh = m->parameter[1];
    const double *bi = m->parameter[2], *bh = m->parameter[3];
    double next[UNITS];

    for (int k = 0; k < UNITS; k++) {
        double in[3], back[3], r, z, n;

        for (int gate = 0; gate < 3; gate++) {
            const int c = gate * UNITS + k;

            in[gate] = times(x, INPUTS, wi, 0, N, c) + bi[c];
            back[gate] = times(h, UNITS, wh, 0, N, c) + bh[c];
        }
        r = sigmoid(in[0] + back[0]);
        z = sigmoid(in[1] + back[1]);
        n = tanh(in[2] + r * back[2]);
        next[k] = (1 - z) * n + z * h[k];
    }
    memcpy(h, next, sizeof(next));
}

static double joined(const double *x, const double *h, const double *w, const double *b,
                     int n, int column)
{
    return times(x, INPUTS, w, 0, n, column) + times(h, UNITS, w, INPUTS, n, column) +
           b[column];
}

static void lstm_step(const struct model *m, const double *x, double *carry)
{
    double *c = carry, *h = carry + UNITS, next[UNITS];

    for (int k = 0; k < UNITS; k++) {
        double gate[4]; /* i, j, f, o */

        for (int i = 0; i < 4; i++)
            gate[i] =
                joined(x, h, m->parameter[0], m->parameter[1], 4 * UNITS, i * UNITS + k);
        c[k] = c[k] * sigmoid(gate[2] + 1) + sigmoid(gate[0]) * tanh(gate[1]);
        next[k] = tanh(c[k]) * sigmoid(gate[3]);
    }
    memcpy(h, next, sizeof(next));
}

/* Runs the sequence; the loss is a weighted sum of all outputs and the last carry. */
static double play(struct model *m)
{
    const int width = (int)cell_carry_width(m->type, UNITS);
    double loss = 0;

    memcpy(m->last, m->carry, sizeof(m->last));
    for (int t = 0; t < STEPS; t++)
        for (int r = 0; r < ROWS; r++) {
            double *carry = m->last[r];

            for (int k = 0; k < width; k++)
                carry[k] *= 1 - m->first[t][r];
            if (m->type == CELL_GRU)
                torch_step(m, m->x[t][r], carry);
            else
                lstm_step(m, m->x[t][r], carry);
            memcpy(m->y[t][r], carry + width - UNITS, sizeof(m->y[t][r]));
            for (int k = 0; k < UNITS; k++)
                loss += m->weight[(t * ROWS + r) * UNITS + k] * m->y[t][r][k];
        }
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < width; k++)
            loss += m->carry_weight[r * width + k] * m->last[r][k];
    return loss;
}

/* ---- the same as a graph ---- */

struct net {
    struct bed b;
    struct model m;
    struct cell cell;
    int width; /* of the carry */
    int n_parameters;
    struct variable *parameter[MAX_PARAMETERS];
    float x[STEPS * ROWS * INPUTS], first[STEPS * ROWS], carry[ROWS * CARRY];
    float weight[STEPS * ROWS * UNITS], carry_weight[ROWS * CARRY];
    struct output in_x, in_first, in_carry, y, last, loss;
};

static void set_parameters(struct net *n)
{
    for (int i = 0; i < n->n_parameters; i++) {
        const struct shape shape = n->parameter[i]->shape;
        float v[MAX_NUMBERS];
        struct tensor t = tensor_view(DT_FLOAT, shape, v);

        for (int k = 0; k < shape_elements(&shape); k++)
            n->m.parameter[i][k] = (double)(v[k] = number(1000 * i + k));
        ck_assert_int_eq(session_variable_set(n->b.s, n->parameter[i], &t, &n->b.err), 0);
    }
}

static void fill(float *x, double *as_double, int n, int from)
{
    for (int i = 0; i < n; i++)
        as_double[i] = (double)(x[i] = number(from + i));
}

static void fill_inputs(struct net *n)
{
    fill(n->x, &n->m.x[0][0][0], STEPS * ROWS * INPUTS, 100);
    fill(n->weight, n->m.weight, STEPS * ROWS * UNITS, 5000);
    fill(n->carry_weight, n->m.carry_weight, ROWS * n->width, 7000);
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < n->width; k++)
            n->m.carry[r][k] =
                (double)(n->carry[r * n->width + k] = number(300 + r * CARRY + k));
    /* row 0 is never reset, row 1 at once, row 2 twice; row 4 is reset by half */
    n->first[0 * ROWS + 1] = n->first[2 * ROWS + 2] = n->first[5 * ROWS + 2] = 1;
    n->first[3 * ROWS + 4] = 0.5f;
    for (int t = 0; t < STEPS; t++)
        for (int r = 0; r < ROWS; r++)
            n->m.first[t][r] = (double)n->first[t * ROWS + r];
}

static void net_init(struct net *n, enum cell_type type)
{
    const int64_t all = (int64_t)STEPS * ROWS;
    struct graph *g;
    struct output y, last;

    *n = (struct net){.m.type = type, .width = (int)cell_carry_width(type, UNITS)};
    bed_init(&n->b);
    g = n->b.g;
    n->in_x = bed_input(&n->b, SHAPE(-1, INPUTS), n->x, SHAPE(all, INPUTS));
    n->in_first = bed_input(&n->b, SHAPE(-1, 1), n->first, SHAPE(all, 1));
    n->in_carry = bed_input(&n->b, SHAPE(-1, n->width), n->carry, SHAPE(ROWS, n->width));
    n->cell = cell_new(g, type, INPUTS, UNITS, NULL, NULL, NULL);
    n->y = cell_unroll(g, &n->cell, n->in_x, n->in_carry, n->in_first, STEPS, &n->last);
    y = bed_input(&n->b, SHAPE(-1, UNITS), n->weight, SHAPE(all, UNITS));
    last = bed_input(&n->b, SHAPE(-1, n->width), n->carry_weight, SHAPE(ROWS, n->width));
    y = reduce(g, "Sum", binary(g, "Mul", y, n->y, NULL), NULL, 0, 0, NULL);
    last = reduce(g, "Sum", binary(g, "Mul", last, n->last, NULL), NULL, 0, 0, NULL);
    n->loss = binary(g, "Add", y, last, "loss");
    n->n_parameters = graph_n_variables(g);
    for (int i = 0; i < n->n_parameters; i++)
        n->parameter[i] = graph_variable_at(g, i);
    bed_init_variables(&n->b);
    set_parameters(n);
    fill_inputs(n);
}

static void net_done(struct net *n)
{
    bed_done(&n->b);
}

static void check_shape(struct output x, struct shape want)
{
    struct shape is = output_shape(x);

    ck_assert_msg(shape_equal(&is, &want), "%s", shape_text(&is));
}

static void check_close(struct bed *b, struct output x, const double *want, int n)
{
    struct tensor t = bed_fetch(b, x);

    ck_assert_int_eq(tensor_elements(&t), n);
    for (int i = 0; i < n; i++)
        ck_assert_double_eq_tol((double)tensor_f32(&t)[i], want[i], 2e-6);
    tensor_free(&t);
}

START_TEST(sequences_follow_the_formulas)
{
    struct net n;
    double last[ROWS * CARRY];

    net_init(&n, types[_i]);
    check_shape(n.y, SHAPE(-1, UNITS));
    check_shape(n.last, SHAPE(-1, n.width));
    (void)play(&n.m);
    check_close(&n.b, n.y, &n.m.y[0][0][0], STEPS * ROWS * UNITS);
    for (int r = 0; r < ROWS; r++)
        memcpy(last + r * n.width, n.m.last[r], (size_t)n.width * sizeof(*last));
    check_close(&n.b, n.last, last, ROWS * n.width);
    net_done(&n);
}
END_TEST

/* ---- gradients ---- */

/* Central differences of the model, in double. */
static double difference(struct model *m, double *at)
{
    const double was = *at, step = 1e-5;
    double up, down;

    *at = was + step;
    up = play(m);
    *at = was - step;
    down = play(m);
    *at = was;
    return (up - down) / (2 * step);
}

static void check_gradient(struct net *n, struct output grad, double *const *at,
                           int count)
{
    struct tensor t = bed_fetch(&n->b, grad);

    ck_assert_int_eq(tensor_elements(&t), count);
    for (int i = 0; i < count; i++) {
        const double want = difference(&n->m, at[i]);

        ck_assert_double_eq_tol((double)tensor_f32(&t)[i], want, 1e-5 * (1 + fabs(want)));
    }
    tensor_free(&t);
}

START_TEST(gradients_go_through_time)
{
    struct output xs[MAX_PARAMETERS + 2], grads[MAX_PARAMETERS + 2];
    double *at[STEPS * ROWS * INPUTS + MAX_NUMBERS];
    struct net n;
    size_t k = 0;

    net_init(&n, types[_i]);
    for (int i = 0; i < n.n_parameters; i++)
        xs[k++] = n.parameter[i]->read;
    xs[k++] = n.in_x;
    xs[k++] = n.in_carry;
    ck_assert_int_eq(
        graph_gradients(n.b.g, &n.loss, 1, xs, k, NULL, NULL, 0, grads, &n.b.err), 0);
    for (int i = 0; i < n.n_parameters; i++) {
        const int count = (int)shape_elements(&n.parameter[i]->shape);

        for (int e = 0; e < count; e++)
            at[e] = &n.m.parameter[i][e];
        check_gradient(&n, grads[i], at, count);
    }
    for (int e = 0; e < STEPS * ROWS * INPUTS; e++)
        at[e] = &n.m.x[0][0][0] + e;
    check_gradient(&n, grads[k - 2], at, STEPS * ROWS * INPUTS);
    for (int e = 0; e < ROWS * n.width; e++)
        at[e] = &n.m.carry[e / n.width][e % n.width];
    check_gradient(&n, grads[k - 1], at, ROWS * n.width);
    net_done(&n);
}
END_TEST

/* Only the last carry, or only the output of one step, has a gradient. */
START_TEST(gradients_of_parts)
{
    struct output x, y, grad;
    struct net n;
    struct tensor t;

    net_init(&n, types[_i]);
    x = n.in_x;
    ck_assert_int_eq(
        graph_gradients(n.b.g, &n.last, 1, &x, 1, NULL, NULL, 0, &grad, &n.b.err), 0);
    t = bed_fetch(&n.b, grad);
    ck_assert(tensor_f32(&t)[0] != 0);          /* row 0, from step 0 on */
    ck_assert(tensor_f32(&t)[2 * INPUTS] == 0); /* row 2 was reset later */
    ck_assert(tensor_f32(&t)[((STEPS - 1) * ROWS + 2) * INPUTS] != 0);
    tensor_free(&t);
    y = ternary(n.b.g, "Slice", n.y, constant_i32s(n.b.g, (int32_t[]){ROWS, 0}, 2, NULL),
                constant_i32s(n.b.g, (int32_t[]){1, UNITS}, 2, NULL), NULL);
    ck_assert_int_eq(graph_gradients(n.b.g, &y, 1, &x, 1, NULL, NULL, 0, &grad, &n.b.err),
                     0);
    t = bed_fetch(&n.b, grad);
    for (int i = 0; i < STEPS * ROWS; i++) /* row 0 in steps 0 and 1 */
        ck_assert_msg((tensor_f32(&t)[i * INPUTS] != 0) == (i == 0 || i == ROWS), "%d",
                      i);
    tensor_free(&t);
    net_done(&n);
}
END_TEST

/* ---- the same bits in other ways ---- */

static void check_same(const struct tensor *a, const float *b, size_t n)
{
    ck_assert_int_eq(tensor_elements(a), (int64_t)n);
    ck_assert_mem_eq(a->data, b, n * sizeof(float));
}

/* Acting runs one step at a time with the same variables and gives the same bits. */
START_TEST(one_step_at_a_time_is_the_same)
{
    struct net n;
    struct tensor all, last;
    float carry[ROWS * CARRY], h[ROWS * UNITS];
    struct output x, in, next, out;

    net_init(&n, types[_i]);
    all = bed_fetch(&n.b, n.y);
    last = bed_fetch(&n.b, n.last);
    memcpy(carry, n.carry, sizeof(carry));
    x = bed_input(&n.b, SHAPE(-1, INPUTS), n.x, SHAPE(ROWS, INPUTS));
    in = bed_input(&n.b, SHAPE(-1, n.width), carry, SHAPE(ROWS, n.width));
    next = cell_step(n.b.g, &n.cell, x, in);
    out = cell_output(n.b.g, &n.cell, next);
    for (int t = 0; t < STEPS; t++) {
        struct tensor got[2] = {TENSOR_NONE, TENSOR_NONE};
        struct run_args args = bed_args(&n.b);
        const struct output fetches[] = {next, out};

        n.b.feeds[n.b.n_feeds - 2].value.data = n.x + t * ROWS * INPUTS;
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < n.width; k++)
                carry[r * n.width + k] *= 1 - n.first[t * ROWS + r];
        args.fetches = fetches;
        args.n_fetches = 2;
        ck_assert_int_eq(session_run(n.b.s, &args, got, &n.b.err), 0);
        memcpy(carry, got[0].data, sizeof(float) * (size_t)(ROWS * n.width));
        memcpy(h, got[1].data, sizeof(h));
        ck_assert_mem_eq(h, tensor_f32(&all) + t * ROWS * UNITS, sizeof(h));
        tensor_free(&got[0]);
        tensor_free(&got[1]);
    }
    check_same(&last, carry, (size_t)(ROWS * n.width));
    tensor_free(&all);
    tensor_free(&last);
    net_done(&n);
}
END_TEST

/* After a reset nothing depends on earlier inputs. */
START_TEST(first_forgets_the_past)
{
    struct net n;
    struct tensor before, after;

    net_init(&n, types[_i]);
    for (int r = 0; r < ROWS; r++)
        n.first[2 * ROWS + r] = 1;
    before = bed_fetch(&n.b, n.y);
    for (int i = 0; i < 2 * ROWS * INPUTS; i++)
        n.x[i] = 100 * number(i);
    for (int i = 0; i < ROWS * n.width; i++)
        n.carry[i] = 3 * number(i);
    after = bed_fetch(&n.b, n.y);
    ck_assert_mem_ne(after.data, before.data, 2 * ROWS * UNITS * sizeof(float));
    ck_assert_mem_eq(tensor_f32(&after) + 2 * ROWS * UNITS,
                     tensor_f32(&before) + 2 * ROWS * UNITS,
                     (STEPS - 2) * ROWS * UNITS * sizeof(float));
    tensor_free(&before);
    tensor_free(&after);
    net_done(&n);
}
END_TEST

/* ---- variables ---- */

static void check_variable(struct bed *b, int i, const char *name, struct shape shape,
                           double low, double high)
{
    const struct variable *v = graph_variable_at(b->g, i);
    struct tensor t;

    ck_assert_str_eq(v->name, name);
    ck_assert_msg(shape_equal(&v->shape, &shape), "%s: %s", name, shape_text(&v->shape));
    ck_assert_int_eq(session_variable(b->s, v, &t, &b->err), 0);
    for (int64_t e = 0; e < tensor_elements(&t); e++)
        ck_assert((double)tensor_f32(&t)[e] >= low && (double)tensor_f32(&t)[e] <= high);
    if (low < high) /* random initial values differ */
        ck_assert_float_ne(tensor_f32(&t)[0], tensor_f32(&t)[1]);
}

START_TEST(variables_are_named_as_elsewhere)
{
    const double glorot = sqrt(6.0 / 102), torch = 0.25;
    struct bed b;

    bed_init(&b);
    for (int i = 0; i < 2; i++) { /* the second time, existing variables are found */
        variable_scope_enter(b.g, "net", NULL, REUSE_AUTO);
        (void)cell_new(b.g, CELL_GRU, 22, 16, NULL, NULL, NULL);
        (void)cell_new(b.g, CELL_LSTM, 22, 16, NULL, NULL, NULL);
        variable_scope_leave(b.g);
    }
    ck_assert_int_eq(graph_n_variables(b.g), 6);
    ck_assert_uint_eq(collection_get(b.g, TRAINABLE_VARIABLES, NULL, NULL), 6);
    bed_init_variables(&b);
    check_variable(&b, 0, "net/gru/weight_ih", SHAPE(22, 48), -torch, torch);
    check_variable(&b, 1, "net/gru/weight_hh", SHAPE(16, 48), -torch, torch);
    check_variable(&b, 2, "net/gru/bias_ih", SHAPE(48), -torch, torch);
    check_variable(&b, 3, "net/gru/bias_hh", SHAPE(48), -torch, torch);
    check_variable(&b, 4, "net/basic_lstm_cell/kernel", SHAPE(38, 64), -glorot, glorot);
    check_variable(&b, 5, "net/basic_lstm_cell/bias", SHAPE(64), 0, 0);
    bed_done(&b);
}
END_TEST

START_TEST(initial_values_may_be_given)
{
    const struct initializer weights = orthogonal_initializer(1),
                             two = constant_initializer(2);
    const float *w;
    struct tensor t;
    struct bed b;
    double dot = 0;

    bed_init(&b);
    (void)cell_new(b.g, CELL_GRU, 22, 16, "cell", &weights, &two);
    bed_init_variables(&b);
    ck_assert_int_eq(
        session_variable(b.s, variable_find(b.g, "cell/weight_hh"), &t, NULL), 0);
    w = tensor_f32(&t);
    for (int k = 0; k < 48; k++)
        dot += (double)w[k] * (double)w[k];
    ck_assert_double_eq_tol(dot, 1, 1e-6);
    check_variable(&b, 2, "cell/bias_ih", SHAPE(48), 2, 2);
    bed_done(&b);
}
END_TEST

/* TensorFlow would accept the exported file, with the gradients. */
START_TEST(exported_sequences_pass_the_check)
{
    struct net n;
    struct output xs[MAX_PARAMETERS], grads[MAX_PARAMETERS];
    struct wbuf file;
    struct err err = {0};

    net_init(&n, types[_i]);
    for (int i = 0; i < n.n_parameters; i++)
        xs[i] = n.parameter[i]->read;
    ck_assert_int_eq(graph_gradients(n.b.g, &n.loss, 1, xs, (size_t)n.n_parameters, NULL,
                                     NULL, 0, grads, &n.b.err),
                     0);
    file = export_of(n.b.g, NULL);
    ck_assert_msg(metagraph_check(file.data, file.len, NULL, 0, &err) == 0, "%s",
                  err.msg);
    wbuf_done(&file);
    net_done(&n);
}
END_TEST

static Suite *make_suite(void)
{
    const int n = sizeof(types) / sizeof(types[0]);
    Suite *s = suite_create("recurrent");
    TCase *tc = tcase_create("recurrent");

    tcase_add_loop_test(tc, sequences_follow_the_formulas, 0, n);
    tcase_add_loop_test(tc, gradients_go_through_time, 0, n);
    tcase_add_loop_test(tc, gradients_of_parts, 0, n);
    tcase_add_loop_test(tc, one_step_at_a_time_is_the_same, 0, n);
    tcase_add_loop_test(tc, first_forgets_the_past, 0, n);
    tcase_add_test(tc, variables_are_named_as_elsewhere);
    tcase_add_test(tc, initial_values_may_be_given);
    tcase_add_loop_test(tc, exported_sequences_pass_the_check, 0, n);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
