/* depthwise.c - convolutions of each channel by itself: filter (y, x, channels, multiplier).
 *
 * Channel c m of the output, m multipliers for each channel c of the input, is the sum over
 * the window (window.h) of input channel c times filter (y, x, c, m). The filter's gradient
 * sums blocks of DENSE_BLOCK output pixels, and adds these sums in order.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "agent/ops/window.h"

/* ---- kernels ---- */

struct depthwise {
    struct window w;
    int64_t channels, multiplier, filter; /* filter: elements */
    int64_t x_pixel, x_channel;           /* from one to the next, in elements */
    int64_t y_pixel, y_channel;
};

static int depthwise_init(const struct kernel_args *a, const struct shape *image,
                          const struct shape *filter, struct depthwise *ret)
{
    struct depthwise d = {.channels = filter->dim[2],
                          .multiplier = filter->dim[3],
                          .filter = shape_elements(filter)};
    int64_t plane;

    if (a->out[0]->dtype != DT_DOUBLE && want_f32(a) < 0)
        return ERR_UNSUPPORTED;
    if (window_init(&d.w, a->op, image, filter->dim, NULL, a->err) < 0)
        return err_wrap(a->err, "%s", operation_name(a->op));
    plane = window_image_pixels(&d.w);
    d.x_pixel = window_pixel_step(&d.w);
    d.x_channel = window_channel_step(&d.w);
    d.y_pixel = d.w.channels_second ? 1 : d.channels * d.multiplier;
    d.y_channel = d.w.channels_second ? plane : 1;
    *ret = d;
    return 0;
}

/* The element of the output that has channel 0 of a pixel. */
static int64_t output_at(const struct depthwise *d, int64_t pixel)
{
    const int64_t plane = window_image_pixels(&d->w);

    return d->w.channels_second
               ? pixel / plane * plane * d->channels * d->multiplier + pixel % plane
               : pixel * d->y_pixel;
}

/* Runs `body` with the elements x of the input, y of the output and f of the filter that meet
 * in one place of the window. Without multipliers and with the channels last, neighbouring
 * channels are neighbours in all three arrays. */
#define EACH_MEETING(d, x0, y0, f0, body)                                                \
    do {                                                                                 \
        if ((d)->multiplier == 1 && (d)->x_channel == 1) {                               \
            for (int64_t c = 0; c < (d)->channels; c++) {                                \
                const int64_t x = (x0) + c, y = (y0) + c, f = (f0) + c;                  \
                body;                                                                    \
            }                                                                            \
            break;                                                                       \
        }                                                                                \
        for (int64_t c = 0; c < (d)->channels; c++)                                      \
            for (int64_t m = 0; m < (d)->multiplier; m++) {                              \
                const int64_t x = (x0) + c * (d)->x_channel,                             \
                              f = (f0) + c * (d)->multiplier + m;                        \
                const int64_t y = (y0) + (c * (d)->multiplier + m) * (d)->y_channel;     \
                body;                                                                    \
            }                                                                            \
    } while (0)

/* `body` for all channels of all places of the window over a pixel. */
#define EACH_PLACE(d, pixel, body)                                                       \
    do {                                                                                 \
        const int64_t per_place = (d)->channels * (d)->multiplier;                       \
        const int64_t y_at = output_at(d, pixel);                                        \
        const struct window_axis *columns = &(d)->w.axis[2];                             \
        struct window_place p;                                                           \
                                                                                         \
        window_at(&(d)->w, pixel, &p);                                                   \
        EACH_LINE(&(d)->w, &p, line, at)                                                 \
        for (int64_t k = 0; k < p.n; k++) {                                              \
            const int64_t x_at = at + k * columns->rate * (d)->x_pixel;                  \
            const int64_t f_at = (line * columns->size + p.first + k) * per_place;       \
                                                                                         \
            EACH_MEETING(d, x_at, y_at, f_at, body);                                     \
        }                                                                                \
    } while (0)

#define DEPTHWISE(T)                                                                     \
    static void forward_##T(const struct depthwise *d, const T *image, const T *filter,  \
                            T *to)                                                       \
    {                                                                                    \
        for (int64_t pixel = 0; pixel < window_pixels(&d->w); pixel++)                   \
            EACH_PLACE(d, pixel, to[y] += image[x] * filter[f]);                         \
    }                                                                                    \
    static void to_input_##T(const struct depthwise *d, T *image, const T *filter,       \
                             const T *dy)                                                \
    {                                                                                    \
        for (int64_t pixel = 0; pixel < window_pixels(&d->w); pixel++)                   \
            EACH_PLACE(d, pixel, image[x] += dy[y] * filter[f]);                         \
    }                                                                                    \
    static void to_filter_##T(const struct depthwise *d, const T *image, T *filter,      \
                              const T *dy, T *part)                                      \
    {                                                                                    \
        const int64_t pixels = window_pixels(&d->w);                                     \
                                                                                         \
        for (int64_t first = 0; first < pixels; first += DENSE_BLOCK) {                  \
            memset(part, 0, (size_t)d->filter * sizeof(T));                              \
            for (int64_t i = first; i < pixels && i < first + DENSE_BLOCK; i++)          \
                EACH_PLACE(d, i, part[f] += image[x] * dy[y]);                           \
            for (int64_t i = 0; i < d->filter; i++)                                      \
                filter[i] += part[i];                                                    \
        }                                                                                \
    }
DEPTHWISE(float)
DEPTHWISE(double)

/* in: image, filter; out: image */
static int kern_depthwise(const struct kernel_args *a)
{
    struct depthwise d;
    int rc = depthwise_init(a, &a->in[0]->shape, &a->in[1]->shape, &d);

    if (rc < 0)
        return rc;
    clear(a->out[0]);
    if (a->out[0]->dtype == DT_FLOAT)
        forward_float(&d, a->in[0]->data, a->in[1]->data, a->out[0]->data);
    else
        forward_double(&d, a->in[0]->data, a->in[1]->data, a->out[0]->data);
    return 0;
}

/* in: input_sizes, filter, gradient of the output; out: that of the input */
static int kern_depthwise_to_input(const struct kernel_args *a)
{
    struct depthwise d;
    int rc = depthwise_init(a, &a->out[0]->shape, &a->in[1]->shape, &d);

    if (rc < 0)
        return rc;
    clear(a->out[0]);
    if (a->out[0]->dtype == DT_FLOAT)
        to_input_float(&d, a->out[0]->data, a->in[1]->data, a->in[2]->data);
    else
        to_input_double(&d, a->out[0]->data, a->in[1]->data, a->in[2]->data);
    return 0;
}

/* in: image, filter_sizes, gradient of the output; out: that of the filter, scratch */
static int kern_depthwise_to_filter(const struct kernel_args *a)
{
    struct depthwise d;
    int rc = depthwise_init(a, &a->in[0]->shape, &a->out[0]->shape, &d);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    clear(a->out[0]);
    if (a->out[0]->dtype == DT_FLOAT)
        to_filter_float(&d, a->in[0]->data, a->out[0]->data, a->in[2]->data,
                        a->out[1]->data);
    else
        to_filter_double(&d, a->in[0]->data, a->out[0]->data, a->in[2]->data,
                         a->out[1]->data);
    return 0;
}

static int64_t filter_scratch(const struct shape_args *args)
{
    return shape_elements(&args->out[0]) *
           (int64_t)(element_bytes(args->op) / sizeof(float));
}

/* ---- shapes and gradients ---- */

static int depthwise_window(const struct shape_args *args, const struct shape *image,
                            const struct shape *filter, struct window *ret,
                            int64_t *ret_channels)
{
    const int64_t size[] = {dim_of(filter, 0), dim_of(filter, 1)};
    const int64_t deep = dim_of(filter, 2), multiplier = dim_of(filter, 3);
    int rc = window_init(ret, args->op, image, size, NULL, args->err);

    if (rc == 0 && ret->channels >= 0 && deep >= 0 && ret->channels != deep)
        rc = err_set(args->err, ERR_SHAPE,
                     "a filter %s for %lld channels does not fit an image %s",
                     shape_text(filter), (long long)deep, shape_text(image));
    *ret_channels = -1;
    if (rc == 0 && deep >= 0 && multiplier >= 0 &&
        __builtin_mul_overflow(deep, multiplier, ret_channels))
        rc = err_set(args->err, ERR_SHAPE, "a filter %s has too many channels",
                     shape_text(filter));
    return rc;
}

static int depthwise_shape(const struct shape_args *args)
{
    int64_t channels;
    struct window w;
    int rc = depthwise_window(args, &args->in[0], &args->in[1], &w, &channels);

    if (rc == 0)
        args->out[0] = window_output(&w, channels);
    return rc;
}

/* Of the gradient of the image (sizes 0, filter 1) or of the filter (image 0, sizes 1). */
static int backprop_shape(const struct shape_args *args, int sizes, const char *name)
{
    struct shape s = SHAPE_UNKNOWN;
    const struct shape *image = sizes == 0 ? &s : &args->in[0];
    const struct shape *filter = sizes == 1 ? &s : &args->in[1];
    int64_t channels;
    struct window w;
    int rc = value_sizes(args, sizes, &s);

    if (rc == 0 && s.rank >= 0 && s.rank != 4)
        rc = err_set(args->err, ERR_SHAPE, "%s: %d numbers, expected 4", name, s.rank);
    if (rc == 0)
        rc = depthwise_window(args, image, filter, &w, &channels);
    if (rc == 0 && s.rank >= 0)
        rc = window_want_output(args, &w, 2, channels);
    args->out[0] = s.rank >= 0 ? s : SHAPE(-1, -1, -1, -1);
    return rc;
}

static int to_input_shape(const struct shape_args *args)
{
    return backprop_shape(args, 0, "input_sizes");
}

static int to_filter_shape(const struct shape_args *args)
{
    return backprop_shape(args, 1, "filter_sizes");
}

#define TYPE "DepthwiseConv2dNative"

GRAD(depthwise_grad)
{
    struct output x = input_of(op, 0), filter = input_of(op, 1);

    grad_in[0] =
        window_node(g, TYPE "BackpropInput", op,
                    (struct output[]){shape_of(g, x, NULL), filter, grad_out[0]}, 3);
    grad_in[1] =
        window_node(g, TYPE "BackpropFilter", op,
                    (struct output[]){x, shape_of(g, filter, NULL), grad_out[0]}, 3);
    return grad_done(grad_in, 2);
}

GRAD(to_input_grad)
{
    struct output filter = input_of(op, 1), dy = input_of(op, 2);

    grad_in[1] =
        window_node(g, TYPE "BackpropFilter", op,
                    (struct output[]){grad_out[0], shape_of(g, filter, NULL), dy}, 3);
    grad_in[2] = window_node(g, TYPE, op, (struct output[]){grad_out[0], filter}, 2);
    return grad_done(grad_in + 1, 2);
}

GRAD(to_filter_grad)
{
    struct output x = input_of(op, 0), dy = input_of(op, 2), ends[2];

    ends[0] = grad_in[0] =
        window_node(g, TYPE "BackpropInput", op,
                    (struct output[]){shape_of(g, x, NULL), grad_out[0], dy}, 3);
    ends[1] = grad_in[2] = window_node(g, TYPE, op, (struct output[]){x, grad_out[0]}, 2);
    return grad_done(ends, 2);
}

/* ---- the rows ---- */

#define ATTRS                                                                            \
    "T:float_type, strides:list(int), padding:string, explicit_paddings:list(int)=[], "  \
    "data_format:string=NHWC, dilations:list(int)=[1 1 1 1]"

static const struct op_def rows[] = {
    {TYPE, 0, depthwise_shape, depthwise_grad, CALL(kern_depthwise),
     "input:T, filter:T -> output:T; " ATTRS, .ranks = "44"},
    {TYPE "BackpropInput", 0, to_input_shape, to_input_grad,
     CALL(kern_depthwise_to_input),
     "input_sizes:int32, filter:T, out_backprop:T -> output:T; " ATTRS, .ranks = "?44"},
    {TYPE "BackpropFilter", 0, to_filter_shape, to_filter_grad,
     CALL(kern_depthwise_to_filter),
     "input:T, filter_sizes:int32, out_backprop:T -> output:T; " ATTRS, .ranks = "4?4",
     .scratch = filter_scratch},
};

const struct op_family ops_of_depthwise = OP_FAMILY(rows);
