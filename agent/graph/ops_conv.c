/* ops_conv.c - convolutions and pools of images.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py.
 */
#include "agent/graph/import.h"
#include "agent/graph/op_rules.h"
#include "agent/graph/window.h"

#include <string.h>

/* ---- windows ---- */

int window_is_nhwc(const struct operation *op)
{
    return strcmp(operation_attr(op, "data_format")->s, "NHWC") == 0;
}

/* The shape of an image of these sizes, in the order of data_format. */
static struct shape window_image(const struct operation *op, int64_t batch, int64_t y,
                                 int64_t x, int64_t channels)
{
    return window_is_nhwc(op) ? SHAPE(batch, y, x, channels)
                              : SHAPE(batch, channels, y, x);
}

static int four_numbers(const struct operation *op, const char *name, const int64_t **ret,
                        struct err *err)
{
    const struct attr *a = operation_attr(op, name);

    *ret = a->list_i;
    for (size_t i = 0; i < a->n; i++)
        if (a->list_i[i] < 1 || a->list_i[i] > INT32_MAX)
            return err_set(err, ERR_ARG, "%s: %lld, expected 1 or more", name,
                           (long long)a->list_i[i]);
    return a->n == 4 ? 0
                     : err_set(err, ERR_ARG, "%s: %zu numbers, expected 4", name, a->n);
}

/* The window's places along one dimension: their number, and the padding before the
 * first. */
static int place(int64_t in, int64_t size, int64_t stride, int same, int64_t *ret_out,
                 int64_t *ret_before, struct err *err)
{
    int64_t padding;

    *ret_out = -1;
    *ret_before = 0;
    if (in < 0 || (size < 0 && !same))
        return 0;
    if (!same) {
        *ret_out = (in - size) / stride + 1;
        return in >= size ? 0
                          : err_set(err, ERR_SHAPE,
                                    "a window of %lld does not fit into an image of %lld",
                                    (long long)size, (long long)in);
    }
    *ret_out = (in + stride - 1) / stride;
    padding = (*ret_out - 1) * stride + size - in;
    *ret_before = size > 0 && padding > 0 ? padding / 2 : 0;
    return 0;
}

int window_init(struct window *ret, const struct operation *op, const struct shape *image,
                int64_t size_y, int64_t size_x, struct err *err)
{
    const char *format = operation_attr(op, "data_format")->s;
    const char *padding = operation_attr(op, "padding")->s;
    const int nhwc = window_is_nhwc(op), y = nhwc ? 1 : 2, same = padding[0] == 'S';
    struct window w = {.size_y = size_y, .size_x = size_x};
    const int64_t *strides, *dilations = NULL;
    int rc = four_numbers(op, "strides", &strides, err);

    if (rc == 0 && operation_attr(op, "dilations") != NULL)
        rc = four_numbers(op, "dilations", &dilations, err);
    if (rc < 0)
        return rc;
    if (!nhwc && strcmp(format, "NCHW") != 0)
        return err_set(err, ERR_UNSUPPORTED, "data_format %s, expected NHWC", format);
    if (strcmp(padding, "SAME") != 0 && strcmp(padding, "VALID") != 0)
        return err_set(err, ERR_UNSUPPORTED, "padding %s, expected SAME or VALID",
                       padding);
    for (int i = 0; dilations != NULL && i < 4; i++)
        if (dilations[i] != 1)
            return err_set(err, ERR_UNSUPPORTED, "dilations other than 1");
    if (strides[0] != 1 || strides[nhwc ? 3 : 1] != 1)
        return err_set(err, ERR_UNSUPPORTED, "strides over the batch or the channels");
    w.batch = dim_of(image, 0);
    w.channels = dim_of(image, nhwc ? 3 : 1);
    w.in_y = dim_of(image, y);
    w.in_x = dim_of(image, y + 1);
    w.stride_y = strides[y];
    w.stride_x = strides[y + 1];
    rc = place(w.in_y, size_y, w.stride_y, same, &w.out_y, &w.top, err);
    if (rc == 0)
        rc = place(w.in_x, size_x, w.stride_x, same, &w.out_x, &w.left, err);
    if (rc == 0)
        *ret = w;
    return rc;
}

/* ---- convolutions: filter (y, x, channels in, channels out) ---- */

/* The window of a convolution whose image and filter have these shapes. */
static int conv_window(const struct shape_args *args, const struct shape *image,
                       const struct shape *filter, struct window *ret)
{
    int rc = window_init(ret, args->op, image, dim_of(filter, 0), dim_of(filter, 1),
                         args->err);
    const int64_t deep = dim_of(filter, 2);

    if (rc == 0 && ret->channels >= 0 && deep >= 0 && ret->channels != deep)
        rc = err_set(args->err, ERR_SHAPE,
                     "a filter %s for %lld channels does not fit an image %s",
                     shape_text(filter), (long long)deep, shape_text(image));
    return rc;
}

static int conv2d_shape(const struct shape_args *args)
{
    struct window w;
    int rc;

    rc = conv_window(args, &args->in[0], &args->in[1], &w);
    if (rc == 0)
        args->out[0] =
            window_image(args->op, w.batch, w.out_y, w.out_x, dim_of(&args->in[1], 3));
    return rc;
}

/* The gradient of the output must have the output's shape. */
static int want_output(const struct shape_args *args, const struct window *w, int input,
                       int64_t channels)
{
    const struct shape want =
        window_image(args->op, w->batch, w->out_y, w->out_x, channels);
    struct shape both;

    return shape_merge(&want, &args->in[input], &both) == 0
               ? 0
               : err_set(args->err, ERR_SHAPE, "%s for an output of shape %s",
                         shape_text(&args->in[input]), shape_text(&want));
}

static int conv2d_backprop_input_shape(const struct shape_args *args)
{
    struct shape image = SHAPE_UNKNOWN;
    struct window w;
    int rc = value_sizes(args, 0, &image);

    if (rc < 0)
        return rc;
    if (image.rank >= 0 && image.rank != 4)
        return err_set(args->err, ERR_SHAPE, "input_sizes: %d numbers, expected 4",
                       image.rank);
    rc = conv_window(args, &image, &args->in[1], &w);
    if (rc == 0 && image.rank == 4)
        rc = want_output(args, &w, 2, dim_of(&args->in[1], 3));
    args->out[0] = image.rank == 4 ? image : SHAPE(-1, -1, -1, -1);
    return rc;
}

static int conv2d_backprop_filter_shape(const struct shape_args *args)
{
    struct shape filter = SHAPE_UNKNOWN;
    struct window w;
    int rc = value_sizes(args, 1, &filter);

    if (rc < 0)
        return rc;
    if (filter.rank >= 0 && filter.rank != 4)
        return err_set(args->err, ERR_SHAPE, "filter_sizes: %d numbers, expected 4",
                       filter.rank);
    rc = conv_window(args, &args->in[0], &filter, &w);
    if (rc == 0 && filter.rank == 4)
        rc = want_output(args, &w, 2, dim_of(&filter, 3));
    args->out[0] = filter.rank == 4 ? filter : SHAPE(-1, -1, -1, -1);
    return rc;
}

/* An operation of three inputs, or of two with OUTPUT_NONE, with the window's attributes
 * of `like`. */
static struct output windowed(struct graph *g, const char *type,
                              const struct operation *like, struct output x,
                              struct output y, struct output z)
{
    static const char *const names[] = {
        "strides",     "use_cudnn_on_gpu", "padding", "explicit_paddings",
        "data_format", "dilations",        "ksize"};
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, x);
    op_input(b, y);
    if (z.op != NULL)
        op_input(b, z);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (operation_attr(like, names[i]) != NULL)
            op_attr(b, operation_attr(like, names[i]));
    return (struct output){op_finish(b), 0};
}

GRAD(conv2d_grad)
{
    struct output x = input_of(op, 0), filter = input_of(op, 1);
    struct op_builder *b = op_begin(g, "ShapeN", NULL);
    struct operation *sizes;

    op_input(b, x);
    op_input(b, filter);
    sizes = op_finish(b);
    if (sizes == NULL)
        return -1;
    grad_in[0] = windowed(g, "Conv2DBackpropInput", op, (struct output){sizes, 0}, filter,
                          grad_out[0]);
    grad_in[1] = windowed(g, "Conv2DBackpropFilter", op, x, (struct output){sizes, 1},
                          grad_out[0]);
    return grad_done(grad_in, 2);
}

GRAD(conv2d_backprop_input_grad)
{
    struct output filter = input_of(op, 1), dy = input_of(op, 2);
    struct output sizes = shape_of(g, filter, NULL);

    grad_in[1] = windowed(g, "Conv2DBackpropFilter", op, grad_out[0], sizes, dy);
    grad_in[2] = windowed(g, "Conv2D", op, grad_out[0], filter, OUTPUT_NONE);
    return grad_done(grad_in + 1, 2);
}

GRAD(conv2d_backprop_filter_grad)
{
    struct output x = input_of(op, 0), dy = input_of(op, 2);
    struct output sizes = shape_of(g, x, NULL), ends[2];

    ends[0] = grad_in[0] = windowed(g, "Conv2DBackpropInput", op, sizes, grad_out[0], dy);
    ends[1] = grad_in[2] = windowed(g, "Conv2D", op, x, grad_out[0], OUTPUT_NONE);
    return grad_done(ends, 2);
}

/* ---- pools ---- */

static int pool_window(const struct shape_args *args, struct window *ret)
{
    const int y = window_is_nhwc(args->op) ? 1 : 2;
    const int64_t *size;
    int rc;

    if (want_rank(args, 0, 4) != 0)
        return ERR_SHAPE;
    rc = four_numbers(args->op, "ksize", &size, args->err);
    if (rc == 0 && (size[0] != 1 || size[y == 1 ? 3 : 1] != 1))
        rc = err_set(args->err, ERR_UNSUPPORTED, "a pool over the batch or the channels");
    return rc < 0 ? rc
                  : window_init(ret, args->op, &args->in[0], size[y], size[y + 1],
                                args->err);
}

static int max_pool_shape(const struct shape_args *args)
{
    struct window w;
    int rc = pool_window(args, &w);

    if (rc == 0)
        args->out[0] = window_image(args->op, w.batch, w.out_y, w.out_x, w.channels);
    return rc;
}

static int max_pool_grad_shape(const struct shape_args *args)
{
    struct window w;
    int rc = pool_window(args, &w);

    for (int i = 1; rc == 0 && i <= 2; i++)
        rc = want_output(args, &w, i, w.channels);
    args->out[0] = args->in[0];
    return rc;
}

static int max_pool_grad_grad_shape(const struct shape_args *args)
{
    struct window w;
    struct shape both;
    int rc = pool_window(args, &w);

    if (rc == 0)
        rc = want_output(args, &w, 1, w.channels);
    if (rc == 0 && shape_merge(&args->in[0], &args->in[2], &both) != 0)
        rc = err_set(args->err, ERR_SHAPE, "%s for an image of shape %s",
                     shape_text(&args->in[2]), shape_text(&args->in[0]));
    args->out[0] = args->in[1];
    return rc;
}

GRAD_ONE(max_pool_grad,
         windowed(g, "MaxPoolGrad", op, input_of(op, 0), output_of(op, 0), grad_out[0]))

static int second_grad(struct graph *g, struct operation *op, const char *type,
                       struct output d, struct output *grad_in)
{
    struct output x = input_of(op, 0), y = input_of(op, 1);

    grad_in[0] = zeros_as(g, x);
    grad_in[1] = zeros_as(g, y);
    grad_in[2] = windowed(g, type, op, x, y, d);
    return grad_done(grad_in, 3);
}

GRAD(max_pool_grad_grad)
{
    return second_grad(g, op, "MaxPoolGradGrad", grad_out[0], grad_in);
}

GRAD(max_pool_grad_grad_grad)
{
    return second_grad(g, op, "MaxPoolGrad", grad_out[0], grad_in);
}

/* ---- the rows ---- */

#define CONV_ATTRS                                                                       \
    "T:float_type, strides:list(int), use_cudnn_on_gpu:bool=true, padding:string, "      \
    "explicit_paddings:list(int)=[], data_format:string=NHWC, "                          \
    "dilations:list(int)=[1 1 1 1]"
#define POOL_ATTRS                                                                       \
    "T:number_type=float32, ksize:list(int), strides:list(int), padding:string, "        \
    "data_format:string=NHWC"

static const struct op_def rows[] = {
    {"Conv2D", 0, conv2d_shape, conv2d_grad, "input:T, filter:T -> output:T; " CONV_ATTRS,
     .ranks = "44"},
    {"Conv2DBackpropInput", 0, conv2d_backprop_input_shape, conv2d_backprop_input_grad,
     "input_sizes:int32, filter:T, out_backprop:T -> output:T; " CONV_ATTRS,
     .ranks = "?44"},
    {"Conv2DBackpropFilter", 0, conv2d_backprop_filter_shape, conv2d_backprop_filter_grad,
     "input:T, filter_sizes:int32, out_backprop:T -> output:T; " CONV_ATTRS,
     .ranks = "4?4"},
    {"MaxPool", 0, max_pool_shape, max_pool_grad, "input:T -> output:T; " POOL_ATTRS},
    {"MaxPoolGrad", 0, max_pool_grad_shape, max_pool_grad_grad,
     "orig_input:T, orig_output:T, grad:T -> output:T; " POOL_ATTRS},
    {"MaxPoolGradGrad", 0, max_pool_grad_grad_shape, max_pool_grad_grad_grad,
     "orig_input:T, orig_output:T, grad:T -> output:T; " POOL_ATTRS},
};

const struct op_family ops_of_conv = OP_FAMILY(rows);
