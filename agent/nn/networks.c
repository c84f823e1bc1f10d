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

/* x (N, stack size) > (N, y, x, filters) */
static struct output see_images(struct graph *g, struct output x,
                                const struct network_config *net,
                                const struct obs_form *p)
{
    /* x (N, stack size) > (N, height, width, stack channels) */
    const int64_t points = p->height * p->width, channels = p->stack * p->channels;

    if (p->stack > 1) {
        x = reshape(g, x, &SHAPE(-1, p->stack, points, p->channels), NULL);
        x = binary(g, "Transpose", x,
                   constant_i32s(g, (int32_t[]){0, 2, 1, 3}, 4, "perm"), NULL);
    }
    struct output y = reshape(g, x, &SHAPE(-1, p->height, p->width, channels), NULL);

    if (p->is_u8)
        y = binary(g, "Mul", y, constant_f32(g, 1.0f / 255.0f, NULL), NULL);
    for (int64_t i = 0; i < net->conv.n; i++)
        y = convolution(g, y, net->conv.layer[i].filters, net->conv.layer[i].kernel,
                        net->conv.layer[i].stride, net->activation, NULL);
    return y;
}

/* x (R, each) > (R, each - size): the numbers before the part, then those behind it. */
static struct output beside_part(struct graph *g, struct output x,
                                 const struct obs_form *p)
{
    const int64_t end = p->at + p->size;
    struct output side[2];
    int n = 0;

    if (p->at > 0)
        side[n++] = slice_columns(g, x, 0, p->at, NULL);
    if (end < p->each)
        side[n++] = slice_columns(g, x, end, p->each - end, NULL);
    return n == 2 ? concat(g, side, n, 1, NULL) : side[0];
}

/* x (N n, ...) > (N, rest) */
static struct output side_by_side(struct graph *g, struct output x, int64_t n)
{
    const struct shape shape = output_valid(x) ? output_shape(x) : SHAPE(0);

    for (int i = 1; i < shape.rank; i++)
        n *= shape.dim[i];
    return reshape(g, x, &SHAPE(-1, n), NULL);
}

/* x (B, n stack each) > (B, n F) */
static struct output see_parts(struct graph *g, struct output x,
                               const struct network_config *net, const struct obs_form *p)
{
    struct output beside = OUTPUT_NONE, y;

    if (p->size < p->each) {
        if (p->n * p->stack > 1)
            x = reshape(g, x, &SHAPE(-1, p->each), NULL);
        beside = beside_part(g, x, p);
        x = slice_columns(g, x, p->at, p->size, NULL);
        if (p->stack > 1)
            beside = side_by_side(g, beside, p->stack);
    }
    y = net->has_entities ? see_entities(g, beside, x, net, p->k, p->entity_width)
                          : see_images(g, x, net, p);
    if (!output_valid(y))
        return OUTPUT_NONE;
    if (output_valid(beside)) {
        if (!net->has_entities)
            y = side_by_side(g, y, 1);
        y = concat(g, (struct output[]){beside, y}, 2, 1, NULL);
    }
    return side_by_side(g, y, p->n);
}

struct output see_observations(struct graph *g, struct output x,
                               const struct network_config *net, const struct obs_form *p)
{
    const int64_t seen = p->n * p->stack * p->each;
    struct output rest = OUTPUT_NONE, y;
    int64_t columns;

    if (!network_has_obs_layers(net) || !output_valid(x))
        return x;
    columns = output_shape(x).dim[1];
    if (columns > seen) {
        rest = slice_columns(g, x, seen, columns - seen, NULL);
        x = slice_columns(g, x, 0, seen, NULL);
    }
    y = see_parts(g, x, net, p);
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
