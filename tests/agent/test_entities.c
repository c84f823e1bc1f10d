/* Layers that see entities, against the formulas of nn.h in double; gradients against
 * differences; the order of entities, those that are not there, and their number. */
#include "agent/nn/nn.h"

#include "agent/saver/metagraph_export.h"
#include "tests/agent/metagraph_help.h"
#include "tests/agent/session_help.h"
#include "tests/support/metagraph_check.h"
#include "tests/support/test_main.h"

enum {
    ROWS = 3,
    SEEN = 2, /* agents side by side in a row */
    OWN = 3,
    K = 4, /* at most */
    WIDTH = 4,
    NUMBERS = WIDTH - 1,
    HIDDEN = 5,
    LAST = 4,
    REST = 2,
    EACH = OWN + K * WIDTH,
    INPUTS = SEEN * EACH + REST,
    OUTPUTS = SEEN * (OWN + LAST) + REST,
    MAX_PARAMETERS = 8,
    MAX_NUMBERS = 32,
};

/* Two layers; then, for attention, query, key and two of value. */
enum { W0, B0, W1, B1, QUERY, KEY, WV, BV };

static const struct entity_layers all_layers[] = {
    {{2, {HIDDEN, LAST}}, POOL_MEAN, 1},
    {{2, {HIDDEN, LAST}}, POOL_MAX, 1},
    {{2, {HIDDEN, LAST}}, POOL_ATTENTION, 1},
    {{2, {HIDDEN, LAST}}, POOL_ATTENTION, 2},
};
enum { N_LAYERS = sizeof(all_layers) / sizeof(all_layers[0]) };

/* Different numbers between -1 and 1. */
static float number(int i)
{
    return (float)((unsigned)i * 7919u % 2003u) / 1001.0f - 1.0f;
}

/* ---- the formulas, in double ---- */

struct model {
    const struct entity_layers *layers;
    double parameter[MAX_PARAMETERS][MAX_NUMBERS];
    double x[ROWS][INPUTS], weight[ROWS][OUTPUTS], y[ROWS][OUTPUTS];
};

/* y = x W + b (b NULL: none), W (n, m) */
static void times(const double *x, const double *w, const double *b, int n, int m,
                  double *y)
{
    for (int j = 0; j < m; j++) {
        y[j] = b != NULL ? b[j] : 0;
        for (int i = 0; i < n; i++)
            y[j] += x[i] * w[i * m + j];
    }
}

static void layer(const double *x, const double *w, const double *b, int n, int m,
                  double *y)
{
    times(x, w, b, n, m, y);
    for (int j = 0; j < m; j++)
        y[j] = tanh(y[j]);
}

/* The sum of the heads' values, weighted by a softmax of key and query. */
static void attend(const struct model *m, const double *own, const double h[K][LAST],
                   int n, double *ret)
{
    const int heads = (int)m->layers->heads, d = LAST / heads;
    double query[LAST], key[LAST], value[LAST], a;

    times(own, m->parameter[QUERY], NULL, OWN, LAST, query);
    for (int head = 0; head < heads; head++) {
        double total = 0;

        for (int i = 0; i < n; i++) {
            a = 0;
            times(h[i], m->parameter[KEY], NULL, LAST, LAST, key);
            layer(h[i], m->parameter[WV], m->parameter[BV], LAST, LAST, value);
            for (int j = head * d; j < (head + 1) * d; j++)
                a += key[j] * query[j] / sqrt(d);
            total += a = exp(a);
            for (int j = head * d; j < (head + 1) * d; j++)
                ret[j] += a * value[j];
        }
        for (int j = head * d; j < (head + 1) * d && n > 0; j++)
            ret[j] /= total;
    }
}

/* One agent's observation: its own numbers, and the last layer's units of its entities. */
static void see(const struct model *m, const double *x, double *y)
{
    double h[K][LAST], hidden[HIDDEN];
    int n = 0;

    memcpy(y, x, OWN * sizeof(*x));
    y += OWN;
    memset(y, 0, LAST * sizeof(*y));
    for (int i = 0; i < K; i++) {
        const double *e = x + OWN + i * WIDTH;

        if (e[NUMBERS] == 0)
            continue;
        layer(e, m->parameter[W0], m->parameter[B0], NUMBERS, HIDDEN, hidden);
        layer(hidden, m->parameter[W1], m->parameter[B1], HIDDEN, LAST, h[n++]);
    }
    if (m->layers->pool == POOL_ATTENTION)
        attend(m, x, h, n, y);
    for (int j = 0; j < LAST && m->layers->pool != POOL_ATTENTION; j++)
        for (int i = 0; i < n; i++) {
            if (m->layers->pool == POOL_MEAN)
                y[j] += h[i][j] / n;
            else
                y[j] = i == 0 ? h[i][j] : fmax(y[j], h[i][j]);
        }
}

/* The loss is a weighted sum of all outputs. */
static double play(struct model *m)
{
    double loss = 0;

    for (int r = 0; r < ROWS; r++) {
        for (int s = 0; s < SEEN; s++)
            see(m, m->x[r] + s * EACH, m->y[r] + s * (OWN + LAST));
        memcpy(m->y[r] + OUTPUTS - REST, m->x[r] + INPUTS - REST,
               REST * sizeof(m->y[r][0]));
        for (int j = 0; j < OUTPUTS; j++)
            loss += m->weight[r][j] * m->y[r][j];
    }
    return loss;
}

/* ---- the same as a graph ---- */

struct net {
    struct bed b;
    struct model m;
    int n_parameters;
    float x[ROWS][INPUTS], weight[ROWS][OUTPUTS];
    struct output in, y, loss;
};

static struct network_config config_of(const struct entity_layers *layers)
{
    return (struct network_config){
        .has_entities = 1, .entities = *layers, .activation = ACTIVATION_TANH};
}

static struct obs_form form_of(int n, int k)
{
    return (struct obs_form){.n = n,
                             .stack = 1,
                             .each = OWN + k * WIDTH,
                             .at = OWN,
                             .size = k * WIDTH,
                             .k = k,
                             .entity_width = WIDTH};
}

static void set_parameters(struct net *n)
{
    for (int i = 0; i < n->n_parameters; i++) {
        const struct variable *v = graph_variable_at(n->b.g, i);
        float x[MAX_NUMBERS];
        struct tensor t = tensor_view(DT_FLOAT, v->shape, x);

        for (int k = 0; k < shape_elements(&v->shape); k++)
            n->m.parameter[i][k] = (double)(x[k] = number(1000 * i + k));
        ck_assert_int_eq(
            session_variable_set(n->b.s, graph_variable_at(n->b.g, i), &t, &n->b.err), 0);
    }
}

/* Row 0 has all entities; the first agent of row 1 lacks two, the second has none. */
static void fill_inputs(struct net *n)
{
    for (int r = 0; r < ROWS; r++) {
        for (int j = 0; j < OUTPUTS; j++)
            n->m.weight[r][j] =
                (double)(n->weight[r][j] = number(7000 + r * OUTPUTS + j));
        for (int j = 0; j < INPUTS; j++)
            n->x[r][j] = number(100 + r * INPUTS + j);
        for (int i = 0; i < SEEN * K; i++)
            n->x[r][i / K * EACH + OWN + i % K * WIDTH + NUMBERS] =
                r != 1 || i == 1 || i == 2;
        for (int j = 0; j < INPUTS; j++)
            n->m.x[r][j] = (double)n->x[r][j];
    }
}

static void net_init(struct net *n, const struct entity_layers *layers)
{
    const struct network_config net = config_of(layers);
    const struct obs_form p = form_of(SEEN, K);
    struct output weight;
    struct graph *g;

    *n = (struct net){.m.layers = layers};
    bed_init(&n->b);
    g = n->b.g;
    n->in = bed_input(&n->b, SHAPE(-1, INPUTS), n->x[0], SHAPE(ROWS, INPUTS));
    variable_scope_enter(g, "p_func", NULL, REUSE_INHERIT);
    n->y = see_observations(g, n->in, &net, &p);
    variable_scope_leave(g);
    weight = bed_input(&n->b, SHAPE(-1, OUTPUTS), n->weight[0], SHAPE(ROWS, OUTPUTS));
    n->loss = reduce(g, "Sum", binary(g, "Mul", weight, n->y, NULL), NULL, 0, 0, "loss");
    n->n_parameters = graph_n_variables(g);
    bed_init_variables(&n->b);
    set_parameters(n);
    fill_inputs(n);
}

START_TEST(outputs_follow_the_formulas)
{
    struct net n;
    struct tensor t;

    net_init(&n, &all_layers[_i]);
    (void)play(&n.m);
    t = bed_fetch(&n.b, n.y);
    ck_assert_int_eq(tensor_elements(&t), ROWS * OUTPUTS);
    for (int i = 0; i < ROWS * OUTPUTS; i++)
        ck_assert_double_eq_tol((double)tensor_f32(&t)[i],
                                n.m.y[i / OUTPUTS][i % OUTPUTS], 2e-6);
    tensor_free(&t);
    bed_done(&n.b);
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

static void check_gradient(struct net *n, struct output grad, double *at, int count,
                           int is_input)
{
    struct tensor t = bed_fetch(&n->b, grad);

    ck_assert_int_eq(tensor_elements(&t), count);
    for (int i = 0; i < count; i++) {
        const int column = i % INPUTS % EACH;
        const double is = (double)tensor_f32(&t)[i];
        double want;

        /* nobody asks for the gradient of the number that says what is there */
        if (is_input && i % INPUTS < SEEN * EACH && column >= OWN &&
            (column - OWN) % WIDTH == NUMBERS)
            continue;
        want = difference(&n->m, &at[i]);
        ck_assert_msg(fabs(is - want) < 1e-5 * (1 + fabs(want)), "%d: %g, not %g", i, is,
                      want);
    }
    tensor_free(&t);
}

START_TEST(gradients_are_differences)
{
    struct output xs[MAX_PARAMETERS + 1], grads[MAX_PARAMETERS + 1];
    struct net n;

    net_init(&n, &all_layers[_i]);
    for (int i = 0; i < n.n_parameters; i++)
        xs[i] = graph_variable_at(n.b.g, i)->read;
    xs[n.n_parameters] = n.in;
    ck_assert_int_eq(graph_gradients(n.b.g, &n.loss, 1, xs, (size_t)n.n_parameters + 1,
                                     NULL, NULL, 0, grads, &n.b.err),
                     0);
    for (int i = 0; i < n.n_parameters; i++)
        check_gradient(&n, grads[i], n.m.parameter[i],
                       (int)shape_elements(&graph_variable_at(n.b.g, i)->shape), 0);
    check_gradient(&n, grads[n.n_parameters], n.m.x[0], ROWS * INPUTS, 1);
    bed_done(&n.b);
}
END_TEST

/* ---- what does not matter ---- */

START_TEST(order_does_not_matter)
{
    struct net n;
    struct tensor before, after;

    net_init(&n, &all_layers[_i]);
    before = bed_fetch(&n.b, n.y);
    for (int i = 0; i < ROWS * SEEN; i++) {
        float *e = &n.x[i / SEEN][i % SEEN * EACH + OWN], last[WIDTH];

        memcpy(last, e + (K - 1) * WIDTH, sizeof(last));
        memmove(e + WIDTH, e, (K - 1) * sizeof(last));
        memcpy(e, last, sizeof(last));
    }
    after = bed_fetch(&n.b, n.y);
    for (int i = 0; i < ROWS * OUTPUTS; i++)
        ck_assert_float_eq_tol(tensor_f32(&after)[i], tensor_f32(&before)[i], 1e-6f);
    tensor_free(&before);
    tensor_free(&after);
    bed_done(&n.b);
}
END_TEST

/* The numbers of an entity that is not there change not one bit; without any entity, the
 * vector is 0. */
START_TEST(absent_entities_do_not_matter)
{
    struct net n;
    struct tensor before, after;

    net_init(&n, &all_layers[_i]);
    before = bed_fetch(&n.b, n.y);
    for (int i = 0; i < SEEN * K; i++) {
        float *e = &n.x[1][i / K * EACH + OWN + i % K * WIDTH];

        for (int j = 0; j < NUMBERS && e[NUMBERS] == 0; j++)
            e[j] = 1e6f * number(i * WIDTH + j);
    }
    after = bed_fetch(&n.b, n.y);
    for (int i = 0; i < ROWS * OUTPUTS; i++)
        ck_assert(tensor_f32(&after)[i] == tensor_f32(&before)[i]);
    for (int j = 0; j < LAST; j++)
        ck_assert(tensor_f32(&after)[OUTPUTS + OWN + LAST + OWN + j] == 0);
    tensor_free(&before);
    tensor_free(&after);
    bed_done(&n.b);
}
END_TEST

/* A network for more entities has the same variables; with those that it lacked absent, it
 * gives the same. */
START_TEST(number_of_entities_does_not_matter)
{
    enum { MORE = 3, WIDE = OWN + (K + MORE) * WIDTH };
    const struct network_config net = config_of(&all_layers[_i]);
    const struct obs_form p = form_of(1, K + MORE);
    float x[ROWS][WIDE] = {0};
    struct net n;
    struct tensor few, many;
    struct output y;

    net_init(&n, &all_layers[_i]);
    few = bed_fetch(&n.b, n.y);
    for (int r = 0; r < ROWS; r++)
        memcpy(x[r], n.x[r], EACH * sizeof(x[r][0]));
    y = bed_input(&n.b, SHAPE(-1, WIDE), x[0], SHAPE(ROWS, WIDE));
    variable_scope_enter(n.b.g, "p_func", NULL, REUSE_TRUE);
    y = see_observations(n.b.g, y, &net, &p);
    variable_scope_leave(n.b.g);
    many = bed_fetch(&n.b, y);
    ck_assert_int_eq(graph_n_variables(n.b.g), n.n_parameters);
    for (int i = 0; i < ROWS * (OWN + LAST); i++)
        ck_assert_float_eq_tol(
            tensor_f32(&many)[i],
            tensor_f32(&few)[i / (OWN + LAST) * OUTPUTS + i % (OWN + LAST)], 1e-6f);
    tensor_free(&few);
    tensor_free(&many);
    bed_done(&n.b);
}
END_TEST

/* ---- variables, and the export ---- */

static void check_variable(const struct graph *g, int i, const char *name,
                           struct shape shape)
{
    const struct variable *v = graph_variable_at(g, i);

    ck_assert_str_eq(v->name, name);
    ck_assert_msg(shape_equal(&v->shape, &shape), "%s: %s", name, shape_text(&v->shape));
}

START_TEST(variables_have_names)
{
    struct net n;
    const struct graph *g;

    net_init(&n, &all_layers[N_LAYERS - 1]);
    g = n.b.g;
    ck_assert_int_eq(n.n_parameters, MAX_PARAMETERS);
    check_variable(g, 0, "p_func/entities/fully_connected/weights",
                   SHAPE(NUMBERS, HIDDEN));
    check_variable(g, 3, "p_func/entities/fully_connected_1/biases", SHAPE(LAST));
    check_variable(g, QUERY, "p_func/entities/query/weights", SHAPE(OWN, LAST));
    check_variable(g, KEY, "p_func/entities/key/weights", SHAPE(LAST, LAST));
    check_variable(g, WV, "p_func/entities/value/weights", SHAPE(LAST, LAST));
    check_variable(g, BV, "p_func/entities/value/biases", SHAPE(LAST));
    bed_done(&n.b);
}
END_TEST

/* TensorFlow would accept the exported file, with the gradients. */
START_TEST(exported_layers_pass_the_check)
{
    struct net n;
    struct output xs[MAX_PARAMETERS], grads[MAX_PARAMETERS];
    struct wbuf file;
    struct err err = {0};

    net_init(&n, &all_layers[_i]);
    for (int i = 0; i < n.n_parameters; i++)
        xs[i] = graph_variable_at(n.b.g, i)->read;
    ck_assert_int_eq(graph_gradients(n.b.g, &n.loss, 1, xs, (size_t)n.n_parameters, NULL,
                                     NULL, 0, grads, &n.b.err),
                     0);
    file = export_of(n.b.g, NULL);
    ck_assert_msg(metagraph_check(file.data, file.len, NULL, 0, &err) == 0, "%s",
                  err.msg);
    wbuf_done(&file);
    bed_done(&n.b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("entities");
    TCase *tc = tcase_create("entities");

    tcase_add_loop_test(tc, outputs_follow_the_formulas, 0, N_LAYERS);
    tcase_add_loop_test(tc, gradients_are_differences, 0, N_LAYERS);
    tcase_add_loop_test(tc, order_does_not_matter, 0, N_LAYERS);
    tcase_add_loop_test(tc, absent_entities_do_not_matter, 0, N_LAYERS);
    tcase_add_loop_test(tc, number_of_entities_does_not_matter, 0, N_LAYERS);
    tcase_add_test(tc, variables_have_names);
    tcase_add_loop_test(tc, exported_layers_pass_the_check, 0, N_LAYERS);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
