/* The first users' critic, 54 -> 128 -> 32, joined with 15 action columns, -> 64 -> 1:
 * one iteration of accept_reject (perturb, evaluate, keep or revert) against one step of
 * gradient descent; storing and restoring all variables against copying their bytes
 * twice. Both sides in turn, medians.
 *
 *     bench_accept_reject [rounds]
 */
#include "agent/graph/ops.h"
#include "agent/nn/accept_reject.h"
#include "agent/nn/nn.h"
#include "agent/session/memory.h"
#include "tests/bench/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OBS = 54, ACTION = 15, BATCH = 1024, MAX_VARIABLES = 16 };

struct critic {
    struct graph *g;
    struct session *s;
    struct output inputs[3], loss;
    struct operation *train;
};

static void die(const char *what)
{
    (void)fprintf(stderr, "bench_accept_reject: %s\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct output network(struct critic *c)
{
    struct output h = c->inputs[0];
    h = fully_connected(c->g, h, 128, ACTIVATION_LEAKY_RELU, NULL, NULL);
    h = fully_connected(c->g, h, 32, ACTIVATION_LEAKY_RELU, NULL, NULL);
    h = concat(c->g, (struct output[]){h, c->inputs[1]}, 2, 1, NULL);
    h = fully_connected(c->g, h, 64, ACTIVATION_LEAKY_RELU, NULL, NULL);
    return fully_connected(c->g, h, 1, ACTIVATION_LINEAR, NULL, NULL);
}

static void build(struct critic *c)
{
    static const int64_t widths[3] = {OBS, ACTION, 1};
    const struct optimizer_config sgd = {.type = OPT_SGD, .learning_rate = {1e-4}};
    const struct collection_item *items;
    struct output reads[MAX_VARIABLES], grads[MAX_VARIABLES];
    struct gradient pairs[MAX_VARIABLES];
    struct operation *init;
    struct err err;
    c->g = graph_new();
    for (int i = 0; i < 3; i++)
        c->inputs[i] = placeholder(c->g, DT_FLOAT, &SHAPE(-1, widths[i]), NULL);
    c->loss = reduce(c->g, "Mean",
                     binary(c->g, "SquaredDifference", network(c), c->inputs[2], NULL),
                     NULL, 0, 0, NULL);
    size_t n = collection_get(c->g, TRAINABLE_VARIABLES, NULL, &items);
    for (size_t i = 0; i < n; i++)
        reads[i] = items[i].variable->read;
    if (graph_gradients(c->g, &c->loss, 1, reads, n, NULL, NULL, 0, grads, &err) < 0)
        die(err.msg);
    for (size_t i = 0; i < n; i++)
        pairs[i] = (struct gradient){grads[i], items[i].variable};
    c->train = apply_gradients(c->g, &sgd, pairs, n, NULL, NULL, NULL);
    init = global_variables_initializer(c->g, NULL);
    if (graph_error(c->g))
        die(graph_error(c->g)->msg);
    struct run_args args = {.targets = &init, .n_targets = 1};
    if (session_new(&c->s, c->g, NULL, &err) < 0 ||
        session_run(c->s, &args, NULL, &err) < 0)
        die(err.msg);
}

static void measure_steps(struct critic *c, int rounds, const struct feed *feeds)
{
    struct run_args descent = {
        .feeds = feeds, .n_feeds = 3, .targets = &c->train, .n_targets = 1};
    double *gradient = calloc((size_t)rounds, sizeof(double));
    double *noise = calloc((size_t)rounds, sizeof(double));
    struct run_args evaluation = {
        .feeds = feeds, .n_feeds = 3, .fetches = &c->loss, .n_fetches = 1};
    struct accept_reject *a;
    struct err err;
    float loss;
    struct tensor place = tensor_view(DT_FLOAT, SHAPE_SCALAR, &loss);
    if (accept_reject_new(&a, c->s, NULL, rng_key_make(1, "bench", "noise"), &err) < 0 ||
        accept_reject_begin(a, &evaluation, &place, &err) < 0)
        die(err.msg);
    for (int r = -3; r < rounds; r++) {
        double t0 = now();
        if (session_run(c->s, &descent, NULL, &err) < 0)
            die(err.msg);
        double t1 = now();
        if (accept_reject_step(a, 1e-3f, &loss, &err) < 0)
            die(err.msg);
        double t2 = now();
        if (r >= 0) {
            gradient[r] = t1 - t0;
            noise[r] = t2 - t1;
        }
    }
    double g = median(gradient, (size_t)rounds), n = median(noise, (size_t)rounds);
    (void)printf("batch %4lld: accept_reject %7.1f us, gradient descent %7.1f us, "
                 "ratio %.2f\n",
                 (long long)feeds[0].value.shape.dim[0], n * 1e6, g * 1e6, n / g);
    accept_reject_free(a);
    free(gradient);
    free(noise);
}

static void measure_memory(struct critic *c, int rounds)
{
    double *ours = calloc((size_t)rounds, sizeof(double));
    double *copies = calloc((size_t)rounds, sizeof(double));
    struct memory *m;
    struct err err;
    if (memory_new(&m, c->s, NULL, 0, &err) < 0)
        die(err.msg);
    size_t bytes = memory_bytes(m);
    char *from = aligned_alloc(64, bytes / 64 * 64 + 64);
    char *to = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (!from || !to)
        die("no memory");
    memset(from, 1, bytes);
    for (int r = -3; r < rounds; r++) {
        double t0 = now();
        memory_store(m);
        (void)memory_restore(m, NULL);
        double t1 = now();
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
        double t2 = now();
        if (r >= 0) {
            ours[r] = t1 - t0;
            copies[r] = t2 - t1;
        }
    }
    double o = median(ours, (size_t)rounds), c1 = median(copies, (size_t)rounds);
    (void)printf(
        "store + restore of %zu bytes %6.2f us, one memcpy %6.2f us, ratio %.2f\n", bytes,
        o * 1e6, c1 * 1e6, o / c1);
    memory_free(m);
    free(from);
    free(to);
    free(ours);
    free(copies);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 300;
    struct critic c = {0};
    float *data = aligned_alloc(64, sizeof(float) * BATCH * OBS);
    if (!data || rounds < 1)
        die("no memory, or no rounds");
    for (int i = 0; i < BATCH * OBS; i++)
        data[i] = (float)(i * 7919 % 2001) / 1000.0f - 1.0f;
    build(&c);
    for (int64_t batch = 64; batch <= BATCH; batch *= 4) {
        struct feed feeds[3] = {
            {c.inputs[0], tensor_view(DT_FLOAT, SHAPE(batch, OBS), data)},
            {c.inputs[1], tensor_view(DT_FLOAT, SHAPE(batch, ACTION), data)},
            {c.inputs[2], tensor_view(DT_FLOAT, SHAPE(batch, 1), data)},
        };
        measure_steps(&c, rounds, feeds);
    }
    measure_memory(&c, rounds * 10);
    session_free(c.s);
    graph_free(c.g);
    free(data);
    return 0;
}
