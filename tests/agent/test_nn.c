#include "agent/nn/nn.h"

#include "agent/graph/ops.h"
#include "common/mem/xmalloc.h"
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

static void check_variable(const struct graph *g, int i, const char *name,
                           struct shape shape)
{
    const struct variable *v = graph_variable_at(g, i);

    ck_assert_str_eq(v->name, name);
    ck_assert_msg(shape_equal(&v->shape, &shape), "%s: %s", name, shape_text(&v->shape));
}

static void check_built(const struct graph *g)
{
    const struct err *e = graph_error(g);

    ck_assert_msg(e == NULL, "%s", e != NULL ? e->msg : "");
}

static void check_input(const struct operation *op, int i, const char *name)
{
    char buf[256];

    ck_assert_str_eq(output_name(operation_input(op, i), buf, sizeof(buf)), name);
}

static struct session *open_session(struct graph *g)
{
    const struct session_options o = {0};
    struct session *s;
    struct err err;

    ck_assert_msg(session_new(&s, g, &o, &err) == 0, "%s", err.msg);
    return s;
}

static void run_target(struct session *s, struct operation *op)
{
    const struct run_args run = {
        .targets = &op, .n_targets = 1, .key = rng_key_make(1, "test", "run")};
    struct err err;

    ck_assert_msg(session_run(s, &run, NULL, &err) == 0, "%s", err.msg);
}

static void initialize(struct session *s, struct graph *g)
{
    run_target(s, global_variables_initializer(g, NULL));
}

static const float *value(struct session *s, const struct graph *g, const char *name)
{
    const struct variable *v = variable_find(g, name);
    struct tensor t;
    struct err err;

    ck_assert_msg(v != NULL, "%s", name);
    ck_assert_msg(session_variable(s, v, &t, &err) == 0, "%s", err.msg);
    return tensor_f32(&t);
}

/* ---- layers ---- */

START_TEST(test_fully_connected_names)
{
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, 4), "x");

    x = fully_connected(g, x, 8, ACTIVATION_RELU, NULL, NULL);
    x = fully_connected(g, x, 3, ACTIVATION_LINEAR, NULL, NULL);
    x = dense(g, x, 2, ACTIVATION_TANH, NULL, NULL);
    check_built(g);
    check_variable(g, 0, "fully_connected/weights", SHAPE(4, 8));
    check_variable(g, 1, "fully_connected/biases", SHAPE(8));
    check_variable(g, 2, "fully_connected_1/weights", SHAPE(8, 3));
    check_variable(g, 3, "fully_connected_1/biases", SHAPE(3));
    check_variable(g, 4, "dense/kernel", SHAPE(3, 2));
    check_variable(g, 5, "dense/bias", SHAPE(2));
    ck_assert_ptr_nonnull(graph_operation(g, "fully_connected/MatMul"));
    ck_assert_ptr_nonnull(graph_operation(g, "fully_connected/BiasAdd"));
    check_input(graph_operation(g, "fully_connected/Relu"), 0,
                "fully_connected/BiasAdd:0");
    check_input(graph_operation(g, "fully_connected_1/MatMul"), 0,
                "fully_connected/Relu:0");
    ck_assert_ptr_null(graph_operation(g, "fully_connected_1/Relu"));
    ck_assert_str_eq(operation_name(x.op), "dense/Tanh");
    ck_assert_uint_eq(collection_get(g, MODEL_VARIABLES, NULL, NULL), 4);
    ck_assert_uint_eq(collection_get(g, TRAINABLE_VARIABLES, NULL, NULL), 6);
    graph_free(g);
}
END_TEST

START_TEST(test_reuse_lists_once)
{
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, 4), "x"), y[2];

    for (int i = 0; i < 2; i++) {
        variable_scope_enter(g, "net", NULL, REUSE_AUTO);
        y[i] = fully_connected(g, x, 8, ACTIVATION_RELU, NULL, NULL);
        variable_scope_leave(g);
    }
    check_built(g);
    ck_assert_int_eq(graph_n_variables(g), 2);
    ck_assert_uint_eq(collection_get(g, MODEL_VARIABLES, NULL, NULL), 2);
    ck_assert_str_eq(operation_name(y[1].op), "net_1/fully_connected/Relu");
    graph_free(g);
}
END_TEST

/* Every activation runs, and gives the formula's value at -1. */
START_TEST(test_activations)
{
    static const struct {
        enum activation activation;
        const char *type;
        float at_minus_one;
    } rows[] = {
        {ACTIVATION_RELU, "Relu", 0.0f},
        {ACTIVATION_LEAKY_RELU, NULL, -0.2f},
        {ACTIVATION_TANH, "Tanh", -0.76159416f},
        {ACTIVATION_ELU, "Elu", -0.63212056f},
        {ACTIVATION_SIGMOID, "Sigmoid", 0.26894142f},
        {ACTIVATION_LINEAR, NULL, -1.0f},
    };
    struct graph *g = graph_new();
    struct output x = constant_f32(g, -1.0f, "x");
    struct session *s;
    struct tensor t = TENSOR_NONE;
    struct err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct output y = activate(g, x, rows[i].activation);
        const struct run_args run = {.fetches = &y, .n_fetches = 1};

        check_built(g);
        if (rows[i].type != NULL)
            ck_assert_str_eq(operation_type(y.op), rows[i].type);
        s = open_session(g);
        t.data = NULL;
        ck_assert_msg(session_run(s, &run, &t, &err) == 0, "%s", err.msg);
        ck_assert_float_eq_tol(*tensor_f32(&t), rows[i].at_minus_one, 1e-6f);
        tensor_free(&t);
        session_free(s);
    }
    graph_free(g);
}
END_TEST

/* ---- layer normalisation ---- */

#define NORM_ROWS 5
#define NORM_COLS 7

struct norm {
    struct bed b;
    float x[NORM_ROWS * NORM_COLS], weight[NORM_ROWS * NORM_COLS];
    struct output in, y, loss;
    struct variable *beta, *gamma;
};

static void norm_init(struct norm *n, double epsilon)
{
    const struct shape shape = SHAPE(NORM_ROWS, NORM_COLS);
    float values[2][NORM_COLS];
    struct tensor t[2] = {tensor_view(DT_FLOAT, SHAPE(NORM_COLS), values[0]),
                          tensor_view(DT_FLOAT, SHAPE(NORM_COLS), values[1])};

    bed_init(&n->b);
    for (int i = 0; i < NORM_ROWS * NORM_COLS; i++) {
        n->x[i] = (float)((unsigned)i * 7919u % 2003u) / 500.0f - 1.0f;
        n->weight[i] = (float)((unsigned)i * 104729u % 1009u) / 500.0f - 1.0f;
    }
    n->in = bed_input(&n->b, SHAPE(-1, NORM_COLS), n->x, shape);
    n->y = layer_norm(n->b.g, n->in, epsilon, NULL);
    n->loss = bed_input(&n->b, SHAPE(-1, NORM_COLS), n->weight, shape);
    n->loss = binary(n->b.g, "Mul", n->loss, n->y, NULL);
    n->loss = reduce(n->b.g, "Sum", n->loss, NULL, 0, 0, NULL);
    check_built(n->b.g);
    check_variable(n->b.g, 0, "LayerNorm/beta", SHAPE(NORM_COLS));
    check_variable(n->b.g, 1, "LayerNorm/gamma", SHAPE(NORM_COLS));
    n->beta = graph_variable_at(n->b.g, 0);
    n->gamma = graph_variable_at(n->b.g, 1);
    bed_init_variables(&n->b);
    ck_assert_float_eq(value(n->b.s, n->b.g, "LayerNorm/beta")[1], 0);
    ck_assert_float_eq(value(n->b.s, n->b.g, "LayerNorm/gamma")[1], 1);
    for (int k = 0; k < NORM_COLS; k++) {
        values[0][k] = 0.25f * (float)k - 1;
        values[1][k] = 2 - 0.5f * (float)k;
    }
    ck_assert_int_eq(session_variable_set(n->b.s, n->beta, &t[0], NULL), 0);
    ck_assert_int_eq(session_variable_set(n->b.s, n->gamma, &t[1], NULL), 0);
}

/* (x - mean) / sqrt(variance + epsilon) of element i; beta and gamma as above. */
static double normalized(const float *x, int i, double epsilon)
{
    const float *row = x + i / NORM_COLS * NORM_COLS;
    double mean = 0, variance = 0;

    for (int k = 0; k < NORM_COLS; k++)
        mean += (double)row[k] / NORM_COLS;
    for (int k = 0; k < NORM_COLS; k++)
        variance += ((double)row[k] - mean) * ((double)row[k] - mean) / NORM_COLS;
    return ((double)x[i] - mean) / sqrt(variance + epsilon);
}

static double norm_loss(const struct norm *n, double epsilon)
{
    double loss = 0;

    for (int i = 0; i < NORM_ROWS * NORM_COLS; i++) {
        const int k = i % NORM_COLS;

        loss += (double)n->weight[i] *
                (normalized(n->x, i, epsilon) * (2 - 0.5 * k) + 0.25 * k - 1);
    }
    return loss;
}

START_TEST(test_layer_norm)
{
    const double epsilon = _i ? 0.5 : LAYER_NORM_TORCH;
    struct norm n;
    struct output xs[3], grads[3];
    struct tensor t[3];
    double beta[NORM_COLS] = {0}, gamma[NORM_COLS] = {0};

    norm_init(&n, epsilon);
    t[0] = bed_fetch(&n.b, n.y);
    for (int i = 0; i < NORM_ROWS * NORM_COLS; i++) {
        const int k = i % NORM_COLS;
        const double x = normalized(n.x, i, epsilon);

        ck_assert_double_eq_tol((double)tensor_f32(&t[0])[i],
                                x * (2 - 0.5 * k) + 0.25 * k - 1, 3e-6);
        beta[k] += (double)n.weight[i];
        gamma[k] += (double)n.weight[i] * x;
    }
    tensor_free(&t[0]);
    xs[0] = n.in;
    xs[1] = n.beta->read;
    xs[2] = n.gamma->read;
    ck_assert_int_eq(
        graph_gradients(n.b.g, &n.loss, 1, xs, 3, NULL, NULL, 0, grads, NULL), 0);
    for (int i = 0; i < 3; i++)
        t[i] = bed_fetch(&n.b, grads[i]);
    for (int k = 0; k < NORM_COLS; k++) {
        ck_assert_double_eq_tol((double)tensor_f32(&t[1])[k], beta[k], 1e-5);
        ck_assert_double_eq_tol((double)tensor_f32(&t[2])[k], gamma[k], 1e-5);
    }
    for (int i = 0; i < NORM_ROWS * NORM_COLS; i++) {
        const float was = n.x[i];
        double up, down;

        n.x[i] = was + 0x1p-7f;
        up = norm_loss(&n, epsilon);
        n.x[i] = was - 0x1p-7f;
        down = norm_loss(&n, epsilon);
        n.x[i] = was;
        ck_assert_double_eq_tol((double)tensor_f32(&t[0])[i], (up - down) * 64, 1e-3);
    }
    for (int i = 0; i < 3; i++)
        tensor_free(&t[i]);
    bed_done(&n.b);
}
END_TEST

/* ---- networks ---- */

START_TEST(test_mlp)
{
    struct graph *g = graph_new();
    const struct network_config net = {.hidden = {2, {64, 64}},
                                       .activation = ACTIVATION_RELU};

    variable_scope_enter(g, "p_func", NULL, REUSE_INHERIT);
    (void)mlp(g, placeholder(g, DT_FLOAT, &SHAPE(-1, 18), "obs"), &net, 5);
    variable_scope_leave(g);
    check_built(g);
    ck_assert_int_eq(graph_n_variables(g), 6);
    check_variable(g, 0, "p_func/fully_connected/weights", SHAPE(18, 64));
    check_variable(g, 2, "p_func/fully_connected_1/weights", SHAPE(64, 64));
    check_variable(g, 4, "p_func/fully_connected_2/weights", SHAPE(64, 5));
    check_variable(g, 5, "p_func/fully_connected_2/biases", SHAPE(5));
    graph_free(g);
}
END_TEST

enum { PICTURES = 2, SIDE = 3, REST = 2, INPUTS = PICTURES * SIDE * SIDE * 2 + REST };

/* Two images of bytes and two more columns: one convolution reads both images, with
 * weights for the first channel only; the other columns pass unchanged. */
START_TEST(test_pictures)
{
    const struct network_config net = {.conv = {1, {{1, 2, 1}}},
                                       .activation = ACTIVATION_RELU};
    const struct obs_form p = {.n = PICTURES,
                               .stack = 1,
                               .each = SIDE * SIDE * 2,
                               .size = SIDE * SIDE * 2,
                               .height = SIDE,
                               .width = SIDE,
                               .channels = 2,
                               .is_u8 = 1};
    float x[INPUTS], *w;
    struct output y;
    struct tensor t;
    struct bed b;

    bed_init(&b);
    variable_scope_enter(b.g, "v_func", NULL, REUSE_INHERIT);
    y = see_observations(b.g, bed_input(&b, SHAPE(-1, INPUTS), x, SHAPE(1, INPUTS)), &net,
                         &p);
    variable_scope_leave(b.g);
    check_built(b.g);
    ck_assert_int_eq(graph_n_variables(b.g), 2);
    check_variable(b.g, 0, "v_func/Conv/weights", SHAPE(2, 2, 2, 1));
    check_variable(b.g, 1, "v_func/Conv/biases", SHAPE(1));
    ck_assert_ptr_nonnull(graph_operation(b.g, "v_func/Conv/Conv2D"));
    ck_assert_ptr_nonnull(graph_operation(b.g, "v_func/Conv/Relu"));
    bed_init_variables(&b);
    ck_assert_int_eq(
        session_variable(b.s, variable_find(b.g, "v_func/Conv/weights"), &t, &b.err), 0);
    w = tensor_f32(&t);
    for (int i = 0; i < 8; i++)
        w[i] = i % 2 == 0 ? (float)(i + 1) : 0;
    for (int i = 0; i < INPUTS; i++)
        x[i] = (float)(i * 7 % 256);
    t = bed_fetch(&b, y);
    ck_assert_int_eq(tensor_elements(&t), PICTURES * 4 + REST);
    for (int i = 0; i < PICTURES * 4; i++) {
        const float *at = x + i / 4 * SIDE * SIDE * 2 + (i / 2 % 2 * SIDE + i % 2) * 2;
        const float sum = at[0] + 3 * at[2] + 5 * at[2 * SIDE] + 7 * at[2 * SIDE + 2];

        ck_assert_float_eq_tol(tensor_f32(&t)[i], sum / 255, 1e-5f);
    }
    for (int i = 0; i < REST; i++)
        ck_assert(tensor_f32(&t)[PICTURES * 4 + i] == x[INPUTS - REST + i]);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* Two agents' stacks of two observations, each an image between numbers: the numbers stay, in
 * their order, and the images of a stack are the channels of one. */
START_TEST(test_pictures_beside_numbers)
{
    enum {
        AGENTS = 2,
        STACK = 2,
        AT = 2,
        SIZE = 4,
        EACH = AT + SIZE + 1,
        SEEN = STACK * EACH
    };
    enum { BESIDE = STACK * (EACH - SIZE), WIDE = AGENTS * SEEN + 1 };
    const struct network_config net = {.conv = {1, {{1, 2, 1}}},
                                       .activation = ACTIVATION_RELU};
    const struct obs_form p = {.n = AGENTS,
                               .stack = STACK,
                               .each = EACH,
                               .at = AT,
                               .size = SIZE,
                               .height = 2,
                               .width = 2,
                               .channels = 1};
    float x[WIDE], *y, *w;
    struct tensor t;
    struct bed b;
    struct output out;

    bed_init(&b);
    out = see_observations(b.g, bed_input(&b, SHAPE(-1, WIDE), x, SHAPE(1, WIDE)), &net,
                           &p);
    check_built(b.g);
    check_variable(b.g, 0, "Conv/weights", SHAPE(2, 2, STACK, 1));
    bed_init_variables(&b);
    ck_assert_int_eq(
        session_variable(b.s, variable_find(b.g, "Conv/weights"), &t, &b.err), 0);
    w = tensor_f32(&t);
    for (int i = 0; i < SIZE * STACK; i++) /* point i / STACK, of observation i % STACK */
        w[i] = (float)(i / STACK + 1 + 10 * (i % STACK));
    for (int i = 0; i < WIDE; i++)
        x[i] = (float)(i * 7 % 31);
    t = bed_fetch(&b, out);
    y = tensor_f32(&t);
    ck_assert_int_eq(tensor_elements(&t), AGENTS * (BESIDE + 1) + 1);
    for (int a = 0; a < AGENTS; a++, y += BESIDE + 1) {
        const float *seen = x + a * SEEN;
        float sum = 0;

        for (int k = 0; k < STACK; k++, seen += EACH) {
            ck_assert(memcmp(y + k * (AT + 1), seen, AT * sizeof(*y)) == 0);
            ck_assert(y[k * (AT + 1) + AT] == seen[EACH - 1]);
            for (int i = 0; i < SIZE; i++)
                sum += seen[AT + i] * (float)(i + 1 + 10 * k);
        }
        ck_assert_float_eq_tol(y[BESIDE], sum, 1e-3f);
    }
    ck_assert(y[0] == x[WIDE - 1]);
    tensor_free(&t);
    bed_done(&b);
}
END_TEST

/* The critic of the first users: critic 3 of a network with states of 54 and joint
 * actions of 15; its performance network is built twice (AUTO_REUSE), then its target. */
START_TEST(test_first_users_critic)
{
    static const struct network_config net = {.hidden = {2, {128, 32}},
                                              .activation = ACTIVATION_LEAKY_RELU,
                                              .after_action = {1, {64}},
                                              .output_init = 3e-3};
    static const struct {
        const char *name;
        struct shape shape;
    } want[] = {
        {"fully_connected/weights", {2, {54, 128}}},
        {"fully_connected/biases", {1, {128}}},
        {"fully_connected_1/weights", {2, {128, 32}}},
        {"fully_connected_1/biases", {1, {32}}},
        {"fully_connected_2/weights", {2, {47, 64}}},
        {"fully_connected_2/biases", {1, {64}}},
        {"output/fully_connected/weights", {2, {64, 1}}},
        {"output/fully_connected/biases", {1, {1}}},
    };
    static const char *const scopes[] = {"critic_3/performance_network",
                                         "critic_3/performance_network",
                                         "critic_3/target_network"};
    const int n = sizeof(want) / sizeof(want[0]);
    struct graph *g = graph_new();
    struct output state = placeholder(g, DT_FLOAT, &SHAPE(-1, 54), "state");
    struct output action = placeholder(g, DT_FLOAT, &SHAPE(-1, 15), "action");
    struct session *s;
    const float *w;

    for (int i = 0; i < 3; i++) {
        struct output q, joined;
        struct shape shape;

        variable_scope_enter(g, scopes[i], NULL, REUSE_AUTO);
        q = critic_network(g, state, action, &net, &joined);
        variable_scope_leave(g);
        check_built(g);
        shape = output_shape(q);
        ck_assert(shape_equal(&shape, &SHAPE(-1, 1)));
        ck_assert(!output_valid(joined));
    }
    ck_assert_int_eq(graph_n_variables(g), 2 * n);
    for (int i = 0; i < 2 * n; i++) {
        char name[128];

        (void)snprintf(name, sizeof(name), "%s/%s", scopes[i < n ? 0 : 2],
                       want[i % n].name);
        check_variable(g, i, name, want[i % n].shape);
    }
    s = open_session(g);
    initialize(s, g);
    w = value(s, g, "critic_3/performance_network/output/fully_connected/weights");
    for (int i = 0; i < 64; i++)
        ck_assert(w[i] >= -3e-3f && w[i] < 3e-3f && w[i] != 0);
    w = value(s, g, "critic_3/target_network/output/fully_connected/biases");
    ck_assert(w[0] == 0);
    session_free(s);
    graph_free(g);
}
END_TEST

/* ---- initialisers ---- */

#define ROWS 200
#define COLS 300

struct moments {
    double mean, deviation, min, max;
};

static struct moments measure(const float *x, int n)
{
    struct moments m = {.min = 1e9, .max = -1e9};

    for (int i = 0; i < n; i++) {
        m.mean += (double)x[i] / n;
        m.min = fmin(m.min, (double)x[i]);
        m.max = fmax(m.max, (double)x[i]);
    }
    for (int i = 0; i < n; i++)
        m.deviation += ((double)x[i] - m.mean) * ((double)x[i] - m.mean) / n;
    m.deviation = sqrt(m.deviation);
    return m;
}

static const struct {
    const char *name;
    int kind;
    double mean, deviation, low, high; /* of ROWS x COLS */
} initializer_rows[] = {
    {"zeros", 0, 0, 0, 0, 0},
    {"ones", 1, 1, 0, 1, 1},
    {"constant", 2, 2.5, 0, 2.5, 2.5},
    {"uniform", 3, 1, 1 / 1.7320508, 0, 2},
    {"normal", 4, 1, 2, -12, 12},
    {"truncated", 5, 1, 2 * 0.87962566, -3, 5},
    {"glorot", 6, 0, 0.0632456, -0.1095446, 0.1095446}, /* sqrt(2/500), sqrt(6/500) */
    {"he normal", 7, 0, 0.1, -0.2273678, 0.2273678},    /* sqrt(2/200) */
    {"he uniform", 8, 0, 0.1, -0.1732051, 0.1732051},
};

static struct initializer make_initializer(int kind)
{
    switch (kind) {
    case 0:
        return zeros_initializer();
    case 1:
        return ones_initializer();
    case 2:
        return constant_initializer(2.5);
    case 3:
        return uniform_initializer(0, 2);
    case 4:
        return random_normal_initializer(1, 2);
    case 5:
        return truncated_normal_initializer(1, 2);
    case 6:
        return glorot_uniform_initializer();
    case 7:
        return he_normal_initializer();
    default:
        return he_uniform_initializer();
    }
}

START_TEST(test_initializer_statistics)
{
    struct graph *g = graph_new();
    const struct initializer init = make_initializer(initializer_rows[_i].kind);
    struct moments m;
    struct session *s;

    ck_assert_ptr_nonnull(get_variable(g, "v", DT_FLOAT, &SHAPE(ROWS, COLS), &init, 0));
    check_built(g);
    s = open_session(g);
    initialize(s, g);
    m = measure(value(s, g, "v"), ROWS * COLS);
    /* 60,000 draws: four standard errors of the mean, 1.5 % of the deviation. */
    ck_assert_double_eq_tol(m.mean, initializer_rows[_i].mean,
                            4 * initializer_rows[_i].deviation / 245 + 1e-7);
    ck_assert_double_eq_tol(m.deviation, initializer_rows[_i].deviation,
                            0.015 * initializer_rows[_i].deviation + 1e-7);
    ck_assert_double_ge(m.min, initializer_rows[_i].low - 1e-6);
    ck_assert_double_le(m.max, initializer_rows[_i].high + 1e-6);
    session_free(s);
    graph_free(g);
}
END_TEST

/* The vectors of the shorter side of a matrix are orthogonal and have length `gain`. */
static void check_vectors(const float *w, int rows, int cols, double gain)
{
    const int n = rows < cols ? rows : cols, len = rows < cols ? cols : rows;
    const int step = rows < cols ? 1 : cols, next = rows < cols ? cols : 1;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double dot = 0;

            for (int k = 0; k < len; k++)
                dot += (double)w[i * next + k * step] * (double)w[j * next + k * step];
            ck_assert_double_eq_tol(dot, i == j ? gain * gain : 0, 2e-6);
        }
    }
}

static void check_orthogonal(int rows, int cols)
{
    struct graph *g = graph_new();
    const struct initializer init = orthogonal_initializer(2);
    struct session *s;

    (void)get_variable(g, "v", DT_FLOAT, &SHAPE(rows, cols), &init, 0);
    check_built(g);
    s = open_session(g);
    initialize(s, g);
    check_vectors(value(s, g, "v"), rows, cols, 2);
    session_free(s);
    graph_free(g);
}

/* The same bytes on every machine and with every set of kernels. */
START_TEST(test_orthogonal_bytes)
{
    struct graph *g = graph_new();
    const struct initializer init = orthogonal_initializer(sqrt(2));
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    const unsigned char *bytes;
    struct session *s;

    (void)get_variable(g, "v", DT_FLOAT, &SHAPE(64, 24), &init, 0);
    check_built(g);
    s = open_session(g);
    initialize(s, g);
    bytes = (const void *)value(s, g, "v");
    for (size_t i = 0; i < 64 * 24 * sizeof(float); i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3;
    ck_assert_uint_eq(hash, 0x8bca97d13598a363);
    session_free(s);
    graph_free(g);
}
END_TEST

START_TEST(test_orthogonal)
{
    check_orthogonal(20, 20);
    check_orthogonal(40, 12);
    check_orthogonal(12, 40);
}
END_TEST

/* The policies of MAPPO's authors: LayerNorm of the input, then in each hidden layer ReLU and
 * LayerNorm; weights orthogonal, with gain sqrt 2, and output_init in the head. */
START_TEST(test_normalized_network)
{
    static const struct network_config net = {.hidden = {2, {12, 10}},
                                              .activation = ACTIVATION_RELU,
                                              .layer_norm = 1,
                                              .init = INIT_ORTHOGONAL,
                                              .output_init = 0.01};
    static const struct {
        const char *name;
        struct shape shape;
    } want[] = {
        {"LayerNorm/beta", {1, {20}}},
        {"LayerNorm/gamma", {1, {20}}},
        {"fully_connected/weights", {2, {20, 12}}},
        {"fully_connected/biases", {1, {12}}},
        {"LayerNorm_1/beta", {1, {12}}},
        {"LayerNorm_1/gamma", {1, {12}}},
        {"fully_connected_1/weights", {2, {12, 10}}},
        {"fully_connected_1/biases", {1, {10}}},
        {"LayerNorm_2/beta", {1, {10}}},
        {"LayerNorm_2/gamma", {1, {10}}},
        {"fully_connected_2/weights", {2, {10, 3}}},
        {"fully_connected_2/biases", {1, {3}}},
    };
    const int n = sizeof(want) / sizeof(want[0]);
    struct graph *g = graph_new();
    struct session *s;

    (void)mlp(g, placeholder(g, DT_FLOAT, &SHAPE(-1, 20), "x"), &net, 3);
    check_built(g);
    ck_assert_int_eq(graph_n_variables(g), n);
    for (int i = 0; i < n; i++)
        check_variable(g, i, want[i].name, want[i].shape);
    s = open_session(g);
    initialize(s, g);
    check_vectors(value(s, g, "fully_connected/weights"), 20, 12, sqrt(2));
    check_vectors(value(s, g, "fully_connected_1/weights"), 12, 10, sqrt(2));
    check_vectors(value(s, g, "fully_connected_2/weights"), 10, 3, 0.01);
    session_free(s);
    graph_free(g);
}
END_TEST

/* As in torch.nn.Linear: weights and biases lie in +-1/sqrt(inputs). */
START_TEST(test_linear_initializer)
{
    const struct initializer init = linear_initializer(ROWS);
    struct graph *g = graph_new();
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, ROWS), "x");
    struct session *s;

    (void)fully_connected_from(g, x, COLS, ACTIVATION_RELU, NULL, &init, &init);
    check_built(g);
    s = open_session(g);
    initialize(s, g);
    for (int i = 0; i < 2; i++) {
        const int n = i == 0 ? ROWS * COLS : COLS;
        const struct moments m = measure(
            value(s, g, i == 0 ? "fully_connected/weights" : "fully_connected/biases"),
            n);

        /* among 300 draws some lie beyond half of each bound */
        ck_assert_double_eq_tol(m.deviation, 1 / sqrt(3.0 * ROWS), 0.1 / sqrt(ROWS));
        ck_assert(m.min >= -1 / sqrt(ROWS) - 1e-7 && m.min < -0.5 / sqrt(ROWS));
        ck_assert(m.max <= 1 / sqrt(ROWS) + 1e-7 && m.max > 0.5 / sqrt(ROWS));
    }
    session_free(s);
    graph_free(g);
}
END_TEST

START_TEST(test_tensor_initializer)
{
    struct graph *g = graph_new();
    const struct initializer init = tensor_initializer(constant_f32(g, 7, "seven"));
    struct variable *v = get_variable(g, "v", DT_FLOAT, NULL, &init, 0);
    struct session *s;

    check_built(g);
    ck_assert_int_eq(v->shape.rank, 0);
    s = open_session(g);
    initialize(s, g);
    ck_assert_float_eq(*value(s, g, "v"), 7);
    session_free(s);
    graph_free(g);
}
END_TEST

/* ---- optimisers: names ---- */

/* Two variables and a loss sum(w^2) / 2 + sum(b), so gradients are w and ones. */
struct problem {
    struct graph *g;
    struct gradient grads[2];
};

static struct problem make_problem_of(unsigned flags)
{
    struct problem p = {.g = graph_new()};
    const struct initializer init = constant_initializer(0.5);
    struct variable *vars[2];
    struct output loss;
    struct err err;

    variable_scope_enter(p.g, "net", NULL, REUSE_INHERIT);
    vars[0] = get_variable(p.g, "w", DT_FLOAT, &SHAPE(2, 3), &init, flags);
    vars[1] = get_variable(p.g, "b", DT_FLOAT, &SHAPE(3), &init, flags);
    variable_scope_leave(p.g);
    loss = binary(p.g, "Add", unary(p.g, "L2Loss", vars[0]->read, NULL),
                  reduce(p.g, "Sum", vars[1]->read, NULL, 0, 0, NULL), NULL);
    ck_assert_int_eq(compute_gradients(p.g, loss, vars, 2, p.grads, &err), 0);
    return p;
}

static struct problem make_problem(void)
{
    return make_problem_of(0);
}

static const struct optimizer_config adam = {
    OPT_ADAM, .learning_rate = {0.1}, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

/* Optimisers of each kind. */
static const struct optimizer_config numeric_rows[] = {
    {OPT_ADAM, .learning_rate = {0.1}, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
    {OPT_ADAM, .learning_rate = {0.01}, .beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-3},
    {OPT_SGD, .learning_rate = {0.1}},
    {OPT_MOMENTUM, .learning_rate = {0.1}, .momentum = 0.9},
    {OPT_RMSPROP, .learning_rate = {0.1}, .decay = 0.9, .momentum = 0.5,
     .epsilon = 1e-10},
};

START_TEST(test_adam_names)
{
    struct problem p = make_problem();
    struct output rate;
    struct operation *op, *update;
    char buf[128];

    op = apply_gradients(p.g, &adam, p.grads, 2, NULL, NULL, &rate);
    check_built(p.g);
    ck_assert_str_eq(operation_name(op), "Adam");
    ck_assert_str_eq(operation_type(op), "NoOp");
    ck_assert_str_eq(output_name(rate, buf, sizeof(buf)), "Adam/learning_rate:0");
    check_variable(p.g, 2, "beta1_power", SHAPE_SCALAR);
    check_variable(p.g, 3, "beta2_power", SHAPE_SCALAR);
    check_variable(p.g, 4, "net/w/Adam", SHAPE(2, 3));
    check_variable(p.g, 5, "net/w/Adam_1", SHAPE(2, 3));
    check_variable(p.g, 6, "net/b/Adam", SHAPE(3));
    check_variable(p.g, 7, "net/b/Adam_1", SHAPE(3));
    ck_assert_ptr_nonnull(graph_operation(p.g, "beta1_power/initial_value"));
    ck_assert_ptr_nonnull(graph_operation(p.g, "net/w/Adam/Initializer/zeros"));
    ck_assert_ptr_nonnull(graph_operation(p.g, "Adam/epsilon"));
    update = graph_operation(p.g, "Adam/update_net/w/ApplyAdam");
    ck_assert_ptr_nonnull(update);
    check_input(update, 0, "net/w:0");
    check_input(update, 1, "net/w/Adam:0");
    check_input(update, 2, "net/w/Adam_1:0");
    check_input(update, 3, "beta1_power/read:0");
    check_input(update, 5, "Adam/learning_rate:0");
    check_input(graph_operation(p.g, "Adam/mul"), 0, "beta1_power/read:0");
    check_input(graph_operation(p.g, "Adam/Assign_1"), 1, "Adam/mul_1:0");
    ck_assert_int_eq(operation_n_control_inputs(graph_operation(p.g, "Adam/mul")), 2);
    ck_assert_int_eq(operation_n_control_inputs(op), 4);
    ck_assert_uint_eq(collection_get(p.g, TRAIN_OP, NULL, NULL), 1);
    ck_assert_uint_eq(collection_get(p.g, TRAINABLE_VARIABLES, NULL, NULL), 2);
    graph_free(p.g);
}
END_TEST

/* The second optimiser of a graph, for the same variables (tensorflow.md D.4). */
START_TEST(test_second_adam_names)
{
    struct problem p = make_problem();

    (void)apply_gradients(p.g, &adam, p.grads, 2, NULL, NULL, NULL);
    (void)apply_gradients(p.g, &adam, p.grads, 2, NULL, NULL, NULL);
    check_built(p.g);
    check_variable(p.g, 8, "beta1_power_1", SHAPE_SCALAR);
    check_variable(p.g, 10, "net/w/Adam_2", SHAPE(2, 3));
    check_variable(p.g, 11, "net/w/Adam_3", SHAPE(2, 3));
    ck_assert_ptr_nonnull(graph_operation(p.g, "Adam_1/update_net/w/ApplyAdam"));
    graph_free(p.g);
}
END_TEST

START_TEST(test_other_optimizers_names)
{
    static const struct {
        struct optimizer_config config;
        const char *group, *update, *slots[2];
    } rows[] = {
        {{OPT_SGD}, "GradientDescent", "update_net/w/ApplyGradientDescent", {NULL}},
        {{OPT_MOMENTUM}, "Momentum", "update_net/w/ApplyMomentum", {"net/w/Momentum"}},
        {{OPT_RMSPROP},
         "RMSProp",
         "update_net/w/ApplyRMSProp",
         {"net/w/RMSProp", "net/w/RMSProp_1"}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct problem p = make_problem();
        struct operation *op =
            apply_gradients(p.g, &rows[i].config, p.grads, 2, NULL, NULL, NULL);
        char name[128];

        check_built(p.g);
        ck_assert_str_eq(operation_name(op), rows[i].group);
        (void)snprintf(name, sizeof(name), "%s/%s", rows[i].group, rows[i].update);
        ck_assert_ptr_nonnull(graph_operation(p.g, name));
        for (int k = 0; k < 2 && rows[i].slots[k] != NULL; k++)
            ck_assert_ptr_nonnull(variable_find(p.g, rows[i].slots[k]));
        graph_free(p.g);
    }
}
END_TEST

START_TEST(test_gradients_of_another_shape_are_refused)
{
    struct problem p = make_problem_of(_i % 2 != 0 ? VARIABLE_RESOURCE : 0);

    p.grads[0].grad = constant_f32(p.g, 1, NULL);
    ck_assert_ptr_null(
        apply_gradients(p.g, &numeric_rows[_i / 2], p.grads, 2, NULL, NULL, NULL));
    ck_assert_int_eq(graph_error(p.g)->code, ERR_SHAPE);
    graph_free(p.g);
}
END_TEST

START_TEST(test_global_step)
{
    struct problem p = make_problem();
    const int64_t zero = 0;
    const struct tensor value = tensor_scalar_i64(&zero);
    struct variable *step =
        variable_new_constant(p.g, &value, "global_step", VARIABLE_NOT_TRAINABLE);
    struct operation *op = apply_gradients(p.g, &adam, p.grads, 2, step, NULL, NULL);
    struct session *s;
    struct tensor t;

    check_built(p.g);
    ck_assert_str_eq(operation_name(op), "Adam");
    ck_assert_str_eq(operation_type(op), "AssignAdd");
    ck_assert_ptr_nonnull(graph_operation(p.g, "Adam/update"));
    s = open_session(p.g);
    initialize(s, p.g);
    for (int i = 0; i < 3; i++)
        run_target(s, op);
    ck_assert_int_eq(session_variable(s, step, &t, NULL), 0);
    ck_assert_int_eq(*(const int64_t *)t.data, 3);
    session_free(s);
    graph_free(p.g);
}
END_TEST

/* ---- optimisers: numbers, against the formulas of the papers in double ---- */

struct scalar_state {
    double x, m, v, b1, b2;
};

static void step_by_hand(const struct optimizer_config *o, struct scalar_state *s,
                         double g)
{
    switch (o->type) {
    case OPT_ADAM:
        s->m = o->beta1 * s->m + (1 - o->beta1) * g;
        s->v = o->beta2 * s->v + (1 - o->beta2) * g * g;
        s->x -= o->learning_rate.from * sqrt(1 - s->b2) / (1 - s->b1) * s->m /
                (sqrt(s->v) + o->epsilon);
        s->b1 *= o->beta1;
        s->b2 *= o->beta2;
        break;
    case OPT_MOMENTUM:
        s->m = o->momentum * s->m + g;
        s->x -= o->learning_rate.from * s->m;
        break;
    case OPT_RMSPROP: /* the mean square starts at 1 */
        s->v = o->decay * s->v + (1 - o->decay) * g * g;
        s->m = o->momentum * s->m + o->learning_rate.from * g / sqrt(s->v + o->epsilon);
        s->x -= s->m;
        break;
    default:
        s->x -= o->learning_rate.from * g;
        break;
    }
}

/* Variables of both kinds. 1 - beta2 in float32 has three digits less, so Adam agrees in
 * five. */
START_TEST(test_optimizer_numbers)
{
    const struct optimizer_config *o = &numeric_rows[_i / 2];
    struct problem p = make_problem_of(_i % 2 != 0 ? VARIABLE_RESOURCE : 0);
    struct operation *op = apply_gradients(p.g, o, p.grads, 2, NULL, NULL, NULL);
    struct scalar_state w = {.x = 0.5, .b1 = o->beta1, .b2 = o->beta2};
    struct scalar_state b = w;
    struct session *s;

    check_built(p.g);
    w.v = b.v = o->type == OPT_RMSPROP;
    s = open_session(p.g);
    initialize(s, p.g);
    for (int t = 0; t < 10; t++) {
        run_target(s, op);
        step_by_hand(o, &w, w.x);
        step_by_hand(o, &b, 1);
        for (int i = 0; i < 6; i++)
            ck_assert_float_eq_tol(value(s, p.g, "net/w")[i], (float)w.x, 1e-5f);
        for (int i = 0; i < 3; i++)
            ck_assert_float_eq_tol(value(s, p.g, "net/b")[i], (float)b.x, 1e-5f);
    }
    if (o->type == OPT_ADAM)
        ck_assert_float_eq_tol(*value(s, p.g, "beta1_power"), (float)w.b1, 1e-6f);
    session_free(s);
    graph_free(p.g);
}
END_TEST

/* The learning rate is fed like a live setting: at rate 0, no variable changes. */
START_TEST(test_fed_learning_rate)
{
    struct problem p = make_problem();
    const float zero = 0;
    struct feed feed = {.value = tensor_scalar_f32(&zero)};
    struct operation *op =
        apply_gradients(p.g, &adam, p.grads, 2, NULL, NULL, &feed.output);
    const struct run_args run = {
        .feeds = &feed, .n_feeds = 1, .targets = &op, .n_targets = 1};
    struct session *s = open_session(p.g);
    struct err err;

    initialize(s, p.g);
    ck_assert_msg(session_run(s, &run, NULL, &err) == 0, "%s", err.msg);
    ck_assert_float_eq(value(s, p.g, "net/w")[0], 0.5f);
    run_target(s, op);
    ck_assert_float_ne(value(s, p.g, "net/w")[0], 0.5f);
    session_free(s);
    graph_free(p.g);
}
END_TEST

/* ---- clipping: gradients are w = 0.5 (6 of them) and 1 (3) ---- */

static void check_clipped(int global, double clip_norm, double want_w, double want_b)
{
    struct problem p = make_problem();
    struct output clip = constant_f32(p.g, (float)clip_norm, NULL);
    struct output norm = global_norm(p.g, p.grads, 2);
    struct output fetches[3];
    struct tensor t[3] = {0};
    struct run_args run = {.fetches = fetches, .n_fetches = 3};
    struct session *s;
    struct err err;

    if (global)
        clip_gradients_by_global_norm(p.g, p.grads, 2, norm, clip);
    else
        clip_gradients_by_norm(p.g, p.grads, 2, clip);
    check_built(p.g);
    fetches[0] = norm;
    fetches[1] = p.grads[0].grad;
    fetches[2] = p.grads[1].grad;
    s = open_session(p.g);
    initialize(s, p.g);
    ck_assert_msg(session_run(s, &run, t, &err) == 0, "%s", err.msg);
    ck_assert_float_eq_tol(*tensor_f32(&t[0]), 2.1213203f, 1e-6f);
    ck_assert_float_eq_tol(tensor_f32(&t[1])[5], (float)want_w, 1e-6f);
    ck_assert_float_eq_tol(tensor_f32(&t[2])[2], (float)want_b, 1e-6f);
    for (int i = 0; i < 3; i++)
        tensor_free(&t[i]);
    session_free(s);
    graph_free(p.g);
}

START_TEST(test_clipping)
{
    check_clipped(0, 1.0, 0.5 / sqrt(1.5), 1 / sqrt(3.0)); /* both are longer than 1 */
    check_clipped(0, 1.5, 0.5, 1.5 / sqrt(3.0));           /* one is longer than 1.5 */
    check_clipped(1, 1.0, 0.5 / sqrt(4.5), 1 / sqrt(4.5));
    check_clipped(1, 3.0, 0.5, 1.0);
    check_clipped(0, 0x1p64, 0.5, 1.0);
    check_clipped(1, 0x1p64, 0.5, 1.0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("nn");
    TCase *tc = tcase_create("nn");

    tcase_add_test(tc, test_fully_connected_names);
    tcase_add_test(tc, test_reuse_lists_once);
    tcase_add_test(tc, test_activations);
    tcase_add_loop_test(tc, test_layer_norm, 0, 2);
    tcase_add_test(tc, test_mlp);
    tcase_add_test(tc, test_pictures);
    tcase_add_test(tc, test_pictures_beside_numbers);
    tcase_add_test(tc, test_first_users_critic);
    tcase_add_loop_test(tc, test_initializer_statistics, 0,
                        sizeof(initializer_rows) / sizeof(initializer_rows[0]));
    tcase_add_test(tc, test_orthogonal);
    tcase_add_test(tc, test_orthogonal_bytes);
    tcase_add_test(tc, test_normalized_network);
    tcase_add_test(tc, test_linear_initializer);
    tcase_add_test(tc, test_tensor_initializer);
    tcase_add_test(tc, test_adam_names);
    tcase_add_test(tc, test_second_adam_names);
    tcase_add_test(tc, test_other_optimizers_names);
    tcase_add_test(tc, test_global_step);
    tcase_add_loop_test(tc, test_gradients_of_another_shape_are_refused, 0,
                        2 * sizeof(numeric_rows) / sizeof(numeric_rows[0]));
    tcase_add_loop_test(tc, test_optimizer_numbers, 0,
                        2 * sizeof(numeric_rows) / sizeof(numeric_rows[0]));
    tcase_add_test(tc, test_fed_learning_rate);
    tcase_add_test(tc, test_clipping);
    suite_add_tcase(suite, tc);
    return suite;
}
TEST_MAIN(make_suite)
