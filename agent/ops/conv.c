/* conv.c - convolutions and pools of images (batch, y, x, channels).
 *
 * A convolution is a matrix product: row p of the matrix of patches holds the pixels
 * that the window covers at output pixel p, in the order (y, x, channel) of the filter's
 * rows. So dense.h computes all sums, and they have the same bits on every machine: a
 * sum over a patch is in order, and the filter's gradient is summed over blocks of
 * DENSE_BLOCK pixels. Only DENSE_BLOCK patches are in memory at a time. The gradient of
 * the input adds the patches' gradients pixel by pixel.
 *
 * How a window moves over a batch of images: attributes as in TensorFlow: strides and ksize of four numbers in the order of
 * data_format, padding SAME or VALID. Output pixel (y, x) sees the input's rows from
 * y stride_y - top and columns from x stride_x - left on; what lies outside the image is 0
 * to a convolution, and absent to a pool.
 *     VALID  only whole windows:  out = (in - size) / stride + 1, no padding
 *     SAME   out = ceil(in / stride); the padding needed is divided between both sides,
 *            an odd pixel goes below and to the right
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py.
 */
#include "agent/graph/import.h"
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- windows ---- */

struct window {
    int64_t batch, channels; /* of the input; -1 here and in all sizes below: unknown */
    int64_t in_y, in_x;      /* size of the input */
    int64_t size_y, size_x;  /* of the window */
    int64_t stride_y, stride_x;
    int64_t out_y, out_x; /* size of the output */
    int64_t top, left;    /* padding; 0 if the sizes are unknown */
};

/* Whether data_format is NHWC, the only format that kernels read. */
static int window_is_nhwc(const struct operation *op)
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

/* image: the shape of the input, of rank 4 or unknown. size_y, size_x: -1 if unknown.
 * ERR_SHAPE, ERR_ARG, ERR_UNSUPPORTED (another padding or data_format, dilations, strides
 * over the batch or the channels). */
static int window_init(struct window *ret, const struct operation *op,
                       const struct shape *image, int64_t size_y, int64_t size_x,
                       struct err *err)
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

/* ---- kernels of convolutions, all of float32 ---- */

struct conv {
    struct window w;
    int64_t pixels;  /* of the output, of all images */
    int64_t patch;   /* elements of a patch */
    int64_t filters; /* channels of the output */
    float *scratch;  /* (DENSE_BLOCK, patch); fewer rows if there are fewer pixels */
};

/* The floats that hold the patches of a block of pixels, of which y has one filter's
 * results, or their gradients, in each channel. */
static int64_t patch_block(const struct shape *filter, const struct shape *y)
{
    const int64_t pixels = filter->dim[3] > 0 ? shape_elements(y) / filter->dim[3] : 0;
    const int64_t rows = pixels < DENSE_BLOCK ? pixels : DENSE_BLOCK;

    return rows * filter->dim[0] * filter->dim[1] * filter->dim[2];
}

static int64_t conv2d_scratch(const struct shape_args *args)
{
    return patch_block(&args->in[1], &args->out[0]);
}

static int64_t conv2d_backprop_input_scratch(const struct shape_args *args)
{
    return patch_block(&args->in[1], &args->in[2]);
}

static int64_t conv2d_backprop_filter_scratch(const struct shape_args *args)
{
    return patch_block(&args->out[0], &args->in[2]);
}

static int unsupported(const struct kernel_args *a)
{
    if (a->out[0]->dtype != DT_FLOAT)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(a->out[0]->dtype));
    if (!window_is_nhwc(a->op))
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of NCHW images, only of NHWC",
                       operation_name(a->op), operation_type(a->op));
    return 0;
}

static int conv_init(const struct kernel_args *a, const struct shape *image,
                     const struct shape *filter, struct conv *ret)
{
    int rc = unsupported(a);

    if (rc == 0)
        rc = window_init(&ret->w, a->op, image, filter->dim[0], filter->dim[1], a->err);
    if (rc < 0)
        return rc;
    ret->pixels = ret->w.batch * ret->w.out_y * ret->w.out_x;
    ret->patch = filter->dim[0] * filter->dim[1] * filter->dim[2];
    ret->filters = filter->dim[3];
    ret->scratch = a->n_out > 1 ? a->out[1]->data : NULL;
    return 0;
}

/* One row of the window, as far as it lies inside the image: elements [to, to + n) of
 * the patch are elements [at, at + n) of the image. */
struct strip {
    int64_t at, to, n;
};

/* Finds row k of the window at an output pixel. Returns 0 if it lies outside the
 * image. */
static int strip_of(const struct window *w, int64_t pixel, int64_t k, struct strip *ret)
{
    const int64_t x0 = pixel % w->out_x * w->stride_x - w->left;
    const int64_t y = pixel / w->out_x % w->out_y * w->stride_y - w->top + k;
    const int64_t image = pixel / w->out_x / w->out_y;
    const int64_t first = x0 < 0 ? 0 : x0;
    const int64_t end = x0 + w->size_x < w->in_x ? x0 + w->size_x : w->in_x;

    if (y < 0 || y >= w->in_y || end <= first)
        return 0;
    ret->at = ((image * w->in_y + y) * w->in_x + first) * w->channels;
    ret->to = (k * w->size_x + first - x0) * w->channels;
    ret->n = (end - first) * w->channels;
    return 1;
}

/* Copies the patches of n output pixels from `first` on to scratch memory. */
static void take_patches(const struct conv *c, const float *image, int64_t first,
                         int64_t n)
{
    const int64_t row = c->w.size_x * c->w.channels;
    struct strip s;

    for (int64_t i = 0; i < n; i++) {
        float *patch = c->scratch + i * c->patch;

        for (int64_t k = 0; k < c->w.size_y; k++) {
            const int is_there = strip_of(&c->w, first + i, k, &s);

            if (!is_there || s.n < row)
                memset(patch + k * row, 0, (size_t)row * sizeof(float));
            if (is_there)
                memcpy(patch + s.to, image + s.at, (size_t)s.n * sizeof(float));
        }
    }
}

/* Adds the patches in scratch memory, those of n pixels from `first` on, to the image. */
static void add_patches(const struct conv *c, float *image, int64_t first, int64_t n)
{
    struct strip s;

    for (int64_t i = 0; i < n; i++) {
        const float *patch = c->scratch + i * c->patch;

        for (int64_t k = 0; k < c->w.size_y; k++) {
            if (!strip_of(&c->w, first + i, k, &s))
                continue;
            for (int64_t j = 0; j < s.n; j++)
                image[s.at + j] += patch[s.to + j];
        }
    }
}

static int64_t block_of(const struct conv *c, int64_t first)
{
    return c->pixels - first < DENSE_BLOCK ? c->pixels - first : DENSE_BLOCK;
}

/* in: image, filter; out: image, scratch */
static int kern_conv2d(const struct kernel_args *a)
{
    struct conv c;
    int rc = conv_init(a, &a->in[0]->shape, &a->in[1]->shape, &c);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    for (int64_t first = 0; first < c.pixels; first += DENSE_BLOCK) {
        const struct dense d = {.m = block_of(&c, first),
                                .n = c.filters,
                                .k = c.patch,
                                .a = c.scratch,
                                .lda = c.patch,
                                .b = a->in[1]->data,
                                .ldb = c.filters,
                                .c = tensor_f32(a->out[0]) + first * c.filters,
                                .ldc = c.filters};

        take_patches(&c, a->in[0]->data, first, d.m);
        kern_loops()->dense(&d);
    }
    return 0;
}

/* in: input_sizes, filter, gradient of the output; out: that of the input, scratch */
static int kern_conv2d_backprop_input(const struct kernel_args *a)
{
    struct conv c;
    int rc = conv_init(a, &a->out[0]->shape, &a->in[1]->shape, &c);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    memset(a->out[0]->data, 0, tensor_bytes(a->out[0]));
    if (c.filters == 0) /* nor is there scratch memory */
        return 0;
    for (int64_t first = 0; first < c.pixels; first += DENSE_BLOCK) {
        const struct dense d = {.m = block_of(&c, first),
                                .n = c.patch,
                                .k = c.filters,
                                .a = tensor_f32(a->in[2]) + first * c.filters,
                                .lda = c.filters,
                                .b = a->in[1]->data,
                                .ldb = c.filters,
                                .transposed_b = 1,
                                .c = c.scratch,
                                .ldc = c.patch};

        kern_loops()->dense(&d);
        add_patches(&c, a->out[0]->data, first, d.m);
    }
    return 0;
}

/* in: image, filter_sizes, gradient of the output; out: that of the filter, scratch */
static int kern_conv2d_backprop_filter(const struct kernel_args *a)
{
    struct conv c;
    int rc = conv_init(a, &a->in[0]->shape, &a->out[0]->shape, &c);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    memset(a->out[0]->data, 0, tensor_bytes(a->out[0]));
    for (int64_t first = 0; first < c.pixels; first += DENSE_BLOCK) {
        const struct dense d = {.m = c.patch,
                                .n = c.filters,
                                .k = block_of(&c, first),
                                .a = c.scratch,
                                .lda = c.patch,
                                .transposed_a = 1,
                                .b = tensor_f32(a->in[2]) + first * c.filters,
                                .ldb = c.filters,
                                .c = a->out[0]->data,
                                .ldc = c.filters,
                                .add = first > 0};

        take_patches(&c, a->in[0]->data, first, d.k);
        kern_loops()->dense(&d);
    }
    return 0;
}

/* ---- kernels of pools ---- */

struct pool {
    struct window w;
    const float *image;
};

static int pool_init(const struct kernel_args *a, struct pool *ret)
{
    const int64_t *size = operation_attr(a->op, "ksize")->list_i;
    int rc = unsupported(a);

    if (rc < 0)
        return rc;
    ret->image = a->in[0]->data;
    return window_init(&ret->w, a->op, &a->in[0]->shape, size[1], size[2], a->err);
}

/* Returns the index of the largest element in one channel of the window at an output
 * pixel: the first one in the order (y, x) if several are equal. */
static int64_t largest(const struct pool *p, int64_t pixel, int64_t channel)
{
    int64_t best = -1;
    struct strip s;

    for (int64_t k = 0; k < p->w.size_y; k++) {
        if (!strip_of(&p->w, pixel, k, &s))
            continue;
        for (int64_t at = s.at + channel; at < s.at + s.n; at += p->w.channels)
            if (best < 0 || p->image[at] > p->image[best])
                best = at;
    }
    return best;
}

/* For each output element p: to[p] = from[largest(p)], or, with scatter, to[largest(p)]
 * += from[p]. There always is a largest element: with padding SAME, too, the padding is
 * smaller than a window. */
static int pool(const struct kernel_args *a, const float *from, int scatter)
{
    float *to = a->out[0]->data;
    struct pool p;
    int rc = pool_init(a, &p);
    int64_t i = 0;

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    if (scatter)
        memset(to, 0, tensor_bytes(a->out[0]));
    for (int64_t pixel = 0; pixel < p.w.batch * p.w.out_y * p.w.out_x; pixel++)
        for (int64_t channel = 0; channel < p.w.channels; channel++, i++) {
            const int64_t at = largest(&p, pixel, channel);

            if (scatter)
                to[at] += from[i];
            else
                to[i] = from[at];
        }
    return 0;
}

static int kern_max_pool(const struct kernel_args *a)
{
    return pool(a, a->in[0]->data, 0);
}

/* in: image, pooled image, gradient of the pooled image; out: gradient of the image */
static int kern_max_pool_grad(const struct kernel_args *a)
{
    return pool(a, a->in[2]->data, 1);
}

/* in: image, pooled image, an array like the image; out: its elements that were pooled */
static int kern_max_pool_grad_grad(const struct kernel_args *a)
{
    return pool(a, a->in[2]->data, 0);
}

/* ---- shapes and gradients of convolutions: filter (y, x, channels in, channels out) ---- */

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

/* ---- shapes and gradients of pools ---- */

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
    {"Conv2D", 0, conv2d_shape, conv2d_grad, CALL(kern_conv2d),
     "input:T, filter:T -> output:T; " CONV_ATTRS, .ranks = "44",
     .scratch = conv2d_scratch},
    {"Conv2DBackpropInput", 0, conv2d_backprop_input_shape, conv2d_backprop_input_grad,
     CALL(kern_conv2d_backprop_input),
     "input_sizes:int32, filter:T, out_backprop:T -> output:T; " CONV_ATTRS,
     .ranks = "?44", .scratch = conv2d_backprop_input_scratch},
    {"Conv2DBackpropFilter", 0, conv2d_backprop_filter_shape, conv2d_backprop_filter_grad,
     CALL(kern_conv2d_backprop_filter),
     "input:T, filter_sizes:int32, out_backprop:T -> output:T; " CONV_ATTRS,
     .ranks = "4?4", .scratch = conv2d_backprop_filter_scratch},
    {"MaxPool", 0, max_pool_shape, max_pool_grad, CALL(kern_max_pool),
     "input:T -> output:T; " POOL_ATTRS},
    {"MaxPoolGrad", 0, max_pool_grad_shape, max_pool_grad_grad, CALL(kern_max_pool_grad),
     "orig_input:T, orig_output:T, grad:T -> output:T; " POOL_ATTRS},
    {"MaxPoolGradGrad", 0, max_pool_grad_grad_shape, max_pool_grad_grad_grad,
     CALL(kern_max_pool_grad_grad),
     "orig_input:T, orig_output:T, grad:T -> output:T; " POOL_ATTRS},
};

const struct op_family ops_of_conv = OP_FAMILY(rows);
