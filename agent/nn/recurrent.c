#include "agent/nn/recurrent.h"

#include "agent/graph/arithmetic.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

#define FORGET_BIAS 1.0f

/* The parts of a cell's carry. */
struct state {
    struct output c; /* LSTM only */
    struct output h;
};

static const char *const scopes[] = {
    [CELL_GRU] = "gru",
    [CELL_LSTM] = "basic_lstm_cell",
};

int64_t cell_carry_width(enum cell_type type, int64_t units)
{
    return type == CELL_LSTM ? 2 * units : units;
}

/* ---- variables ---- */

static struct output variable(struct graph *g, const char *name, struct shape shape,
                              const struct initializer *init,
                              const struct initializer *otherwise)
{
    const struct variable *v =
        get_variable(g, name, DT_FLOAT, &shape, init != NULL ? init : otherwise, 0);

    return v != NULL ? v->read : OUTPUT_NONE;
}

/* Splits weights into gates once, before all steps: every step then multiplies whole
 * matrices, and the gates' gradients are joined once, after those of all steps are
 * summed. */
static void cut_gates(struct graph *g, struct output x, int axis, int n,
                      struct output *ret)
{
    if (n == 1)
        ret[0] = x;
    else
        split(g, x, n, axis, NULL, ret);
}

/* One kernel multiplies [x, h]. */
static void lstm_gates(struct graph *g, struct cell *c, const struct initializer *weights,
                       const struct initializer *biases)
{
    const struct initializer glorot = glorot_uniform_initializer();
    const struct initializer zeros = zeros_initializer();
    const int32_t sizes[] = {(int32_t)c->inputs, (int32_t)c->units};
    const int64_t columns = 4 * c->units;
    struct output rows[2], k, b;

    k = variable(g, "kernel", SHAPE(c->inputs + c->units, columns), weights, &glorot);
    b = variable(g, "bias", SHAPE(columns), biases, &zeros);
    split_into(g, k, sizes, 2, 0, NULL, rows);
    cut_gates(g, rows[0], 1, 4, c->by_input);
    cut_gates(g, rows[1], 1, 4, c->by_state);
    cut_gates(g, b, 0, 4, c->bias);
}

static void torch_gates(struct graph *g, struct cell *c,
                        const struct initializer *weights,
                        const struct initializer *biases)
{
    const struct initializer own = linear_initializer(c->units);
    const int64_t columns = 3 * c->units;
    struct output w[2], b[2];

    w[0] = variable(g, "weight_ih", SHAPE(c->inputs, columns), weights, &own);
    w[1] = variable(g, "weight_hh", SHAPE(c->units, columns), weights, &own);
    b[0] = variable(g, "bias_ih", SHAPE(columns), biases, &own);
    b[1] = variable(g, "bias_hh", SHAPE(columns), biases, &own);
    cut_gates(g, w[0], 1, 3, c->by_input);
    cut_gates(g, w[1], 1, 3, c->by_state);
    cut_gates(g, b[0], 0, 3, c->bias);
    cut_gates(g, b[1], 0, 3, c->state_bias);
}

struct cell cell_new(struct graph *g, enum cell_type type, int64_t inputs, int64_t units,
                     const char *scope, const struct initializer *weights,
                     const struct initializer *biases)
{
    struct cell c = {.type = type, .inputs = inputs, .units = units};

    variable_scope_enter(g, scope, scopes[type], REUSE_INHERIT);
    if (type == CELL_GRU)
        torch_gates(g, &c, weights, biases);
    else
        lstm_gates(g, &c, weights, biases);
    variable_scope_leave(g);
    return c;
}

/* ---- one step ---- */

/* x W + b for gate k. */
static struct output from_input(struct graph *g, const struct cell *c, struct output x,
                                int k)
{
    return bias_add(g, matmul(g, x, c->by_input[k], 0, 0, NULL), c->bias[k], NULL);
}

/* h W for gate k, with state_bias in CELL_GRU. */
static struct output from_state(struct graph *g, const struct cell *c, struct output h,
                                int k)
{
    struct output y = matmul(g, h, c->by_state[k], 0, 0, NULL);

    return c->type == CELL_GRU ? bias_add(g, y, c->state_bias[k], NULL) : y;
}

static struct output gate(struct graph *g, const struct cell *c, struct output x,
                          struct output h, int k)
{
    x = from_input(g, c, x, k);
    return add(g, x, from_state(g, c, h, k));
}

/* (1 - keep) fresh + keep h, as fresh + keep (h - fresh): fewer operations, also in the
 * gradient. */
static struct output blend(struct graph *g, struct output keep, struct output fresh,
                           struct output h)
{
    h = mul(g, keep, sub(g, h, fresh));
    return add(g, fresh, h);
}

static struct output step_gru(struct graph *g, const struct cell *c, struct output x,
                              struct output h)
{
    struct output r = unary(g, "Sigmoid", gate(g, c, x, h, 0), NULL);
    struct output z = unary(g, "Sigmoid", gate(g, c, x, h, 1), NULL);
    struct output n = mul(g, r, from_state(g, c, h, 2));

    n = unary(g, "Tanh", add(g, from_input(g, c, x, 2), n), NULL);
    return blend(g, z, n, h);
}

static struct state step_lstm(struct graph *g, const struct cell *c, struct output x,
                              struct state s)
{
    struct output i = unary(g, "Sigmoid", gate(g, c, x, s.h, 0), NULL);
    struct output j = unary(g, "Tanh", gate(g, c, x, s.h, 1), NULL);
    struct output f = gate(g, c, x, s.h, 2);
    struct output o = unary(g, "Sigmoid", gate(g, c, x, s.h, 3), NULL);

    f = add(g, f, constant_f32(g, FORGET_BIAS, "add/y"));
    f = mul(g, s.c, unary(g, "Sigmoid", f, NULL));
    s.c = add(g, f, mul(g, i, j));
    s.h = mul(g, unary(g, "Tanh", s.c, NULL), o);
    return s;
}

static struct state step(struct graph *g, const struct cell *c, struct output x,
                         struct state s)
{
    name_scope_enter(g, scopes[c->type]);
    if (c->type == CELL_GRU)
        s.h = step_gru(g, c, x, s.h);
    else
        s = step_lstm(g, c, x, s);
    name_scope_leave(g);
    return s;
}

/* ---- carry ---- */

static struct state open_carry(struct graph *g, const struct cell *c, struct output carry)
{
    struct output pieces[2] = {OUTPUT_NONE, carry};

    if (c->type == CELL_LSTM)
        split(g, carry, 2, 1, NULL, pieces);
    return (struct state){pieces[0], pieces[1]};
}

static struct output close_carry(struct graph *g, const struct cell *c, struct state s)
{
    return c->type == CELL_LSTM ? concat(g, (const struct output[]){s.c, s.h}, 2, 1, NULL)
                                : s.h;
}

struct output cell_step(struct graph *g, const struct cell *c, struct output x,
                        struct output carry)
{
    return close_carry(g, c, step(g, c, x, open_carry(g, c, carry)));
}

struct output cell_output(struct graph *g, const struct cell *c, struct output carry)
{
    return open_carry(g, c, carry).h;
}

/* ---- sequences ---- */

struct output cell_unroll(struct graph *g, const struct cell *c, struct output x,
                          struct output carry, struct output first, int steps,
                          struct output *ret_carry)
{
    struct output *xs = xcalloc((size_t)steps, sizeof(*xs));
    struct output *keep = xcalloc((size_t)steps, sizeof(*keep));
    struct output *ys = xcalloc((size_t)steps, sizeof(*ys)), y;
    struct state s = open_carry(g, c, carry);

    cut_gates(g, x, 0, steps, xs);
    if (output_valid(first)) {
        first = binary(g, "Sub", constant_f32(g, 1.0f, "keep/x"), first, "keep");
        cut_gates(g, first, 0, steps, keep);
    }
    for (int t = 0; t < steps; t++) {
        if (output_valid(first)) {
            if (output_valid(s.c))
                s.c = mul(g, s.c, keep[t]);
            s.h = mul(g, s.h, keep[t]);
        }
        s = step(g, c, xs[t], s);
        ys[t] = s.h;
    }
    y = steps == 1 ? ys[0] : concat(g, ys, (size_t)steps, 0, NULL);
    if (ret_carry != NULL)
        *ret_carry = close_carry(g, c, s);
    free(xs);
    free(keep);
    free(ys);
    return y;
}
