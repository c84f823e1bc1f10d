#include "agent/nn/nn.h"

#include "agent/graph/ops.h"

static struct output hidden_layers(struct graph *g, struct output x,
                                   const struct layer_sizes *sizes,
                                   enum activation activation)
{
    for (int i = 0; i < sizes->n; i++)
        x = fully_connected(g, x, sizes->size[i], activation, NULL, NULL);
    return x;
}

static struct output output_layer(struct graph *g, struct output x,
                                  const struct network_config *net, int64_t n_outputs)
{
    const struct initializer init =
        uniform_initializer(-net->output_init, net->output_init);

    return fully_connected(g, x, n_outputs, ACTIVATION_LINEAR, NULL,
                           net->output_init > 0 ? &init : NULL);
}

struct output mlp_hidden(struct graph *g, struct output x,
                         const struct network_config *net)
{
    return hidden_layers(g, x, &net->hidden, net->activation);
}

struct output mlp_output(struct graph *g, struct output x,
                         const struct network_config *net, int64_t n_outputs)
{
    return output_layer(g, x, net, n_outputs);
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
        *ret_input = concat(g, (struct output[]){obs, action}, 2, 1, NULL);
        return mlp(g, *ret_input, net, 1);
    }
    x = hidden_layers(g, obs, &net->hidden, net->activation);
    x = concat(g, (struct output[]){x, action}, 2, 1, NULL);
    x = hidden_layers(g, x, &net->after_action, net->activation);
    variable_scope_enter(g, "output", NULL, REUSE_INHERIT);
    x = output_layer(g, x, net, 1);
    variable_scope_leave(g);
    return x;
}
