/* Saves a recurrent network's first values with its .meta, for recurrent_numpy.py:
 *
 *     save_recurrent PREFIX CELL              CELL: gru or basic_lstm_cell
 *
 * x (L R, 3), first (L R, 1), carry (R, H) and y (L R, 2) are fed. The cell's outputs are
 * `outputs`, its last carry `last`; then layer normalisation, a tanh layer as torch
 * initialises it, and the mean squared error `loss`, which `train` lowers (Adam).
 */
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/nn/recurrent.h"
#include "agent/saver/saver.h"
#include "common/err/check.h"

#include <string.h>

enum { STEPS = 7, INPUTS = 3, UNITS = 6, OUTPUTS = 2, MAX_VARIABLES = 16 };

static enum cell_type find_type(const char *name)
{
    static const char *const names[] = {"gru", "basic_lstm_cell"};

    for (int i = 0; i < 2; i++)
        if (strcmp(names[i], name) == 0)
            return (enum cell_type)i;
    CHECK(0, "no cell %s", name);
    return CELL_GRU;
}

static struct output build_loss(struct graph *g, enum cell_type type)
{
    const struct initializer init = linear_initializer(UNITS);
    const int64_t width = cell_carry_width(type, UNITS);
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, INPUTS), "x");
    struct output first = placeholder(g, DT_FLOAT, &SHAPE(-1, 1), "first");
    struct output carry = placeholder(g, DT_FLOAT, &SHAPE(-1, width), "carry");
    struct output y = placeholder(g, DT_FLOAT, &SHAPE(-1, OUTPUTS), "y"), last;
    struct cell cell = cell_new(g, type, INPUTS, UNITS, NULL, NULL, NULL);

    x = cell_unroll(g, &cell, x, carry, first, STEPS, &last);
    (void)unary(g, "Identity", x, "outputs");
    (void)unary(g, "Identity", last, "last");
    x = layer_norm(g, x, LAYER_NORM_TORCH, NULL);
    x = fully_connected_from(g, x, OUTPUTS, ACTIVATION_TANH, NULL, &init, &init);
    x = binary(g, "Sub", x, y, NULL);
    return reduce(g, "Mean", unary(g, "Square", x, NULL), NULL, 0, 0, "loss");
}

static void build(struct graph *g, enum cell_type type)
{
    const struct optimizer_config adam = {OPT_ADAM, .learning_rate = {0.01}, .beta1 = 0.9,
                                          .beta2 = 0.999, .epsilon = 1e-5};
    struct output loss = build_loss(g, type);
    struct variable *vars[MAX_VARIABLES];
    struct gradient grads[MAX_VARIABLES];
    const struct collection_item *items;
    size_t n = collection_get(g, TRAINABLE_VARIABLES, NULL, &items);
    struct err err = {0};

    CHECK(n <= MAX_VARIABLES);
    for (size_t i = 0; i < n; i++)
        vars[i] = items[i].variable;
    CHECK(compute_gradients(g, loss, vars, n, grads, &err) == 0, "%s", err.msg);
    (void)apply_gradients(g, &adam, grads, n, NULL, "train", NULL);
    (void)global_variables_initializer(g, NULL);
    CHECK(graph_error(g) == NULL, "%s", graph_error(g)->msg);
}

int main(int argc, char **argv)
{
    struct graph *g = graph_new();
    struct run_args run = {.n_targets = 1, .key = rng_key_make(3, "test", "init")};
    struct operation *init;
    struct saver *saver;
    struct session *s;
    struct err err = {0};

    CHECK(argc == 3, "save_recurrent PREFIX CELL");
    build(g, find_type(argv[2]));
    CHECK(saver_new(&saver, g, NULL, &err) == 0, "%s", err.msg);
    CHECK(session_new(&s, g, NULL, &err) == 0, "%s", err.msg);
    init = graph_operation(g, "init");
    run.targets = &init;
    CHECK(session_run(s, &run, NULL, &err) == 0, "%s", err.msg);
    CHECK(saver_save(saver, s, argv[1], NULL, NULL, &err) == 0, "%s", err.msg);
    session_free(s);
    saver_free(saver);
    graph_free(g);
    return 0;
}
