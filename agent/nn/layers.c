#include "agent/nn/nn.h"

#include "agent/graph/arithmetic.h"

#include <math.h>

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

/* The differences between the families of layers: names, and collections. */
struct layer_style {
    const char *scope, *weights, *biases;
    int model_variables;
};

static const struct layer_style contrib_layers = {"fully_connected", "weights", "biases",
                                                  1};
static const struct layer_style contrib_convolutions = {"Conv", "weights", "biases", 1};
static const struct layer_style tf_layers = {"dense", "kernel", "bias", 0};

/* A reused variable is in its collections already. */
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
                           const struct initializer *biases,
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
    b = layer_variable(g, style, style->biases, &SHAPE(n_outputs),
                       biases != NULL ? biases : &zeros);
    x = bias_add(g, matmul(g, x, w, 0, 0, NULL), b, NULL);
    x = activate(g, x, activation);
    variable_scope_leave(g);
    return x;
}

struct output projection(struct graph *g, struct output x, int64_t n_outputs,
                         const char *scope, const struct initializer *weights)
{
    const struct layer_style *style = &contrib_layers;

    if (!output_valid(x))
        return OUTPUT_NONE;
    variable_scope_enter(g, scope, style->scope, REUSE_INHERIT);
    x = matmul(g, x,
               layer_variable(g, style, style->weights,
                              &SHAPE(output_shape(x).dim[1], n_outputs), weights),
               0, 0, NULL);
    variable_scope_leave(g);
    return x;
}

struct output convolution(struct graph *g, struct output x, int64_t n_filters,
                          int64_t kernel, int64_t stride, enum activation activation,
                          const char *scope)
{
    const struct initializer glorot = glorot_uniform_initializer();
    const struct initializer zeros = zeros_initializer();
    const struct layer_style *style = &contrib_convolutions;
    struct output w, b;

    if (!output_valid(x))
        return OUTPUT_NONE;
    variable_scope_enter(g, scope, style->scope, REUSE_INHERIT);
    w = layer_variable(g, style, style->weights,
                       &SHAPE(kernel, kernel, output_shape(x).dim[3], n_filters),
                       &glorot);
    b = layer_variable(g, style, style->biases, &SHAPE(n_filters), &zeros);
    x = bias_add(g, conv2d(g, x, w, stride, "VALID", NULL), b, NULL);
    x = activate(g, x, activation);
    variable_scope_leave(g);
    return x;
}

struct output fully_connected(struct graph *g, struct output x, int64_t n_outputs,
                              enum activation activation, const char *scope,
                              const struct initializer *weights)
{
    return layer(g, x, n_outputs, activation, scope, weights, NULL, &contrib_layers);
}

struct output fully_connected_from(struct graph *g, struct output x, int64_t n_outputs,
                                   enum activation activation, const char *scope,
                                   const struct initializer *weights,
                                   const struct initializer *biases)
{
    return layer(g, x, n_outputs, activation, scope, weights, biases, &contrib_layers);
}

struct output dense(struct graph *g, struct output x, int64_t n_outputs,
                    enum activation activation, const char *scope,
                    const struct initializer *kernel)
{
    return layer(g, x, n_outputs, activation, scope, kernel, NULL, &tf_layers);
}

/* ---- layer normalisation ---- */

/* Each row minus its mean, divided by its deviation. tf.contrib.layers.layer_norm multiplies by
 * gamma before it subtracts the mean, which takes more passes over x and over its gradient. */
static struct output standardized(struct graph *g, struct output x, double epsilon)
{
    static const int32_t columns = 1;
    struct output mean, variance, y;

    name_scope_enter(g, "moments");
    mean = reduce(g, "Mean", x, &columns, 1, 1, "mean");
    x = sub(g, x, mean);
    variance = reduce(g, "Mean", square(g, x), &columns, 1, 1, "variance");
    name_scope_leave(g);
    y = constant_f32(g, (float)epsilon, "add/y");
    y = unary(g, "Rsqrt", add(g, variance, y), NULL);
    return binary(g, "Mul", x, y, "standardized");
}

struct output layer_norm(struct graph *g, struct output x, double epsilon,
                         const char *scope)
{
    const struct initializer zeros = zeros_initializer(), ones = ones_initializer();
    struct output beta, gamma;
    struct shape in;

    if (!output_valid(x))
        return OUTPUT_NONE;
    in = output_shape(x);
    in = SHAPE(in.rank > 0 ? in.dim[in.rank - 1] : -1);
    variable_scope_enter(g, scope, "LayerNorm", REUSE_INHERIT);
    beta = layer_variable(g, &contrib_layers, "beta", &in, &zeros);
    gamma = layer_variable(g, &contrib_layers, "gamma", &in, &ones);
    x = mul(g, standardized(g, x, epsilon), gamma);
    x = binary(g, "Add", x, beta, "add_1");
    variable_scope_leave(g);
    return x;
}

/* The gain of orthogonal weights before an activation (nn.h); all rectifiers count as ReLU. */
static double gain_of(enum activation activation)
{
    switch (activation) {
    case ACTIVATION_RELU:
    case ACTIVATION_LEAKY_RELU:
    case ACTIVATION_ELU:
        return sqrt(2);
    case ACTIVATION_TANH:
        return 5.0 / 3;
    case ACTIVATION_SIGMOID:
    case ACTIVATION_LINEAR:
        break;
    }
    return 1;
}

struct initializer weights_initializer(const struct network_config *net, double gain)
{
    switch (net->init) {
    case INIT_HE:
        return he_uniform_initializer();
    case INIT_ORTHOGONAL:
        return orthogonal_initializer(gain);
    case INIT_XAVIER:
        break;
    }
    return glorot_uniform_initializer();
}

struct initializer hidden_initializer(const struct network_config *net)
{
    return weights_initializer(net, gain_of(net->activation));
}
