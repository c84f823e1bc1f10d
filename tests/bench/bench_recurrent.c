/* Recurrent cells of 64 units: a step of all rows, as to act, and forward and backward passes
 * over a sequence, as to learn, against OpenBLAS's time for their matrix products alone
 * (yardstick.h). Both in turn, the best of the rounds; then where the time of a sequence goes.
 *
 *     bench_recurrent [rounds [rows]]
 */
#include "agent/graph/ops.h"
#include "agent/nn/recurrent.h"
#include "agent/session/session_internal.h"
#include "common/err/check.h"
#include "tests/bench/breakdown.h"
#include "tests/bench/yardstick.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { UNITS = 64, STEPS = 25, ROWS = 1024, MAX_GEMMS = 2048 };

struct net {
    struct graph *g;
    struct session *s;
    struct output x, first, carry, next, grads[6];
    size_t n_grads;
    int64_t width;
};

static const char *const names[] = {"gru", "basic_lstm_cell"};

static struct output input(struct graph *g, int64_t columns)
{
    return placeholder(g, DT_FLOAT, &SHAPE(-1, columns), NULL);
}

static void build(struct net *n, enum cell_type type)
{
    struct operation *init;
    struct run_args run = {.targets = &init, .n_targets = 1};
    struct cell cell;
    struct output xs[6], loss;
    struct err err;

    *n = (struct net){.g = graph_new(), .width = cell_carry_width(type, UNITS)};
    n->x = input(n->g, UNITS);
    n->first = input(n->g, 1);
    n->carry = input(n->g, n->width);
    cell = cell_new(n->g, type, UNITS, UNITS, NULL, NULL, NULL);
    n->next = cell_step(n->g, &cell, n->x, n->carry);
    loss = cell_unroll(n->g, &cell, n->x, n->carry, n->first, STEPS, NULL);
    loss = reduce(n->g, "Mean", unary(n->g, "Square", loss, NULL), NULL, 0, 0, NULL);
    for (int i = 0; i < graph_n_variables(n->g); i++)
        xs[n->n_grads++] = graph_variable_at(n->g, i)->read;
    xs[n->n_grads++] = n->x; /* layers before the cell need the gradient of its input */
    CHECK(graph_gradients(n->g, &loss, 1, xs, n->n_grads, NULL, NULL, 0, n->grads,
                          &err) == 0,
          "%s", err.msg);
    init = global_variables_initializer(n->g, NULL);
    CHECK(session_new(&n->s, n->g, NULL, &err) == 0, "%s", err.msg);
    CHECK(session_run(n->s, &run, NULL, &err) == 0, "%s", err.msg);
}

static double now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_once(struct net *n, const struct run_args *args, struct tensor *ret)
{
    struct err err;

    CHECK(session_run(n->s, args, ret, &err) == 0, "%s", err.msg);
}

static void measure(struct net *n, const char *what, const struct run_args *args,
                    int rounds)
{
    struct tensor ret[6] = {0};
    struct dense *gemms = calloc(MAX_GEMMS, sizeof(*gemms));
    double ours = INFINITY, alone = INFINITY;
    size_t n_gemms;

    CHECK(gemms != NULL);
    for (int i = 0; i < 3; i++)
        run_once(n, args, ret);
    n_gemms = session_gemms(n->s, args, gemms, MAX_GEMMS);
    CHECK(n_gemms <= MAX_GEMMS);
    yardstick_prepare(gemms, n_gemms);
    for (int i = 0; i < rounds; i++) {
        const double begin = now();
        double middle;

        run_once(n, args, ret);
        middle = now();
        yardstick_run(gemms, n_gemms);
        ours = fmin(ours, middle - begin);
        alone = fmin(alone, now() - middle);
    }
    (void)printf("  %-32s %8.1f us, its %zu products alone %8.1f us, ratio %.2f\n", what,
                 ours * 1e6, n_gemms, alone * 1e6, ours / alone);
    for (int i = 0; i < rounds && args->n_fetches > 1; i++) {
        breakdown_begin();
        run_once(n, args, ret);
        breakdown_round();
    }
    if (args->n_fetches > 1)
        breakdown_end();
    for (size_t i = 0; i < args->n_fetches; i++)
        tensor_free(&ret[i]);
    free(gemms);
}

static void measure_rows(struct net *n, int64_t rows, const float *data,
                         const float *zeros, int rounds)
{
    struct feed feeds[] = {
        {n->x, tensor_const_view(DT_FLOAT, SHAPE(rows, UNITS), data)},
        {n->carry, tensor_const_view(DT_FLOAT, SHAPE(rows, n->width), data)},
        {n->first, tensor_const_view(DT_FLOAT, SHAPE(rows * STEPS, 1), zeros)},
    };
    struct run_args args = {
        .feeds = feeds, .n_feeds = 2, .fetches = &n->next, .n_fetches = 1};
    char what[64];

    (void)snprintf(what, sizeof(what), "a step of %lld rows", (long long)rows);
    measure(n, what, &args, rounds);
    feeds[0].value = tensor_const_view(DT_FLOAT, SHAPE(rows * STEPS, UNITS), data);
    args.n_feeds = 3;
    args.fetches = n->grads;
    args.n_fetches = n->n_grads;
    (void)snprintf(what, sizeof(what), "%d steps of %lld rows and back", STEPS,
                   (long long)rows);
    measure(n, what, &args, rounds);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 10;
    static const int sizes[] = {32, 128, ROWS};
    const int only = argc > 2 ? atoi(argv[2]) : 0;
    const size_t n = (size_t)ROWS * STEPS * UNITS;
    float *data = aligned_alloc(64, n * sizeof(float)), *zeros = calloc(n, sizeof(float));

    CHECK(data != NULL && zeros != NULL && rounds > 0);
    for (size_t i = 0; i < n; i++)
        data[i] = (float)(i * 7919 % 2001) / 1000.0f - 1.0f;
    for (int type = CELL_GRU; type <= CELL_LSTM; type++) {
        struct net net;

        build(&net, (enum cell_type)type);
        (void)printf("%s\n", names[type]);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            if (only == 0 || sizes[i] == only)
                measure_rows(&net, sizes[i], data, zeros, rounds * ROWS / sizes[i]);
        session_free(net.s);
        graph_free(net.g);
    }
    free(data);
    free(zeros);
    return 0;
}
