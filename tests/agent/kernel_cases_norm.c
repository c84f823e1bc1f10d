/* Normalisation over batches and over channels, element by element.
 *
 * Tolerances: x minus its mean loses a few bits, which 1 / sqrt(variance) may magnify.
 */
#include "tests/agent/kernel_cases.h"

#include <math.h>
#include <string.h>

/* ---- batches ---- */

static int64_t channel_of(const struct operation *op, const struct shape *s, int64_t i)
{
    const char *format = operation_attr(op, "data_format")->s;
    int64_t index[SHAPE_MAX_RANK];

    unravel(s, i, index);
    return index[format[1] == 'C' ? 1 : s->rank - 1];
}

struct moments {
    double n, mean, variance;
};

static struct moments moments_of(const struct operation *op, const struct array *x,
                                 int64_t c)
{
    struct moments m = {0};

    for (int64_t i = 0; i < x->n; i++)
        if (channel_of(op, &x->tensor.shape, i) == c) {
            m.mean += x->v[i];
            m.n++;
        }
    m.mean /= m.n;
    for (int64_t i = 0; i < x->n; i++)
        if (channel_of(op, &x->tensor.shape, i) == c)
            m.variance += (x->v[i] - m.mean) * (x->v[i] - m.mean);
    m.variance /= m.n;
    return m;
}

static void batch_norm(const struct reference *r)
{
    const struct array *x = &r->in[0];
    const int training = (int)operation_attr(r->op, "is_training")->i;
    const double epsilon = (double)operation_attr(r->op, "epsilon")->f;
    const double f = (double)operation_attr(r->op, "exponential_avg_factor")->f;

    for (int64_t c = 0; c < r->in[1].n; c++) {
        struct moments m = moments_of(r->op, x, c);

        if (training) {
            r->out[1].v[c] = f * m.mean;
            r->out[2].v[c] = f * m.variance * m.n / fmax(m.n - 1, 1);
            r->out[3].v[c] = x->n > 0 ? m.mean : 0;
            r->out[4].v[c] = x->n > 0 ? m.variance : 0;
            for (int k = 0; f != 1 && k < 2; k++)
                r->out[1 + k].v[c] += (1 - f) * r->in[3 + k].v[c];
        } else {
            r->out[1].v[c] = m.mean = r->in[3].v[c];
            r->out[2].v[c] = m.variance = r->in[4].v[c];
        }
        for (int64_t i = 0; i < x->n; i++)
            if (channel_of(r->op, &x->tensor.shape, i) == c)
                r->out[0].v[i] =
                    (x->v[i] - m.mean) / sqrt(m.variance + epsilon) * r->in[1].v[c] +
                    r->in[2].v[c];
    }
}

static void batch_norm_grad(const struct reference *r)
{
    const struct array *dy = &r->in[0], *x = &r->in[1];
    const int training = (int)operation_attr(r->op, "is_training")->i;
    const double epsilon = (double)operation_attr(r->op, "epsilon")->f;

    for (int64_t c = 0; c < r->in[2].n; c++) {
        const double deviation = sqrt(r->in[4].v[c] + epsilon), mean = r->in[3].v[c];
        double sum = 0, product = 0, n = 0;

        for (int64_t i = 0; i < x->n; i++)
            if (channel_of(r->op, &x->tensor.shape, i) == c) {
                sum += dy->v[i];
                product += dy->v[i] * (x->v[i] - mean);
                n++;
            }
        r->out[1].v[c] = product / deviation;
        r->out[2].v[c] = sum;
        for (int64_t i = 0; i < x->n; i++)
            if (channel_of(r->op, &x->tensor.shape, i) == c) {
                r->out[0].v[i] = dy->v[i];
                if (training)
                    r->out[0].v[i] -=
                        sum / n + (x->v[i] - mean) * product / n / deviation / deviation;
                r->out[0].v[i] *= r->in[2].v[c] / deviation;
            }
    }
}

/* ---- channels ---- */

static double local_norm(const struct reference *r, const struct array *x, int64_t i)
{
    const int64_t channels = x->tensor.shape.dim[3];
    const int64_t radius = operation_attr(r->op, "depth_radius")->i, c = i % channels;
    double sum = 0;

    for (int64_t k = 0; k < channels; k++)
        if (k - c <= radius && c - k <= radius)
            sum += x->v[i - c + k] * x->v[i - c + k];
    return (double)operation_attr(r->op, "bias")->f +
           (double)operation_attr(r->op, "alpha")->f * sum;
}

static void lrn(const struct reference *r)
{
    const double beta = (double)operation_attr(r->op, "beta")->f;

    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[0].v[i] * pow(local_norm(r, &r->in[0], i), -beta);
}

static void lrn_grad(const struct reference *r)
{
    const struct array *dy = &r->in[0], *x = &r->in[1], *y = &r->in[2];
    const double beta = (double)operation_attr(r->op, "beta")->f;
    const double alpha = (double)operation_attr(r->op, "alpha")->f;
    const int64_t channels = x->tensor.shape.dim[3];
    const int64_t radius = operation_attr(r->op, "depth_radius")->i;

    for (int64_t i = 0; i < r->out->n; i++) {
        const int64_t c = i % channels;

        r->out->v[i] = dy->v[i] * pow(local_norm(r, x, i), -beta);
        for (int64_t k = 0; k < channels; k++)
            if (k - c <= radius && c - k <= radius)
                r->out->v[i] -= 2 * alpha * beta * x->v[i] * dy->v[i - c + k] *
                                y->v[i - c + k] / local_norm(r, x, i - c + k);
    }
}

/* ---- the rows ---- */

#define ROW(op, f, in, attrs, out, flags)                                                \
    {                                                                                    \
        op, "f", in, attrs, out, f, NULL, -2, 2, 60, flags                               \
    }
/* All versions; what they return after batch_variance, for two channels. */
#define BATCH_NORM(in, attrs, out)                                                       \
    ROW("FusedBatchNorm", batch_norm, in, attrs, out " (2) (2)", CASE_FIRST_OUTPUT),     \
        ROW("FusedBatchNormV2", batch_norm, in, attrs, out " (2) (2)",                   \
            CASE_FIRST_OUTPUT),                                                          \
        ROW("FusedBatchNormV3", batch_norm, in, attrs, out " (2) (2) .",                 \
            CASE_FIRST_OUTPUT)
#define BATCH_NORM_GRAD(in, attrs, out, flags)                                           \
    ROW("FusedBatchNormGrad", batch_norm_grad, in, attrs, out " (2) (2) (0) (0)",        \
        flags),                                                                          \
        ROW("FusedBatchNormGradV2", batch_norm_grad, in, attrs, out " (2) (2) (0) (0)",  \
            flags),                                                                      \
        ROW("FusedBatchNormGradV3", batch_norm_grad, in " f", attrs,                     \
            out " (2) (2) (0) (0)", flags)
#define GIVEN " f(2)=0.3,-0.4 f(2)=2,0.5"
#define INFER "is_training=false epsilon=0.01"
#define NCHW  " data_format=NCHW"

const struct kernel_case norm_cases[] = {
    BATCH_NORM("x(3,2,3,2) x(2) x(2) f(0) f(0)", "epsilon=0.01", "(3,2,3,2) (2) (2)"),
    BATCH_NORM("x(3,2,2,3) x(2) x(2) f(0) f(0)", "epsilon=0.01" NCHW,
               "(3,2,2,3) (2) (2)"),
    BATCH_NORM("x(3,2,3,2) x(2) x(2)" GIVEN, "exponential_avg_factor=0.25",
               "(3,2,3,2) (2) (2)"),
    BATCH_NORM("x(1,1,1,2) x(2) x(2) f(0) f(0)", "epsilon=0.5", "(1,1,1,2) (2) (2)"),
    BATCH_NORM("x(0,2,3,2) x(2) x(2) f(0) f(0)", NULL, "(0,2,3,2) (2) (2)"),
    BATCH_NORM("x(2,1,3,2) x(2) x(2)" GIVEN, INFER, "(2,1,3,2) (2) (2)"),
    BATCH_NORM("x(2,2,1,3) x(2) x(2)" GIVEN, INFER NCHW, "(2,2,1,3) (2) (2)"),
    BATCH_NORM("x(0,2,1,3) x(2) x(2)" GIVEN, INFER NCHW, "(0,2,1,3) (2) (2)"),
    ROW("FusedBatchNormV3", batch_norm, "x(2,2,1,3,2) x(2) x(2) f(0) f(0)",
        "epsilon=0.01 data_format=NDHWC", "(2,2,1,3,2) (2) (2) (2) (2) .",
        CASE_FIRST_OUTPUT),
    ROW("FusedBatchNormV3", batch_norm, "x(2,2,1,3,2) x(2) x(2)" GIVEN,
        INFER " data_format=NCDHW", "(2,2,1,3,2) (2) (2) (2) (2) .", CASE_FIRST_OUTPUT),
    /* In training TensorFlow's gradient of the gradient takes the moments for functions of
     * x, which the kernel is given. */
    BATCH_NORM_GRAD("x(3,2,2,2) x(3,2,2,2) x(2)" GIVEN, "epsilon=0.01", "(3,2,2,2)",
                    CASE_NO_DIFFERENCE),
    BATCH_NORM_GRAD("x(3,2,2,2) x(3,2,2,2) x(2)" GIVEN, "epsilon=0.01" NCHW, "(3,2,2,2)",
                    CASE_NO_DIFFERENCE),
    BATCH_NORM_GRAD("x(3,1,2,2) x(3,1,2,2) x(2)" GIVEN, INFER, "(3,1,2,2)", 0),
    BATCH_NORM_GRAD("x(3,2,1,2) x(3,2,1,2) x(2)" GIVEN, INFER NCHW, "(3,2,1,2)", 0),
    BATCH_NORM_GRAD("x(0,2,1,2) x(0,2,1,2) x(2)" GIVEN, "epsilon=0.01", "(0,2,1,2)",
                    CASE_NO_DIFFERENCE),
    ROW("LRN", lrn, "x(2,1,2,5)", "depth_radius=1", "(2,1,2,5)", 0),
    ROW("LRN", lrn, "x(1,2,2,3)", "bias=2.0 alpha=0.3 beta=0.75", "(1,2,2,3)", 0),
    ROW("LRN", lrn, "x(1,0,2,3)", "depth_radius=0", "(1,0,2,3)", 0),
    ROW("LRNGrad", lrn_grad, "x(2,1,2,5) x(2,1,2,5) x(2,1,2,5)", "depth_radius=1",
        "(2,1,2,5)", 0),
    ROW("LRNGrad", lrn_grad, "x(1,2,2,3) x(1,2,2,3) x(1,2,2,3)",
        "bias=2.0 alpha=0.3 beta=0.75", "(1,2,2,3)", 0),
    {NULL},
};
