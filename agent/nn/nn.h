/* nn.h - layers, networks and optimisers: they only build nodes.
 *
 * Names follow TensorFlow's: contrib.layers.fully_connected gives `<scope>/weights`
 * [inputs, outputs] and `<scope>/biases`, y = x W + b; scopes fully_connected,
 * fully_connected_1, ...; optimiser slots `<var>/Adam`, `<var>/Adam_1`, ...
 */
#ifndef AGENT_NN_NN_H
#define AGENT_NN_NN_H

#include "agent/graph/graph.h"
#include "agent/nn/recurrent.h"
#include "common/config/run_config.h"

/* ---- layers ---- */
struct output activate(struct graph *g, struct output x, enum activation activation);
/* scope NULL: "fully_connected", made unique. weights NULL: xavier. biases zeros. */
struct output fully_connected(struct graph *g, struct output x, int64_t n_outputs,
                              enum activation activation, const char *scope,
                              const struct initializer *weights);
/* fully_connected with other initial biases than zeros. */
struct output fully_connected_from(struct graph *g, struct output x, int64_t n_outputs,
                                   enum activation activation, const char *scope,
                                   const struct initializer *weights,
                                   const struct initializer *biases);
/* tf.layers.dense: `<scope>/kernel`, `<scope>/bias`, scope "dense". */
struct output dense(struct graph *g, struct output x, int64_t n_outputs,
                    enum activation activation, const char *scope,
                    const struct initializer *kernel);

/* x W without biases: `<scope>/weights`. */
struct output projection(struct graph *g, struct output x, int64_t n_outputs,
                         const char *scope, const struct initializer *weights);

/* tf.contrib.layers.layer_norm (Ba et al. 2016): each row (x - mean) / sqrt(variance +
 * epsilon) gamma + beta over its columns; x (B, n), `<scope>/beta` (0) and `<scope>/gamma`
 * (1), both (n). scope NULL: "LayerNorm", made unique. */
struct output layer_norm(struct graph *g, struct output x, double epsilon,
                         const char *scope);
#define LAYER_NORM_TORCH 1e-5 /* epsilon of torch.nn.LayerNorm */

/* tf.contrib.layers.conv2d with padding VALID: x (B, y, x, C), weights (kernel, kernel, C,
 * n_filters). scope NULL: "Conv", made unique. */
struct output convolution(struct graph *g, struct output x, int64_t n_filters,
                          int64_t kernel, int64_t stride, enum activation activation,
                          const char *scope);

/* ---- networks by configuration ---- */

/* The first columns of a network's input, if it has convolutions or layers for entities: the
 * observations of n agents, of one form. Each is `stack` times `each` numbers, of which those
 * of one part, an image or entities, go through layers of their own; others are beside it. */
struct obs_form {
    int64_t n, stack, each;
    int64_t at, size; /* the part: its first number in each, and how many it has */
    /* An image, row by row with its channels side by side. */
    int64_t height, width, channels;
    int is_u8; /* values 0 to 255, which the network divides by 255 */
    /* k entities of entity_width numbers, the last of which is 1 if the entity is there, and
     * else 0; behind numbers of the agent's own; stack 1. */
    int64_t k, entity_width;
};
/* Whether they go through layers of their own before the hidden ones. */
static inline int network_has_obs_layers(const struct network_config *net)
{
    return net->conv.n > 0 || net->has_entities;
}
/* Applies those layers, the same to each agent's observation: x (B, n stack each + rest) > (B,
 * n (stack (each - size) + F) + rest): of each the numbers beside the part, unchanged, then F
 * features of the part; then the other columns. An image goes through the convolutions, those
 * of a stack together, as channels; entities through see_entities. Without such layers returns
 * x. */
struct output see_observations(struct graph *g, struct output x,
                               const struct network_config *net,
                               const struct obs_form *p);
/* own (N, O), x (N, k width) > (N, D): the entities as one vector of the last of
 * net->entities.units, D, whose variables depend neither on k nor on the entities' order. Each
 * entity that is there goes through the same layers, h; then, by `pool`,
 *   mean, max   Deep Sets (Zaheer et al. 2017), of the h;
 *   attention   in each head sum_i a_i v_i, a = softmax_i(key_i query / sqrt(D / heads)), query
 *               from the own numbers, key and v = activation(W h + b) from h (Vaswani et al.
 *               2017; Iqbal and Sha 2019, eq. 5 and 6), the heads side by side.
 * Without any entity the vector is 0. Variables in the scope `entities`. */
struct output see_entities(struct graph *g, struct output own, struct output x,
                           const struct network_config *net, int64_t k, int64_t width);
/* How the weights of a network's hidden layers begin. */
struct initializer hidden_initializer(const struct network_config *net);
/* Of a layer with another gain. */
struct initializer weights_initializer(const struct network_config *net, double gain);
/* hidden layers, then one linear layer of n_outputs, in the current variable scope. Weights
 * begin as net->init says. With layer_norm the input is normalised, and what each hidden layer
 * gives, behind its activation (Yu et al. 2022, and the code of its authors). */
struct output mlp(struct graph *g, struct output x, const struct network_config *net,
                  int64_t n_outputs);
/* The two parts of mlp, for callers that put something between them. */
struct output mlp_hidden(struct graph *g, struct output x,
                         const struct network_config *net);
struct output mlp_output(struct graph *g, struct output x,
                         const struct network_config *net, int64_t n_outputs);
/* A recurrent layer between the two, in scope gru or basic_lstm_cell. steps 0: x (R, I) are single
 * steps, and *carry (R, H) is replaced by the carry after them; otherwise x (L R, I) is unrolled
 * from *carry (cell_unroll), where L = steps. With init: orthogonal matrices are orthogonal and
 * biases 0; with layer_norm what it gives is normalised (both Yu et al. 2022). */
struct output mlp_recurrent(struct graph *g, struct output x,
                            const struct network_config *net, enum cell_type type,
                            int64_t units, struct output *carry, struct output first,
                            int steps);
/* Critic: without after_action, observation and action are joined at the input (as
 * openai/maddpg does); with it, hidden layers see the observation alone, then the action
 * joins, then the after_action layers, then one linear output in a scope of its own,
 * `output`, whose weights begin as output_init says. obs: with layers of its own, the result
 * of see_observations. Returns (B, 1); ret_input: the joined input, which may be fed instead
 * of obs and action, or OUTPUT_NONE. */
struct output critic_network(struct graph *g, struct output obs, struct output action,
                             const struct network_config *net, struct output *ret_input);

/* ---- optimisers (source: tf.train; formulas in the kernels' comments) ---- */
struct gradient {
    struct output grad;
    struct variable *variable;
};
/* tf.global_norm: sqrt of the sum of all squared elements. */
struct output global_norm(struct graph *g, const struct gradient *grads, size_t n);
/* Clips each gradient by its own norm, or all by the norm of them together, `norm`
 * (tf.clip_by_global_norm). */
void clip_gradients_by_norm(struct graph *g, struct gradient *grads, size_t n,
                            struct output clip_norm);
void clip_gradients_by_global_norm(struct graph *g, struct gradient *grads, size_t n,
                                   struct output norm, struct output clip_norm);
/* d(loss)/d(variable), ret_grads[n]. */
int compute_gradients(struct graph *g, struct output loss, struct variable *const *vars,
                      size_t n, struct gradient *ret_grads, struct err *err);
/* opt.minimize = compute_gradients, clipping by the caller, apply.
 * Constants `<name>/learning_rate` ... under the optimiser's name scope; slots made in
 * the current variable scope (doubled scopes included); the update group is added to
 * collection train_op. name NULL: "Adam", "GradientDescent", "Momentum", "RMSProp".
 * global_step may be NULL. ret_learning_rate may be NULL: the constant's output, to be
 * fed with a live setting. o is not accept_reject, which has no use for gradients
 * (accept_reject.h). */
struct operation *apply_gradients(struct graph *g, const struct optimizer_config *o,
                                  const struct gradient *grads, size_t n,
                                  struct variable *global_step, const char *name,
                                  struct output *ret_learning_rate);

#endif
