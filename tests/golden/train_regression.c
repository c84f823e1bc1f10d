/* Trains a small regression whose loss contains random draws, and saves it on the way:
 *
 *     train_regression DIR OPTIMIZER [TASKS]
 *
 * writes DIR/m-10 and DIR/m-20, the variables after 10 and 20 steps, each with its .meta.
 * TASKS: replica_device_setter spreads the variables over this number of parameter
 * servers; one session runs them all. Step t is the run of `train` with x:0 and y:0 fed
 * and the counter t (run_meta.c).
 */
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/saver/saver.h"
#include "common/err/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, ROWS = 4, INPUTS = 3, OUTPUTS = 2, MAX_VARIABLES = 8 };

static const struct {
    const char *name;
    struct optimizer_config config;
} optimizers[] = {
    {"adam",
     {OPT_ADAM, .learning_rate = {0.1}, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}},
    {"sgd", {OPT_SGD, .learning_rate = {0.01}}},
    {"momentum", {OPT_MOMENTUM, .learning_rate = {0.01}, .momentum = 0.9}},
    {"rmsprop",
     {OPT_RMSPROP, .learning_rate = {0.01}, .decay = 0.9, .momentum = 0.5,
      .epsilon = 1e-10}},
};

static const struct optimizer_config *find_optimizer(const char *name)
{
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
        if (strcmp(optimizers[i].name, name) == 0)
            return &optimizers[i].config;
    CHECK(0, "no optimizer %s", name);
    return NULL;
}

static struct output noisy_loss(struct graph *g)
{
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, INPUTS), "x");
    struct output y = placeholder(g, DT_FLOAT, &SHAPE(-1, OUTPUTS), "y"), noise;

    x = fully_connected(g, x, 8, ACTIVATION_RELU, NULL, NULL);
    x = fully_connected(g, x, OUTPUTS, ACTIVATION_LINEAR, NULL, NULL);
    noise = random_normal(g, shape_of(g, x, NULL), 0, 0.1f, "noise");
    x = binary(g, "Add", binary(g, "Sub", x, y, NULL), noise, NULL);
    return reduce(g, "Mean", unary(g, "Square", x, NULL), NULL, 0, 0, "loss");
}

static void build(struct graph *g, const struct optimizer_config *o)
{
    struct output loss = noisy_loss(g);
    struct variable *vars[MAX_VARIABLES];
    struct gradient grads[MAX_VARIABLES];
    const struct collection_item *items;
    size_t n = collection_get(g, TRAINABLE_VARIABLES, NULL, &items);
    struct variable *step;
    struct err err = {0};

    CHECK(n <= MAX_VARIABLES);
    for (size_t i = 0; i < n; i++)
        vars[i] = items[i].variable;
    step = get_or_create_global_step(g);
    CHECK(compute_gradients(g, loss, vars, n, grads, &err) == 0, "%s", err.msg);
    (void)apply_gradients(g, o, grads, n, step, "train", NULL);
    (void)global_variables_initializer(g, NULL);
    CHECK(graph_error(g) == NULL, "%s", graph_error(g)->msg);
}

static void run(struct graph *g, struct session *s, const char *target, uint64_t counter)
{
    static const float x[ROWS * INPUTS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const float y[ROWS * OUTPUTS] = {1, 0, 2, 0, 3, 0, 4, 0};
    struct feed feeds[2] = {
        {.value = tensor_const_view(DT_FLOAT, SHAPE(ROWS, INPUTS), x)},
        {.value = tensor_const_view(DT_FLOAT, SHAPE(ROWS, OUTPUTS), y)},
    };
    struct operation *op = graph_operation(g, target);
    struct run_args args = {.feeds = feeds,
                            .n_feeds = 2,
                            .targets = &op,
                            .n_targets = 1,
                            .key = rng_key_make(5, "test", "run"),
                            .counter = counter};
    struct err err = {0};

    CHECK(graph_tensor(g, "x:0", &feeds[0].output, &err) == 0 &&
              graph_tensor(g, "y:0", &feeds[1].output, &err) == 0,
          "%s", err.msg);
    CHECK(session_run(s, &args, NULL, &err) == 0, "%s", err.msg);
}

int main(int argc, char **argv)
{
    struct graph *g = graph_new();
    struct saver *saver;
    struct session *s;
    struct err err = {0};
    char prefix[4096];

    CHECK(argc == 3 || argc == 4, "train_regression DIR OPTIMIZER [TASKS]");
    if (argc == 4)
        replica_device_enter(g, atoi(argv[3]), NULL);
    build(g, find_optimizer(argv[2]));
    if (argc == 4)
        device_leave(g);
    CHECK(saver_new(&saver, g, NULL, &err) == 0, "%s", err.msg);
    CHECK(session_new(&s, g, NULL, &err) == 0, "%s", err.msg);
    run(g, s, "init", 0);
    for (uint64_t t = 1; t <= STEPS; t++) {
        run(g, s, "train", t);
        (void)snprintf(prefix, sizeof(prefix), "%s/m-%d", argv[1], (int)t);
        if (t % 10 == 0)
            CHECK(saver_save(saver, s, prefix, NULL, NULL, &err) == 0, "%s", err.msg);
    }
    session_free(s);
    saver_free(saver);
    graph_free(g);
    return 0;
}
