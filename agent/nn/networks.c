#include "agent/nn/nn.h"

#include "agent/graph/ops.h"

static struct output hidden_layers(struct graph *g, struct output x,
                                   const struct layer_sizes *sizes,
                                   const struct network_config *net)
{
    const struct initializer init = hidden_initializer(net);

    for (int i = 0; i < sizes->n; i++) {
        x = fully_connected(g, x, sizes->size[i], net->activation, NULL, &init);
        if (net->layer_norm)
            x = layer_norm(g, x, LAYER_NORM_TORCH, NULL);
    }
    return x;
}

/* x (B, n height width channels) > (B n, y, x, filters) */
static struct output see_images(struct graph *g, struct output x,
                                const struct network_config *net,
                                const struct obs_form *p)
{
    struct output y = reshape(g, x, &SHAPE(-1, p->height, p->width, p->channels), NULL);

    if (p->is_u8)
        y = binary(g, "Mul", y, constant_f32(g, 1.0f / 255.0f, NULL), NULL);
    for (int64_t i = 0; i < net->conv.n; i++)
        y = convolution(g, y, net->conv.layer[i].filters, net->conv.layer[i].kernel,
                        net->conv.layer[i].stride, net->activation, NULL);
    return y;
}

struct output see_observations(struct graph *g, struct output x,
                               const struct network_config *net, const struct obs_form *p)
{
    const int64_t each = net->has_entities ? p->own + p->k * p->entity_width
                                           : p->height * p->width * p->channels;
    struct output rest = OUTPUT_NONE, y;
    int64_t features = p->n;
    struct shape shape;

    if (!network_has_obs_layers(net) || !output_valid(x))
        return x;
    shape = output_shape(x);
    if (shape.dim[1] > p->n * each) {
        rest = slice_columns(g, x, p->n * each, shape.dim[1] - p->n * each, NULL);
        x = slice_columns(g, x, 0, p->n * each, NULL);
    }
    if (net->has_entities)
        y = see_entities(g, p->n > 1 ? reshape(g, x, &SHAPE(-1, each), NULL) : x, net,
                         p->own, p->k, p->entity_width);
    else
        y = see_images(g, x, net, p);
    if (!output_valid(y))
        return OUTPUT_NONE;
    shape = output_shape(y);
    for (int i = 1; i < shape.rank; i++)
        features *= shape.dim[i];
    y = reshape(g, y, &SHAPE(-1, features), NULL);
    return output_valid(rest) ? concat(g, (struct output[]){y, rest}, 2, 1, NULL) : y;
}

static struct output output_layer(struct graph *g, struct output x,
                                  const struct network_config *net, int64_t n_outputs)
{
    const double size = net->output_init;
    const struct initializer init = size > 0 && net->init != INIT_ORTHOGONAL
                                        ? uniform_initializer(-size, size)
                                        : weights_initializer(net, size > 0 ? size : 1);

    return fully_connected(g, x, n_outputs, ACTIVATION_LINEAR, NULL, &init);
}

struct output mlp_hidden(struct graph *g, struct output x,
                         const struct network_config *net)
{
    if (net->layer_norm)
        x = layer_norm(g, x, LAYER_NORM_TORCH, NULL);
    return hidden_layers(g, x, &net->hidden, net);
}

struct output mlp_output(struct graph *g, struct output x,
                         const struct network_config *net, int64_t n_outputs)
{
    return output_layer(g, x, net, n_outputs);
}

struct output mlp_recurrent(struct graph *g, struct output x,
                            const struct network_config *net, enum cell_type type,
                            int64_t units, struct output *carry, struct output first,
                            int steps)
{
    const struct initializer weights = orthogonal_initializer(1);
    const struct initializer biases = zeros_initializer();
    const int is_orthogonal = net->init == INIT_ORTHOGONAL;
    struct cell cell;

    if (!output_valid(x))
        return OUTPUT_NONE;
    cell = cell_new(g, type, output_shape(x).dim[1], units,
                    type == CELL_GRU ? "gru" : "basic_lstm_cell",
                    is_orthogonal ? &weights : NULL, is_orthogonal ? &biases : NULL);
    if (steps > 0) {
        x = cell_unroll(g, &cell, x, *carry, first, steps, NULL);
    } else {
        *carry = cell_step(g, &cell, x, *carry);
        x = cell_output(g, &cell, *carry);
    }
    return net->layer_norm ? layer_norm(g, x, LAYER_NORM_TORCH, NULL) : x;
}

struct output mlp(struct graph *g, struct output x, const struct network_config *net,
                  int64_t n_outputs)
{
    return mlp_output(g, mlp_hidden(g, x, net), net, n_outputs);
}

struct output critic_network(struct graph *g, struct output obs, struct output action,
                             const struct network_config *net, struct output *ret_input)
{
    struct output x;

    *ret_input = OUTPUT_NONE;
    if (net->after_action.n == 0) {
        x = concat(g, (struct output[]){obs, action}, 2, 1, NULL);
        /* the joined input would have features, which a caller cannot feed */
        if (!network_has_obs_layers(net))
            *ret_input = x;
        return mlp(g, x, net, 1);
    }
    x = mlp_hidden(g, obs, net);
    x = concat(g, (struct output[]){x, action}, 2, 1, NULL);
    x = hidden_layers(g, x, &net->after_action, net);
    variable_scope_enter(g, "output", NULL, REUSE_INHERIT);
    x = output_layer(g, x, net, 1);
    variable_scope_leave(g);
    return x;
}
