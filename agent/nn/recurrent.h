/* recurrent.h - recurrent cells: one step, or a graph unrolled over a sequence.
 *
 *     cell_new(g, type, inputs, units, NULL, NULL, NULL)     variables, in their scope
 *     cell_step(g, &cell, x, carry)                          to act: one step at a time
 *     cell_unroll(g, &cell, x, carry, first, steps, &last)   to learn: gradients through
 *                                                            time are the graph's own
 *
 * Shapes   R rows (copies, or sequences side by side), I inputs, U units, H the width of
 *          the carry, L steps. A sequence is a matrix (L R, .) in the order of time: row
 *          t R + r is step t of sequence r. So layers before and after the cell are
 *          products of all steps at once, and a step is a run of rows, without a copy.
 *          R may be unknown when the graph is built; L is fixed then. Shorter sequences
 *          are padded, and their padding masked in the loss: a plan is made once for the
 *          longest, and what comes after the end of a sequence changes nothing before it.
 * Carry    what a cell takes from step to step: h (R, U); of an LSTM c and h side by side,
 *          (R, 2 U), as TensorFlow's state_is_tuple=False. It starts at 0.
 * Errors   the graph's (graph_error), like those of other builders.
 *
 * CELL_GRU is torch.nn.GRUCell (Cho et al. 2014, with the reset gate behind the product):
 *     r = sigmoid(x W_ir + b_ir + h W_hr + b_hr),  z likewise
 *     n = tanh(x W_in + b_in + r (h W_hn + b_hn)),  h' = (1 - z) n + z h
 * Variables gru/weight_ih (I, 3 U), weight_hh (U, 3 U), bias_ih, bias_hh (3 U), in the
 * order r, z, n: torch's parameters, the matrices transposed. Initially uniform in
 * +-1/sqrt(U).
 *
 * CELL_LSTM is tf.nn.rnn_cell.BasicLSTMCell, forget_bias 1:
 *     i, j, f, o = [x, h] K + b
 *     c' = c sigmoid(f + 1) + sigmoid(i) tanh(j),  h' = tanh(c') sigmoid(o)
 * Variables basic_lstm_cell/kernel (I + U, 4 U), initially Glorot uniform, and
 * basic_lstm_cell/bias (0).
 */
#ifndef AGENT_NN_RECURRENT_H
#define AGENT_NN_RECURRENT_H

#include "agent/graph/graph.h"

enum cell_type { CELL_GRU, CELL_LSTM };

#define CELL_MAX_GATES 4

struct cell { /* of cell_new; a value, good as long as the graph */
    enum cell_type type;
    int64_t inputs, units;
    /* Per gate, in the order of the columns: what multiplies x (I, U) and h (U, U), and the
     * bias (U); only CELL_GRU adds another one, state_bias, to the product with h. */
    struct output by_input[CELL_MAX_GATES], by_state[CELL_MAX_GATES];
    struct output bias[CELL_MAX_GATES], state_bias[CELL_MAX_GATES];
};

int64_t cell_carry_width(enum cell_type type, int64_t units); /* H */

/* Makes the variables, or finds them when the variable scope says so (REUSE_AUTO), in scope
 * `scope`; NULL: the type's own (gru, basic_lstm_cell), made unique. weights,
 * biases: NULL for the type's own initial values. */
struct cell cell_new(struct graph *g, enum cell_type type, int64_t inputs, int64_t units,
                     const char *scope, const struct initializer *weights,
                     const struct initializer *biases);

/* The carry after one step: x (R, I), carry (R, H) -> (R, H). To reset some rows, unroll one
 * step. */
struct output cell_step(struct graph *g, const struct cell *c, struct output x,
                        struct output carry);
/* The cell's output (R, U) for the next layer, taken from a carry that a step
 * returned. */
struct output cell_output(struct graph *g, const struct cell *c, struct output carry);

/* The outputs (L R, U) of L = steps steps: x (L R, I), carry (R, H). Before step t the carry of
 * row r is multiplied by 1 - first[t R + r]: first (L R, 1) is 1 where an episode begins, 0
 * elsewhere; OUTPUT_NONE: nowhere. Carries are finite. ret_carry, NULL if not wanted: the
 * carry after the last step. */
struct output cell_unroll(struct graph *g, const struct cell *c, struct output x,
                          struct output carry, struct output first, int steps,
                          struct output *ret_carry);

#endif
