/* norm.c - normalisation over a batch (FusedBatchNorm and its versions) and over neighbouring
 * channels (LRN).
 *
 * FusedBatchNorm, for each channel c of x, with the mean and the variance over all its n
 * elements (is_training) or with those that it is given:
 *     y = (x - mean) scale / sqrt(variance + epsilon) + offset
 * In training, batch_mean and batch_variance are what a moving average takes: variance times
 * n / (n - 1), and with exponential_avg_factor f other than 1, the inputs times 1 - f plus the
 * batch's times f. reserve_space_1 and 2 are the mean and the variance of the batch as the
 * gradient needs them. Without training all that TensorFlow leaves undefined is 0.
 *
 * Sums are taken in float64, in order.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py.
 */
#include "agent/graph/import.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>

/* ---- kernels: batches ---- */

/* x as (outer, channels, inner), and memory for each channel. */
struct batch_norm {
    int64_t outer, channels, inner;
    double n; /* elements of a channel */
    double *sum, *products;
    float *factor, *slope; /* NULL without elements */
    float epsilon;
    int training;
};

static int64_t batch_norm_scratch(const struct shape_args *args)
{
    return 6 * args->out[1].dim[0]; /* two arrays of double, two of float */
}

static int batch_norm_init(const struct kernel_args *a, const struct tensor *x,
                           struct batch_norm *ret)
{
    const int axis = channel_axis(a->op, x->shape.rank);
    const int own = operation_n_outputs(a->op);
    struct batch_norm b = {.outer = span(&x->shape, 0, axis),
                           .channels = x->shape.dim[axis],
                           .inner = span(&x->shape, axis + 1, x->shape.rank),
                           .epsilon = float_attr(a->op, "epsilon", 0),
                           .training = (int)attr_int(a->op, "is_training")};

    if (want_f32(a) < 0)
        return ERR_UNSUPPORTED;
    b.n = (double)(b.outer * b.inner);
    if (a->n_out > own) {
        b.sum = a->out[own]->data;
        b.products = b.sum + b.channels;
        b.factor = (float *)(b.products + b.channels);
        b.slope = b.factor + b.channels;
        memset(b.sum, 0, (size_t)b.channels * 2 * sizeof(double));
    }
    *ret = b;
    return 0;
}

/* Runs `body` for each element i of x, which is in channel c. */
#define EACH_ELEMENT(b, body)                                                            \
    do {                                                                                 \
        for (int64_t o = 0; (b)->inner == 1 && o < (b)->outer; o++)                      \
            for (int64_t c = 0, i = o * (b)->channels; c < (b)->channels; c++, i++)      \
                body;                                                                    \
        for (int64_t o = 0; (b)->inner != 1 && o < (b)->outer * (b)->channels; o++)      \
            for (int64_t c = o % (b)->channels, i = o * (b)->inner;                      \
                 i < (o + 1) * (b)->inner; i++)                                          \
                body;                                                                    \
    } while (0)

/* mean, variance: (channels), of the batch */
static void batch_moments(const struct batch_norm *b, const float *x, float *mean,
                          float *variance)
{
    EACH_ELEMENT(b, b->sum[c] += (double)x[i]);
    for (int64_t c = 0; c < b->channels; c++)
        b->sum[c] = b->n > 0 ? b->sum[c] / b->n : 0;
    EACH_ELEMENT(b, b->products[c] +=
                    ((double)x[i] - b->sum[c]) * ((double)x[i] - b->sum[c]));
    for (int64_t c = 0; c < b->channels; c++) {
        mean[c] = (float)b->sum[c];
        variance[c] = (float)(b->n > 0 ? b->products[c] / b->n : 0);
    }
}

/* What moving averages take: now, after the earlier value was weighted with 1 - factor. */
static float averaged(const struct batch_norm *b, const float *before, float factor,
                      int64_t c, float now)
{
    if (b->n == 0)
        return NAN;
    return factor == 1 ? now : (1 - factor) * before[c] + factor * now;
}

/* in: x, scale, offset, mean, variance; out: y, batch_mean, batch_variance, two or three
 * reserve_spaces, scratch */
static int kern_batch_norm(const struct kernel_args *a)
{
    const float *x = a->in[0]->data, *scale = a->in[1]->data, *offset = a->in[2]->data;
    const float *given_mean = a->in[3]->data, *given_variance = a->in[4]->data;
    const float factor = float_attr(a->op, "exponential_avg_factor", 1);
    float *y = a->out[0]->data, *to_mean = a->out[1]->data,
          *to_variance = a->out[2]->data;
    float *mean = a->out[3]->data, *variance = a->out[4]->data;
    struct batch_norm b;

    if (batch_norm_init(a, a->in[0], &b) < 0)
        return ERR_UNSUPPORTED;
    for (int i = 3; i < operation_n_outputs(a->op); i++)
        clear(a->out[i]);
    if (b.training)
        batch_moments(&b, x, mean, variance);
    for (int64_t c = 0; c < b.channels; c++) {
        const double bessel = b.n > 1 ? b.n / (b.n - 1) : 1;
        const float v = b.training ? variance[c] : given_variance[c];

        to_mean[c] =
            b.training ? averaged(&b, given_mean, factor, c, mean[c]) : given_mean[c];
        to_variance[c] = b.training ? averaged(&b, given_variance, factor, c,
                                               (float)((double)v * bessel))
                                    : given_variance[c];
        b.factor[c] = scale[c] / sqrtf(v + b.epsilon);
    }
    if (!b.training)
        mean = a->in[3]->data;
    EACH_ELEMENT(&b, y[i] = (x[i] - mean[c]) * b.factor[c] + offset[c]);
    return 0;
}

/* in: y_backprop, x, scale, mean, variance, perhaps a third reserve_space; out: gradients of
 * x, scale and offset, two without elements, scratch */
static int kern_batch_norm_grad(const struct kernel_args *a)
{
    const float *dy = a->in[0]->data, *x = a->in[1]->data, *scale = a->in[2]->data;
    const float *mean = a->in[3]->data, *variance = a->in[4]->data;
    float *dx = a->out[0]->data, *dscale = a->out[1]->data, *doffset = a->out[2]->data;
    struct batch_norm b;

    if (batch_norm_init(a, a->in[1], &b) < 0)
        return ERR_UNSUPPORTED;
    EACH_ELEMENT(&b, (b.sum[c] += (double)dy[i],
                      b.products[c] += (double)dy[i] * (double)(x[i] - mean[c])));
    for (int64_t c = 0; c < b.channels; c++) {
        const float inverse = 1 / sqrtf(variance[c] + b.epsilon);

        doffset[c] = (float)b.sum[c];
        dscale[c] = (float)(b.products[c] * (double)inverse);
        b.factor[c] = scale[c] * inverse;
        b.slope[c] = (float)(b.products[c] / b.n) * inverse * inverse;
        b.sum[c] /= b.n;
    }
    if (b.training)
        EACH_ELEMENT(&b, dx[i] = b.factor[c] * (dy[i] - (float)b.sum[c] -
                                                (x[i] - mean[c]) * b.slope[c]));
    else
        EACH_ELEMENT(&b, dx[i] = b.factor[c] * dy[i]);
    return 0;
}

/* ---- shapes and gradients: batches ---- */

/* Finds the channels of input x, with which inputs from..to-1, vectors, must agree. */
static int channels_of(const struct shape_args *args, int x, int from, int to,
                       int64_t *ret)
{
    const struct shape *s = &args->in[x];
    const char *format = operation_attr(args->op, "data_format")->s;
    const size_t version = strlen(operation_type(args->op)) - 1;
    const int is_v3 = operation_type(args->op)[version] == '3';

    if (s->rank >= 0 && s->rank != 4 && (s->rank != 5 || !is_v3))
        return err_set(args->err, ERR_SHAPE, "x must have 4 dimensions: %s",
                       shape_text(s));
    if (strcmp(format, "NHWC") != 0 && strcmp(format, "NCHW") != 0 &&
        (!is_v3 || (strcmp(format, "NDHWC") != 0 && strcmp(format, "NCDHW") != 0)))
        return err_set(args->err, ERR_UNSUPPORTED,
                       "data_format %s, expected NHWC or NCHW", format);
    *ret = dim_of(s, channel_axis(args->op, s->rank));
    for (int i = from; i < to; i++) {
        const int64_t n = dim_of(&args->in[i], 0);

        if (*ret < 0)
            *ret = n;
        else if (n >= 0 && n != *ret)
            return err_set(args->err, ERR_SHAPE,
                           "input %d is %s for an x of %lld channels", i,
                           shape_text(&args->in[i]), (long long)*ret);
    }
    return 0;
}

static int batch_norm_shape(const struct shape_args *args)
{
    /* in training the other inputs are read for a moving average only */
    const int reads_moments = !attr_int(args->op, "is_training") ||
                              operation_attr(args->op, "exponential_avg_factor")->f != 1;
    int64_t n = -1;
    int rc = channels_of(args, 0, 1, reads_moments ? 5 : 3, &n);

    if (rc < 0)
        return rc;
    args->out[0] = args->in[0];
    if (args->in[0].rank >= 0)
        args->out[0].dim[channel_axis(args->op, args->in[0].rank)] = n;
    for (int i = 1; i < 5; i++)
        args->out[i] = SHAPE(n);
    /* reserve_space_3 has no elements when TensorFlow runs on some devices */
    if (operation_n_outputs(args->op) > 5 && args->is_planning)
        args->out[5] = SHAPE_SCALAR;
    return 0;
}

static int batch_norm_grad_shape(const struct shape_args *args)
{
    struct shape both;
    int64_t n = -1;
    int rc = channels_of(args, 1, 2, 5, &n);

    if (rc < 0)
        return rc;
    if (shape_merge(&args->in[0], &args->in[1], &both) != 0)
        return err_set(args->err, ERR_SHAPE, "y_backprop %s and x %s differ",
                       shape_text(&args->in[0]), shape_text(&args->in[1]));
    args->out[0] = both;
    if (both.rank >= 0)
        args->out[0].dim[channel_axis(args->op, both.rank)] = n;
    args->out[1] = args->out[2] = SHAPE(n);
    args->out[3] = args->out[4] = SHAPE(0);
    return 0;
}

/* x, of rank 4 or 5, with its channels moved from place 1 to the last place, or back. */
static struct output move_channels(struct graph *g, struct output x, int rank,
                                   int to_last)
{
    static const int32_t last[2][5] = {{0, 2, 3, 1}, {0, 2, 3, 4, 1}},
                         second[2][5] = {{0, 3, 1, 2}, {0, 4, 1, 2, 3}};
    const int32_t *order = to_last ? last[rank == 5] : second[rank == 5];
    struct output permutation;

    name_scope_enter(g, "transpose");
    permutation = constant_i32s(g, order, rank, "perm");
    x = binary(g, "Transpose", x, permutation, graph_name_scope(g));
    name_scope_leave(g);
    return x;
}

/* FusedBatchNormGrad of the version of `op`. Without training TensorFlow's has its channels
 * last. */
GRAD(batch_norm_grad)
{
    static const char *const types[][2] = {
        {"FusedBatchNorm", "FusedBatchNormGrad"},
        {"FusedBatchNormV2", "FusedBatchNormGradV2"},
        {"FusedBatchNormV3", "FusedBatchNormGradV3"},
    };
    const int training = (int)attr_int(op, "is_training");
    const struct attr *format = operation_attr(op, "data_format");
    const int moves = !training && format->s[1] == 'C';
    struct output x = input_of(op, 0), dy = grad_out[0];
    struct op_builder *b;
    struct operation *d;
    int version = 0;

    if (!output_valid(dy))
        dy = zeros_as(g, output_of(op, 0));
    while (!operation_is(op, types[version][0]))
        version++;
    if (moves) {
        x = move_channels(g, x, (int)format->s_len, 1);
        dy = move_channels(g, dy, (int)format->s_len, 1);
    }
    b = op_begin(g, types[version][1], NULL);
    op_input(b, dy);
    op_input(b, x);
    op_input(b, input_of(op, 1));
    op_input(b, training ? output_of(op, 3) : input_of(op, 3));
    op_input(b, training ? output_of(op, 4) : input_of(op, 4));
    if (version == 2)
        op_input(b, output_of(op, 5));
    op_attr(b, operation_attr(op, "epsilon"));
    op_attr_string(b, "data_format",
                   !moves                             ? format->s
                   : format->s_len == strlen("NCDHW") ? "NDHWC"
                                                      : "NHWC");
    op_attr_bool(b, "is_training", training);
    d = op_finish(b);
    if (d == NULL)
        return -1;
    for (int i = 0; i < 3; i++)
        grad_in[i] = (struct output){d, i};
    if (moves)
        grad_in[0] = move_channels(g, grad_in[0], (int)format->s_len, 0);
    return grad_done(grad_in, 3);
}

/* ---- the gradient of FusedBatchNormGrad: its formula in other nodes, differentiated ---- */

/* The formula's operands: reduced over all axes but that of the channels. */
struct batch_formula {
    struct graph *g;
    const struct operation *op;
    struct output axes; /* those that are summed over */
    int second; /* the channels are dimension 1, so that vectors need more of them */
    int rank;
};

static struct output formula_reduce(const struct batch_formula *f, const char *type,
                                    struct output x)
{
    struct op_builder *b = op_begin(f->g, type, NULL);

    op_input(b, x);
    op_input(b, f->axes);
    op_attr_bool(b, "keep_dims", f->second);
    return (struct output){op_finish(b), 0};
}

/* A vector over the channels, so that it broadcasts with x. */
static struct output formula_vector(const struct batch_formula *f, struct output v)
{
    static const int32_t shape[] = {1, -1, 1, 1, 1};

    if (!f->second)
        return v;
    return binary(f->g, "Reshape", v,
                  constant_i32s(f->g, shape, f->rank, "Reshape/shape"), NULL);
}

static struct output formula_rsqrt(const struct batch_formula *f, struct output variance)
{
    return unary(f->g, "Rsqrt",
                 with_scalar(f->g, "AddV2", variance,
                             (double)operation_attr(f->op, "epsilon")->f, "add"),
                 NULL);
}

/* Builds the gradients of x, scale and offset as FusedBatchNormGrad computes them, with the
 * moments of a training batch as functions of x. */
static void formula_build(const struct batch_formula *f, struct output ret[3])
{
    struct graph *g = f->g;
    const int training = (int)attr_int(f->op, "is_training");
    struct output dy = input_of(f->op, 0), x = input_of(f->op, 1);
    struct output scale = formula_vector(f, input_of(f->op, 2)), mean, inverse, offset,
                  dscale;

    ret[2] = binary(g, "Sum", dy, f->axes, NULL);
    mean =
        training ? formula_reduce(f, "Mean", x) : formula_vector(f, input_of(f->op, 3));
    offset = binary(g, "Sub", x, mean, "sub");
    if (training)
        inverse =
            formula_rsqrt(f, formula_reduce(f, "Mean",
                                            binary(g, "SquaredDifference", x,
                                                   stop_gradient(g, mean, NULL), NULL)));
    else
        inverse = formula_rsqrt(f, formula_vector(f, input_of(f->op, 4)));
    dscale = binary(g, "Mul", binary(g, "Mul", dy, offset, "mul"), inverse, "mul");
    ret[1] = binary(g, "Sum", dscale, f->axes, NULL);
    ret[0] = dy;
    if (training) {
        struct output slope = formula_reduce(f, "Mean", dscale);

        slope = binary(g, "Mul", binary(g, "Mul", offset, inverse, "mul"), slope, "mul");
        ret[0] =
            binary(g, "Sub", binary(g, "Sub", dy, formula_reduce(f, "Mean", dy), "sub"),
                   slope, "sub");
    }
    ret[0] = binary(g, "Mul", ret[0], binary(g, "Mul", scale, inverse, "mul"), "mul");
}

GRAD(batch_norm_grad_grad)
{
    const int rank = output_shape(input_of(op, 1)).rank == 5 ? 5 : 4;
    const int second = channel_axis(op, rank) == 1;
    struct batch_formula f = {.g = g, .op = op, .second = second, .rank = rank};
    const struct output xs[3] = {input_of(op, 0), input_of(op, 1), input_of(op, 2)};
    struct output ys[3], dys[3], formula[3];
    int32_t axes[4];
    struct err err;
    size_t n = 0;

    for (int i = 0; i < rank - 1; i++)
        axes[i] = second && i > 0 ? i + 1 : i;
    f.axes = constant_i32s(g, axes, rank - 1, "axes");
    formula_build(&f, formula);
    if (grad_done(formula, 3) < 0)
        return -1;
    for (int i = 0; i < 3; i++)
        if (output_valid(grad_out[i])) {
            ys[n] = formula[i];
            dys[n++] = grad_out[i];
        }
    return graph_gradients(g, ys, n, xs, 3, dys, xs, 3, grad_in, &err);
}

/* ---- local response: over the channels within depth_radius, x (..., channels) ---- */

struct response {
    int64_t rows, channels, radius;
    float bias, alpha, beta;
};

static int response_init(const struct kernel_args *a, struct response *ret)
{
    const struct shape *x = &a->out[0]->shape;
    const int64_t channels = x->dim[3], radius = attr_int(a->op, "depth_radius");

    *ret = (struct response){span(x, 0, 3),
                             channels,
                             radius < channels ? radius : channels,
                             float_attr(a->op, "bias", 1),
                             float_attr(a->op, "alpha", 1),
                             float_attr(a->op, "beta", 0.5f)};
    return want_f32(a);
}

/* bias + alpha times the sum of the squares around channel c of the row x */
static float response_norm(const struct response *r, const float *x, int64_t c)
{
    const int64_t first = c > r->radius ? c - r->radius : 0;
    const int64_t end = c + r->radius < r->channels ? c + r->radius + 1 : r->channels;
    float sum = 0;

    for (int64_t i = first; i < end; i++)
        sum += x[i] * x[i];
    return r->bias + r->alpha * sum;
}

/* y = x norm^-beta */
static int kern_lrn(const struct kernel_args *a)
{
    const float *x = a->in[0]->data;
    float *y = a->out[0]->data;
    struct response r;

    if (response_init(a, &r) < 0)
        return ERR_UNSUPPORTED;
    for (int64_t row = 0; row < r.rows; row++, x += r.channels, y += r.channels)
        for (int64_t c = 0; c < r.channels; c++)
            y[c] = x[c] * powf(response_norm(&r, x, c), -r.beta);
    return 0;
}

/* in: dy, x, y: dx_k = dy_k norm_k^-beta - 2 alpha beta x_k sum of dy_c y_c / norm_c */
static int kern_lrn_grad(const struct kernel_args *a)
{
    const float *dy = a->in[0]->data, *x = a->in[1]->data, *y = a->in[2]->data;
    float *dx = a->out[0]->data;
    struct response r;

    if (response_init(a, &r) < 0)
        return ERR_UNSUPPORTED;
    clear(a->out[0]);
    for (int64_t row = 0; row < r.rows; row++) {
        for (int64_t c = 0; c < r.channels; c++) {
            const int64_t first = c > r.radius ? c - r.radius : 0;
            const int64_t end = c + r.radius < r.channels ? c + r.radius + 1 : r.channels;
            const float norm = response_norm(&r, x, c);
            const float common = -2 * r.alpha * r.beta * y[c] / norm * dy[c];

            for (int64_t k = first; k < end; k++)
                dx[k] += common * x[k];
            dx[c] += dy[c] * powf(norm, -r.beta);
        }
        dy += r.channels;
        x += r.channels;
        y += r.channels;
        dx += r.channels;
    }
    return 0;
}

static int lrn_shape(const struct shape_args *args)
{
    if (attr_int(args->op, "depth_radius") < 0)
        return err_set(args->err, ERR_ARG, "depth_radius: %lld, expected 0 or more",
                       (long long)attr_int(args->op, "depth_radius"));
    return shape_merged(args);
}

GRAD(lrn_grad)
{
    static const char *const names[] = {"depth_radius", "bias", "alpha", "beta"};
    struct op_builder *b = op_begin(g, "LRNGrad", NULL);

    op_input(b, grad_out[0]);
    op_input(b, input_of(op, 0));
    op_input(b, output_of(op, 0));
    for (int i = 0; i < 4; i++)
        op_attr(b, operation_attr(op, names[i]));
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

/* ---- the rows ---- */

/* U: the type attribute of all but x and y */
#define BATCH_NORM(version, U, types, third, ranks_)                                     \
    {                                                                                    \
        "FusedBatchNorm" version, 0, batch_norm_shape, batch_norm_grad,                  \
            CALL(kern_batch_norm),                                                       \
            "x:T, scale:" U ", offset:" U ", mean:" U ", variance:" U                    \
            " -> y:T, batch_mean:" U ", batch_variance:" U ", reserve_space_1:" U        \
            ", reserve_space_2:" U third "; " types                                      \
            ", epsilon:float=0.0001, exponential_avg_factor:float=1, "                   \
            "data_format:string=NHWC, is_training:bool=true",                            \
            .ranks = ranks_, .scratch = batch_norm_scratch                               \
    }
#define BATCH_NORM_GRAD(version, U, scale, types, third, fourth, fifth, ranks_)          \
    {                                                                                    \
        "FusedBatchNormGrad" version, 0, batch_norm_grad_shape, batch_norm_grad_grad,    \
            CALL(kern_batch_norm_grad),                                                  \
            "y_backprop:T, x:T, scale:" scale ", reserve_space_1:" U                     \
            ", reserve_space_2:" U third " -> x_backprop:T, scale_backprop:" U           \
            ", offset_backprop:" U ", " fourth ":" U ", " fifth ":" U "; " types         \
            ", epsilon:float=0.0001, data_format:string=NHWC, is_training:bool=true",    \
            .ranks = ranks_, .scratch = batch_norm_scratch                               \
    }
#define ONE_TYPE  "T:float_type"
#define TWO_TYPES "T:float_type, U:float_type"
#define LRN_ATTRS                                                                        \
    "depth_radius:int=5, bias:float=1, alpha:float=1, beta:float=0.5, "                  \
    "T:float_type=float32"

static const struct op_def rows[] = {
    BATCH_NORM("", "T", ONE_TYPE, "", "?1111"),
    BATCH_NORM("V2", "U", TWO_TYPES, "", "?1111"),
    BATCH_NORM("V3", "U", TWO_TYPES, ", reserve_space_3:U", "?1111"),
    BATCH_NORM_GRAD("", "T", "T", ONE_TYPE, "", "reserve_space_3", "reserve_space_4",
                    "??111"),
    BATCH_NORM_GRAD("V2", "U", "float32", TWO_TYPES, "", "reserve_space_3",
                    "reserve_space_4", "??111"),
    BATCH_NORM_GRAD("V3", "U", "float32", TWO_TYPES, ", reserve_space_3:U",
                    "reserve_space_4", "reserve_space_5", "??111"),
    {"LRN", OP_LIBM, lrn_shape, lrn_grad, CALL(kern_lrn),
     "input:T -> output:T; " LRN_ATTRS, .ranks = "4"},
    {"LRNGrad", OP_LIBM | OP_NO_GRADIENT, lrn_shape, NULL, CALL(kern_lrn_grad),
     "input_grads:T, input_image:T, output_image:T -> output:T; " LRN_ATTRS,
     .ranks = "444"},
};

const struct op_family ops_of_norm = OP_FAMILY(rows);
