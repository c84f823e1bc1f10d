/* The first users' critic, observation 54 -> 128 -> 32, joined with 15 action columns,
 * -> 64 -> 1: forward, backward and Adam in one session_run, against OpenBLAS's time
 * for its matrix products alone (yardstick.h). Both in turn, medians.
 *
 *     bench_critic [rounds [batch]]
 */
#include "agent/graph/ops.h"
#include "agent/session/session.h"
#include "agent/session/session_internal.h"
#include "tests/bench/breakdown.h"
#include "tests/bench/median.h"
#include "tests/bench/yardstick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OBS = 54, ACTION = 15, MAX_BATCH = 1024, MAX_LAYERS = 8, MAX_GEMMS = 64 };

struct critic {
    struct graph *g;
    struct session *s;
    struct output obs, action, target;
    struct operation *train;
    struct variable *vars[MAX_LAYERS];
    size_t n_vars;
};

static void die(const char *what)
{
    (void)fprintf(stderr, "bench_critic: %s\n", what);
    exit(1);
}

static struct output input(struct graph *g, int64_t columns)
{
    struct shape s = SHAPE(-1, columns);
    return placeholder(g, DT_FLOAT, &s, NULL);
}

static struct variable *filled(struct graph *g, struct shape s, float value,
                               const char *name)
{
    struct tensor t = TENSOR_NONE;
    if (tensor_alloc(&t, DT_FLOAT, s, NULL) < 0)
        die("no memory");
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        tensor_f32(&t)[i] = value * (float)(i * 7919 % 1000 - 500) / 500.0f;
    struct variable *v = variable_new(g, constant(g, &t, NULL), name, 0);
    tensor_free(&t);
    return v;
}

static struct output layer(struct critic *c, struct output x, int64_t n, int linear)
{
    struct shape in = output_shape(x);
    struct variable *w = filled(c->g, SHAPE(in.dim[1], n), 0.1f, "weights");
    struct variable *b = filled(c->g, SHAPE(n), 0.01f, "biases");
    c->vars[c->n_vars++] = w;
    c->vars[c->n_vars++] = b;
    struct output y = bias_add(c->g, matmul(c->g, x, w->read, 0, 0, NULL), b->read, NULL);
    return linear ? y : leaky_relu(c->g, y, 0.2f, NULL);
}

static struct operation *adam(struct critic *c, struct variable *v, struct output grad)
{
    static const float constants[] = {0.9f, 0.999f, 0.001f, 0.9f, 0.999f, 1e-8f};
    struct op_builder *b;
    struct output slots[2];
    for (int i = 0; i < 2; i++)
        slots[i] = filled(c->g, v->shape, 0.0f, "slot")->ref;
    struct output values[6];
    for (int i = 0; i < 6; i++)
        values[i] = constant_f32(c->g, constants[i], NULL);
    b = op_begin(c->g, "ApplyAdam", NULL);
    op_input(b, v->ref);
    op_input(b, slots[0]);
    op_input(b, slots[1]);
    for (int i = 0; i < 6; i++)
        op_input(b, values[i]);
    op_input(b, grad);
    return op_finish(b);
}

static void build(struct critic *c)
{
    struct err err;
    c->g = graph_new();
    c->obs = input(c->g, OBS);
    c->action = input(c->g, ACTION);
    c->target = input(c->g, 1);
    struct output h = layer(c, layer(c, c->obs, 128, 0), 32, 0);
    h = concat(c->g, (struct output[]){h, c->action}, 2, 1, NULL);
    struct output q = layer(c, layer(c, h, 64, 0), 1, 1);
    struct output loss =
        reduce(c->g, "Mean",
               unary(c->g, "Square", binary(c->g, "Sub", q, c->target, NULL), NULL), NULL,
               0, 0, NULL);
    struct output reads[MAX_LAYERS], grads[MAX_LAYERS];
    struct operation *updates[MAX_LAYERS];
    for (size_t i = 0; i < c->n_vars; i++)
        reads[i] = c->vars[i]->read;
    if (graph_gradients(c->g, &loss, 1, reads, c->n_vars, NULL, NULL, 0, grads, &err) < 0)
        die(err.msg);
    for (size_t i = 0; i < c->n_vars; i++)
        updates[i] = adam(c, c->vars[i], grads[i]);
    c->train = group(c->g, updates, c->n_vars, NULL);
    struct operation *init = global_variables_initializer(c->g, NULL);
    if (graph_error(c->g))
        die(graph_error(c->g)->msg);
    struct run_args args = {.targets = &init, .n_targets = 1};
    if (session_new(&c->s, c->g, NULL, &err) < 0 ||
        session_run(c->s, &args, NULL, &err) < 0)
        die(err.msg);
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(struct critic *c, int64_t batch, int rounds, float *data)
{
    struct feed feeds[3] = {
        {c->obs, tensor_view(DT_FLOAT, SHAPE(batch, OBS), data)},
        {c->action, tensor_view(DT_FLOAT, SHAPE(batch, ACTION), data)},
        {c->target, tensor_view(DT_FLOAT, SHAPE(batch, 1), data)},
    };
    struct run_args args = {
        .feeds = feeds, .n_feeds = 3, .targets = &c->train, .n_targets = 1};
    struct dense gemms[MAX_GEMMS];
    double *step = calloc((size_t)rounds, sizeof(double));
    double *alone = calloc((size_t)rounds, sizeof(double));
    struct err err;
    size_t n = 0;
    for (int r = -3; r < rounds; r++) {
        double t0 = now();
        if (session_run(c->s, &args, NULL, &err) < 0)
            die(err.msg);
        double t1 = now();
        if (r == -3) {
            n = session_gemms(c->s, &args, gemms, MAX_GEMMS);
            yardstick_prepare(gemms, n);
        }
        double t2 = now();
        yardstick_run(gemms, n);
        double t3 = now();
        if (r >= 0) {
            step[r] = t1 - t0;
            alone[r] = t3 - t2;
        }
    }
    double s = median(step, (size_t)rounds), a = median(alone, (size_t)rounds);
    (void)printf("batch %4lld: step %7.1f us, its %zu products alone %7.1f us, "
                 "ratio %.2f\n",
                 (long long)batch, s * 1e6, n, a * 1e6, s / a);
    for (int r = 0; r < rounds; r++) {
        breakdown_begin();
        if (session_run(c->s, &args, NULL, &err) < 0)
            die(err.msg);
        breakdown_round();
    }
    breakdown_end();
    free(step);
    free(alone);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 300, only = argc > 2 ? atoi(argv[2]) : 0;
    struct critic c = {0};
    size_t n = (size_t)MAX_BATCH * 128;
    float *data = aligned_alloc(64, n * sizeof(float));
    if (!data || rounds < 1)
        die("no memory, or no rounds");
    for (size_t i = 0; i < n; i++)
        data[i] = (float)(i * 7919 % 2001) / 1000.0f - 1.0f;
    build(&c);
    for (int64_t batch = 64; batch <= MAX_BATCH; batch *= 4)
        if (only == 0 || batch == only)
            measure(&c, batch, rounds, data);
    session_free(c.s);
    graph_free(c.g);
    free(data);
    return 0;
}
