/* Activations, biases, softmax, losses, and what the orthogonal initialiser needs.
 *
 * Tolerances as in kernel_cases_math.c; softmax and the losses add the sum of a row.
 */
#include "tests/agent/kernel_cases.h"

#include <math.h>

#define ELEMENT(name, expr)                                                              \
    static double name(const double *x, const struct operation *op)                      \
    {                                                                                    \
        (void)op;                                                                        \
        return (expr);                                                                   \
    }
#define ALPHA ((double)operation_attr(op, "alpha")->f)
ELEMENT(relu, x[0] > 0 ? x[0] : 0)
ELEMENT(relu_grad, x[1] > 0 ? x[0] : 0)
ELEMENT(leaky, x[0] > 0 ? x[0] : ALPHA * x[0])
ELEMENT(leaky_grad, x[1] > 0 ? x[0] : ALPHA * x[0])
ELEMENT(elu, x[0] > 0 ? x[0] : exp(x[0]) - 1)
ELEMENT(elu_grad, x[1] < 0 ? x[0] * (x[1] + 1) : x[0])
ELEMENT(softplus, log(1 + exp(x[0])))
ELEMENT(softplus_grad, x[0] / (1 + exp(-x[1])))
ELEMENT(tanh_, tanh(x[0]))
ELEMENT(tanh_grad, x[1] * (1 - x[0] * x[0]))
ELEMENT(sigmoid, 1 / (1 + exp(-x[0])))
ELEMENT(sigmoid_grad, x[1] * x[0] * (1 - x[0]))

/* ---- biases: channels last, or with NCHW second ---- */

static int64_t channel(const struct reference *r, const struct shape *s, int64_t i)
{
    const struct attr *format = operation_attr(r->op, "data_format");
    int64_t index[SHAPE_MAX_RANK];

    unravel(s, i, index);
    return index[format != NULL && format->s[1] == 'C' ? 1 : s->rank - 1];
}

static void bias_add(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[0].v[i] + r->in[1].v[channel(r, &r->in[0].tensor.shape, i)];
}

static void bias_add_grad(const struct reference *r)
{
    for (int64_t i = 0; i < r->in[0].n; i++)
        r->out->v[channel(r, &r->in[0].tensor.shape, i)] += r->in[0].v[i];
}

/* ---- softmax over the last axis ---- */

static int64_t row_length(const struct array *a)
{
    return a->tensor.shape.dim[a->tensor.shape.rank - 1];
}

static double log_of_sum(const double *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i]);
    return log(sum);
}

static void log_softmax(const struct reference *r)
{
    const struct array *x = &r->in[0];
    int64_t n = row_length(x);

    for (int64_t i = 0; i < x->n; i++)
        r->out->v[i] = x->v[i] - log_of_sum(x->v + i / n * n, n);
}

static void softmax(const struct reference *r)
{
    log_softmax(r);
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = exp(r->out->v[i]);
}

static void half_of_squares(const struct reference *r)
{
    for (int64_t i = 0; i < r->in[0].n; i++)
        r->out->v[0] += r->in[0].v[i] * r->in[0].v[i] / 2;
}

/* An element of a matrix; one row or column stands for all. */
static double element_of(const struct array *x, int64_t row, int64_t k)
{
    const int64_t *dim = x->tensor.shape.dim;

    return x->v[(dim[0] == 1 ? 0 : row) * dim[1] + (dim[1] == 1 ? 0 : k)];
}

/* label(row, column): the labels as a matrix */
static double label_of(const struct reference *r, int64_t row, int64_t k)
{
    return r->in[1].tensor.shape.rank == 2 ? element_of(&r->in[1], row, k)
                                           : r->in[1].v[row] == (double)k;
}

static void cross_entropy(const struct reference *r)
{
    const struct array *x = &r->in[0];
    const int64_t n = row_length(x);

    for (int64_t i = 0; i < r->out[1].n; i++) {
        const int64_t row = x->tensor.shape.dim[0] == 1 ? 0 : i / n;
        const double log_p = element_of(x, row, i % n) - log_of_sum(x->v + row * n, n);
        const double label = label_of(r, i / n, i % n);

        r->out[0].v[i / n] -= label * log_p;
        r->out[1].v[i] = exp(log_p) - label;
    }
}

/* ---- the rows ---- */

#define ROW(op, types, f, low, high, ulps, in, attrs)                                    \
    {                                                                                    \
        op, types, in, attrs, NULL, NULL, f, low, high, ulps, 0                          \
    }
#define ACTIVATION(op, types, f, ulps)                                                   \
    ROW(op, types, f, -3, 3, ulps, "x(2,3)", NULL),                                      \
        ROW(op, types, f, -3, 3, ulps, "x", NULL),                                       \
        ROW(op, types, f, -3, 3, ulps, "x(2,0)", NULL),                                  \
        ROW(op, types, f, -3, 3, ulps, "x(1,37)", NULL)
#define ACTIVATION_GRAD(op, f, ulps)                                                     \
    ROW(op, "fd", f, -0.9, 0.9, ulps, "x(2,3) x(2,3)", NULL),                            \
        ROW(op, "fd", f, -0.9, 0.9, ulps, "x x", NULL),                                  \
        ROW(op, "fd", f, -0.9, 0.9, ulps, "x(2,0) x(2,0)", NULL),                        \
        ROW(op, "fd", f, -0.9, 0.9, ulps, "x(1,37) x(1,37)", NULL)
#define WHOLE(op, types, f, low, high, ulps, in, attrs, out)                             \
    {                                                                                    \
        op, types, in, attrs, out, f, NULL, low, high, ulps, 0                           \
    }
#define NCHW "data_format=NCHW"

const struct kernel_case nn_cases[] = {
    ACTIVATION("Relu", "fdilsc", relu, 0),
    ACTIVATION("LeakyRelu", "fd", leaky, 1),
    ROW("LeakyRelu", "fd", leaky, -3, 3, 1, "x(2,9)", "alpha=0.01"),
    ROW("LeakyRelu", "fd", leaky, -3, 3, 1, "x(2,9)", "alpha=1.5"),
    ACTIVATION("Elu", "fd", elu, 4),
    ACTIVATION("Softplus", "fd", softplus, 5),
    ACTIVATION("Tanh", "fd", tanh_, 4),
    ACTIVATION("Sigmoid", "fd", sigmoid, 4),
    ACTIVATION_GRAD("ReluGrad", relu_grad, 0),
    ACTIVATION_GRAD("LeakyReluGrad", leaky_grad, 1),
    ROW("LeakyReluGrad", "fd", leaky_grad, -3, 3, 1, "x(2,9) x(2,9)", "alpha=0.01"),
    ACTIVATION_GRAD("EluGrad", elu_grad, 2),
    ACTIVATION_GRAD("SoftplusGrad", softplus_grad, 4),
    ACTIVATION_GRAD("TanhGrad", tanh_grad, 3),
    ACTIVATION_GRAD("SigmoidGrad", sigmoid_grad, 3),
    WHOLE("BiasAdd", "fdil", bias_add, -5, 5, 1, "x(2,3) x(3)", NULL, "(2,3)"),
    WHOLE("BiasAdd", "fd", bias_add, -5, 5, 1, "x(2,1,2,3) x(3)", NULL, "(2,1,2,3)"),
    WHOLE("BiasAdd", "fd", bias_add, -5, 5, 1, "x(2,3,4) x(3)", NCHW, "(2,3,4)"),
    WHOLE("BiasAdd", "fd", bias_add, -5, 5, 1, "x(2,3) x(3)", NCHW, "(2,3)"),
    WHOLE("BiasAdd", "fd", bias_add, -5, 5, 1, "x(0,3) x(3)", NULL, "(0,3)"),
    WHOLE("BiasAddV1", "fdil", bias_add, -5, 5, 1, "x(2,1,2,3) x(3)", NULL, "(2,1,2,3)"),
    WHOLE("BiasAddV1", "fd", bias_add, -5, 5, 1, "x(0,3) x(3)", NULL, "(0,3)"),
    WHOLE("BiasAddGrad", "fdil", bias_add_grad, -5, 5, 9, "x(4,3)", NULL, "(3)"),
    WHOLE("BiasAddGrad", "fd", bias_add_grad, -5, 5, 9, "x(2,2,3)", NULL, "(3)"),
    WHOLE("BiasAddGrad", "fd", bias_add_grad, -5, 5, 9, "x(2,3,4)", NCHW, "(3)"),
    WHOLE("BiasAddGrad", "fd", bias_add_grad, -5, 5, 9, "x(0,3)", NULL, "(3)"),
    WHOLE("Softmax", "fd", softmax, -4, 4, 9, "x(2,3)", NULL, "(2,3)"),
    WHOLE("Softmax", "fd", softmax, -4, 4, 9, "x(5)", NULL, "(5)"),
    WHOLE("Softmax", "fd", softmax, -4, 4, 9, "x(2,2,1)", NULL, "(2,2,1)"),
    WHOLE("Softmax", "fd", softmax, -4, 4, 9, "x(0,3)", NULL, "(0,3)"),
    WHOLE("LogSoftmax", "fd", log_softmax, -4, 4, 9, "x(2,3)", NULL, "(2,3)"),
    WHOLE("LogSoftmax", "fd", log_softmax, -4, 4, 9, "x(5)", NULL, "(5)"),
    WHOLE("LogSoftmax", "fd", log_softmax, -4, 4, 9, "x(2,2,1)", NULL, "(2,2,1)"),
    WHOLE("LogSoftmax", "fd", log_softmax, -4, 4, 9, "x(0,3)", NULL, "(0,3)"),
    WHOLE("L2Loss", "fd", half_of_squares, -4, 4, 40, "x(7,5)", NULL, "."),
    WHOLE("L2Loss", "fd", half_of_squares, -4, 4, 9, "x", NULL, "."),
    WHOLE("L2Loss", "fd", half_of_squares, -4, 4, 9, "x(0)", NULL, "."),
    /* The labels are given, because their rows must sum to one: the gradient by the
     * logits assumes that, as TensorFlow's does. */
    WHOLE("SoftmaxCrossEntropyWithLogits", "fd", cross_entropy, -3, 3, 12,
          "x(2,3) X(2,3)=0.25,0.25,0.5,1,0,0", NULL, "(2) (2,3)"),
    WHOLE("SoftmaxCrossEntropyWithLogits", "fd", cross_entropy, -3, 3, 12,
          "x(1,1) X(1,1)=1", NULL, "(1) (1,1)"),
    WHOLE("SoftmaxCrossEntropyWithLogits", "fd", cross_entropy, -3, 3, 12,
          "x(0,3) X(0,3)", NULL, "(0) (0,3)"),
    WHOLE("SoftmaxCrossEntropyWithLogits", "fd", cross_entropy, -3, 3, 12,
          "x(2,3) X(1,3)=0.25,0.25,0.5", NULL, "(2) (2,3)"),
    /* TensorFlow has no gradient by logits that are spread over the labels' rows */
    WHOLE("SoftmaxCrossEntropyWithLogits", "fd", cross_entropy, -3, 3, 12,
          "X(1,2) X(3,1)=0.5,0.5,0.5", NULL, "(3) (3,2)"),
    WHOLE("SparseSoftmaxCrossEntropyWithLogits", "f", cross_entropy, -3, 3, 12,
          "x(3,4) l(3)=3,0,1", NULL, "(3) (3,4)"),
    WHOLE("SparseSoftmaxCrossEntropyWithLogits", "f", cross_entropy, -3, 3, 12,
          "x(3,4) i(3)=3,0,1", NULL, "(3) (3,4)"),
    WHOLE("SparseSoftmaxCrossEntropyWithLogits", "f", cross_entropy, -3, 3, 12,
          "x(0,4) i(0)", NULL, "(0) (0,4)"),
    {NULL},
};
