#include "agent/nn/nn.h"

#include "agent/graph/ops.h"

#define LEAKY_RELU_ALPHA 0.2f

struct output activate(struct graph *g, struct output x, enum activation activation)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return unary(g, "Relu", x, NULL);
    case ACTIVATION_LEAKY_RELU:
        return leaky_relu(g, x, LEAKY_RELU_ALPHA, NULL);
    case ACTIVATION_TANH:
        return unary(g, "Tanh", x, NULL);
    case ACTIVATION_ELU:
        return unary(g, "Elu", x, NULL);
    case ACTIVATION_SIGMOID:
        return unary(g, "Sigmoid", x, NULL);
    case ACTIVATION_LINEAR:
        break;
    }
    return x;
}

/* How the two families of layers differ: names, and who lists the variables. */
struct layer_style {
    const char *scope, *weights, *biases;
    int model_variables;
};

static const struct layer_style contrib_layers = {"fully_connected", "weights", "biases",
                                                  1};
static const struct layer_style tf_layers = {"dense", "kernel", "bias", 0};

/* A variable found by reuse is in its collections already. */
static struct output layer_variable(struct graph *g, const struct layer_style *style,
                                    const char *name, const struct shape *shape,
                                    const struct initializer *init)
{
    int n_before = graph_n_variables(g);
    struct variable *v = get_variable(g, name, DT_FLOAT, shape, init, 0);

    if (v == NULL)
        return OUTPUT_NONE;
    if (style->model_variables && graph_n_variables(g) > n_before)
        collection_add(g, MODEL_VARIABLES,
                       (struct collection_item){.kind = ITEM_VARIABLE, .variable = v});
    return v->read;
}

static struct output layer(struct graph *g, struct output x, int64_t n_outputs,
                           enum activation activation, const char *scope,
                           const struct initializer *weights,
                           const struct layer_style *style)
{
    const struct initializer glorot = glorot_uniform_initializer();
    const struct initializer zeros = zeros_initializer();
    struct shape in;
    struct output w, b;

    if (!output_valid(x))
        return OUTPUT_NONE;
    in = output_shape(x);
    variable_scope_enter(g, scope, style->scope, REUSE_INHERIT);
    w = layer_variable(g, style, style->weights,
                       &SHAPE(in.rank > 0 ? in.dim[in.rank - 1] : -1, n_outputs),
                       weights != NULL ? weights : &glorot);
    b = layer_variable(g, style, style->biases, &SHAPE(n_outputs), &zeros);
    x = bias_add(g, matmul(g, x, w, 0, 0, NULL), b, NULL);
    x = activate(g, x, activation);
    variable_scope_leave(g);
    return x;
}

struct output fully_connected(struct graph *g, struct output x, int64_t n_outputs,
                              enum activation activation, const char *scope,
                              const struct initializer *weights)
{
    return layer(g, x, n_outputs, activation, scope, weights, &contrib_layers);
}

struct output dense(struct graph *g, struct output x, int64_t n_outputs,
                    enum activation activation, const char *scope,
                    const struct initializer *kernel)
{
    return layer(g, x, n_outputs, activation, scope, kernel, &tf_layers);
}
