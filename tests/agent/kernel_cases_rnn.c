/* Recurrent cells, one element at a time. Their gradients are checked by differences, by way of
 * the last output, and against TensorFlow's values in tests/tensorflow. */
#include "tests/agent/kernel_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double float_of(const struct operation *op, const char *name)
{
    const struct attr *a = operation_attr(op, name);

    return a != NULL ? (double)a->f : 0;
}

/* Element `column` of [x h] w + b, x and h being rows. */
static double product(const double *x, int64_t inputs, const double *h, int64_t cells,
                      const struct array *w, const struct array *b, int64_t column)
{
    const int64_t n = w->tensor.shape.dim[1];
    double sum = b->v[column];

    for (int64_t k = 0; k < inputs; k++)
        sum += x[k] * w->v[k * n + column];
    for (int64_t k = 0; k < cells; k++)
        sum += h[k] * w->v[(inputs + k) * n + column];
    return sum;
}

/* Row `at` of the outputs, from rows of x, cs_prev and h_prev; in: those of a cell. */
static void lstm_row(const struct reference *r, const struct array *in, const double *x,
                     const double *cs_prev, const double *h_prev, int64_t at)
{
    const int64_t cells = in[1].tensor.shape.dim[1];
    const int64_t inputs = in[3].tensor.shape.dim[0] - cells;
    const int is_v2 = strcmp(operation_type(r->op), "BlockLSTMV2") == 0;
    const int peephole = (int)operation_attr(r->op, "use_peephole")->i;
    const double clip = float_of(r->op, "cell_clip");

    for (int64_t c = 0; c < cells; c++) {
        double gate[4], cs;

        for (int g = 0; g < 4; g++)
            gate[g] = product(x, inputs, h_prev, cells, &in[3], &in[7], g * cells + c);
        const double i = sigmoid(gate[0] + (peephole ? cs_prev[c] * in[4].v[c] : 0));
        const double ci = tanh(gate[is_v2 ? 2 : 1]);
        const double f = sigmoid(gate[is_v2 ? 1 : 2] + float_of(r->op, "forget_bias") +
                                 (peephole ? cs_prev[c] * in[5].v[c] : 0));
        cs = ci * i + cs_prev[c] * f;
        if (clip > 0)
            cs = fmax(fmin(cs, clip), -clip);
        const double o = sigmoid(gate[3] + (peephole ? cs * in[6].v[c] : 0));
        const double out[] = {i, cs, f, o, ci, tanh(cs), o * tanh(cs)};
        for (int k = 0; k < 7; k++)
            r->out[k].v[at * cells + c] = out[k];
    }
}

static void lstm_cell(const struct reference *r)
{
    const int64_t inputs = r->in[0].tensor.shape.dim[1],
                  cells = r->in[1].tensor.shape.dim[1];

    for (int64_t b = 0; b < r->in[0].tensor.shape.dim[0]; b++)
        lstm_row(r, r->in, r->in[0].v + b * inputs, r->in[1].v + b * cells,
                 r->in[2].v + b * cells, b);
}

static void lstm_sequence(const struct reference *r)
{
    const int64_t batch = r->in[1].tensor.shape.dim[1],
                  inputs = r->in[1].tensor.shape.dim[2];
    const int64_t cells = r->in[2].tensor.shape.dim[1];

    for (int64_t i = 0; i < (int64_t)r->in[0].v[0] * batch; i++) {
        const int64_t b = i % batch, before = (i - batch) * cells;

        lstm_row(r, r->in + 1, r->in[1].v + i * inputs,
                 i < batch ? r->in[2].v + b * cells : r->out[1].v + before,
                 i < batch ? r->in[3].v + b * cells : r->out[6].v + before, i);
    }
}

static void gru_cell(const struct reference *r)
{
    const int64_t inputs = r->in[0].tensor.shape.dim[1],
                  cells = r->in[1].tensor.shape.dim[1];
    double *reset = calloc((size_t)cells + 1, sizeof(double));

    for (int64_t b = 0; b < r->in[0].tensor.shape.dim[0]; b++) {
        const double *x = r->in[0].v + b * inputs, *h = r->in[1].v + b * cells;

        for (int64_t c = 0; c < cells; c++) {
            r->out[0].v[b * cells + c] =
                sigmoid(product(x, inputs, h, cells, &r->in[2], &r->in[4], c));
            reset[c] = h[c] * r->out[0].v[b * cells + c];
        }
        for (int64_t c = 0; c < cells; c++) {
            const double u =
                sigmoid(product(x, inputs, h, cells, &r->in[2], &r->in[4], cells + c));
            const double n =
                tanh(product(x, inputs, reset, cells, &r->in[3], &r->in[5], c));

            r->out[1].v[b * cells + c] = u;
            r->out[2].v[b * cells + c] = n;
            r->out[3].v[b * cells + c] = u * h[c] + (1 - u) * n;
        }
    }
    free(reset);
}

#define ROW(op, f, in, attrs, out)                                                       \
    {                                                                                    \
        op, "f", in, attrs, out, f, NULL, -1, 1, 30, CASE_LAST_OUTPUT | CASE_KNOWN_RANKS \
    }
#define WEIGHTS      "x(5,8) x(2) x(2) x(2) x(8)"
#define SEVEN(shape) shape " " shape " " shape " " shape " " shape " " shape " " shape

const struct kernel_case rnn_cases[] = {
    ROW("LSTMBlockCell", lstm_cell, "x(3,3) x(3,2) x(3,2) " WEIGHTS, NULL,
        SEVEN("(3,2)")),
    ROW("LSTMBlockCell", lstm_cell, "x(3,3) x(3,2) x(3,2) " WEIGHTS,
        "use_peephole=true forget_bias=0.25 cell_clip=0.0", SEVEN("(3,2)")),
    ROW("LSTMBlockCell", lstm_cell, "x(0,3) x(0,2) x(0,2) " WEIGHTS, NULL,
        SEVEN("(0,2)")),
    /* the gradient passes the limit as if there were none */
    {"LSTMBlockCell", "f", "x(3,3) x(3,2) x(3,2) " WEIGHTS, "cell_clip=0.1",
     SEVEN("(3,2)"), lstm_cell, NULL, -1, 1, 30, CASE_NO_DIFFERENCE},
    ROW("BlockLSTM", lstm_sequence, "l=4 x(4,2,3) x(2,2) x(2,2) " WEIGHTS, NULL,
        SEVEN("(4,2,2)")),
    ROW("BlockLSTM", lstm_sequence, "l=3 x(4,2,3) x(2,2) x(2,2) " WEIGHTS,
        "use_peephole=true", SEVEN("(4,2,2)")),
    ROW("BlockLSTM", lstm_sequence, "l=0 x(2,2,3) x(2,2) x(2,2) " WEIGHTS, NULL,
        SEVEN("(2,2,2)")),
    ROW("BlockLSTMV2", lstm_sequence, "l=3 x(3,2,3) x(2,2) x(2,2) " WEIGHTS,
        "use_peephole=true", SEVEN("(3,2,2)")),
    ROW("GRUBlockCell", gru_cell, "x(3,3) x(3,2) x(5,4) x(5,2) x(4) x(2)", NULL,
        "(3,2) (3,2) (3,2) (3,2)"),
    ROW("GRUBlockCell", gru_cell, "x(0,3) x(0,2) x(5,4) x(5,2) x(4) x(2)", NULL,
        "(0,2) (0,2) (0,2) (0,2)"),
    {NULL},
};
