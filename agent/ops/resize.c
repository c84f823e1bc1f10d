/* resize.c - images (batch, y, x, channels) of another size.
 *
 * Place i of n places lies in the image of `size` pixels at
 *     i scale                   scale = size / n, or with align_corners (size - 1) / (n - 1),
 *     (i + 1/2) scale - 1/2     so that the corners' centres meet; half_pixel_centers
 * ResizeBilinear weights the two pixels beside it in both directions; ResizeNearestNeighbor
 * takes the pixel before it, or with align_corners the nearest one. All in float32, as
 * TensorFlow does.
 *
 * Gradients after TensorFlow 1.13's python/ops/image_grad.py.
 */
#include "agent/graph/import.h"
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>

/* ---- places ---- */

/* One direction: `size` pixels of the image, n places. */
struct resize_axis {
    int64_t size, n;
    float scale;
    int align, half;
};

static struct resize_axis axis_init(const struct operation *op, int64_t size, int64_t n)
{
    struct resize_axis a = {.size = size,
                            .n = n,
                            .align = (int)attr_int(op, "align_corners"),
                            .half = (int)attr_int(op, "half_pixel_centers")};

    a.scale =
        a.align && n > 1 ? (float)(size - 1) / (float)(n - 1) : (float)size / (float)n;
    return a;
}

/* The pixels beside a place, and how far it is from `low` to `high`. */
struct between {
    int64_t low, high;
    float part;
};

static struct between between_at(const struct resize_axis *a, int64_t i)
{
    const float at = a->half ? ((float)i + 0.5f) * a->scale - 0.5f : (float)i * a->scale;
    const float floor_at = floorf(at);
    struct between b = {(int64_t)floor_at, (int64_t)ceilf(at), at - floor_at};

    b.low = b.low > 0 ? b.low : 0;
    b.high = b.high < a->size - 1 ? b.high : a->size - 1;
    b.low = b.low < b.high ? b.low : b.high;
    return b;
}

static int64_t nearest_at(const struct resize_axis *a, int64_t i)
{
    const float at = ((float)i + (a->half ? 0.5f : 0)) * a->scale;
    const int64_t pixel = (int64_t)(a->align ? roundf(at) : floorf(at));

    return pixel < a->size - 1 ? pixel : a->size - 1;
}

/* ---- kernels ---- */

/* The image that has its own size, and the one of other size. */
static void axes_init(const struct kernel_args *a, const struct tensor *image,
                      const struct tensor *resized, struct resize_axis ret[2])
{
    for (int d = 0; d < 2; d++)
        ret[d] = axis_init(a->op, image->shape.dim[d + 1], resized->shape.dim[d + 1]);
}

/* y, resized from the two lines above and below a place. */
static void blend_line(const float *above, const float *below, float part_y,
                       const struct resize_axis *x, int64_t channels, float *y)
{
    for (int64_t i = 0; i < x->n; i++, y += channels) {
        const struct between b = between_at(x, i);

        for (int64_t c = 0; c < channels; c++) {
            const float left_above = above[b.low * channels + c];
            const float left_below = below[b.low * channels + c];
            const float top =
                left_above + (above[b.high * channels + c] - left_above) * b.part;
            const float bottom =
                left_below + (below[b.high * channels + c] - left_below) * b.part;

            y[c] = top + (bottom - top) * part_y;
        }
    }
}

/* out: resized images, scratch: the images as float32, if they are not */
static int kern_bilinear(const struct kernel_args *a)
{
    const struct tensor *image = a->in[0];
    const struct shape *s = &image->shape, *to = &a->out[0]->shape;
    const int64_t line = s->dim[2] * s->dim[3], out_line = to->dim[2] * to->dim[3];
    const float *x = image->data;
    float *y = a->out[0]->data;
    struct resize_axis axes[2];

    axes_init(a, image, a->out[0], axes);
    if (tensor_elements(a->out[0]) == 0)
        return 0;
    if (image->dtype != DT_FLOAT) {
        const loop_fn to_float = kern_loops()->cast(image->dtype, DT_FLOAT);

        if (to_float == NULL)
            return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s",
                           operation_name(a->op), operation_type(a->op),
                           dtype_name(image->dtype));
        to_float(a->out[1]->data, image->data, NULL, NULL, (size_t)tensor_elements(image),
                 0);
        x = a->out[1]->data;
    }
    for (int64_t b = 0; b < s->dim[0]; b++, x += s->dim[1] * line)
        for (int64_t i = 0; i < to->dim[1]; i++, y += out_line) {
            const struct between p = between_at(&axes[0], i);

            blend_line(x + p.low * line, x + p.high * line, p.part, &axes[1], s->dim[3],
                       y);
        }
    return 0;
}

static int64_t bilinear_scratch(const struct shape_args *args)
{
    return attr_int(args->op, "T") == DT_FLOAT ? 0 : shape_elements(&args->in[0]);
}

#define BILINEAR_GRAD(T)                                                                 \
    static void bilinear_grad_##T(const struct resize_axis *axes, int64_t batch,         \
                                  int64_t channels, const float *dy, T *dx)              \
    {                                                                                    \
        const struct resize_axis *v = &axes[0], *h = &axes[1];                           \
        const int64_t line = h->size * channels;                                         \
                                                                                         \
        for (int64_t b = 0; b < batch; b++, dx += v->size * line)                        \
            for (int64_t i = 0; i < v->n * h->n; i++, dy += channels) {                  \
                const struct between y = between_at(v, i / h->n);                        \
                const struct between x = between_at(h, i % h->n);                        \
                                                                                         \
                for (int64_t c = 0; c < channels; c++) {                                 \
                    dx[y.low * line + x.low * channels + c] +=                           \
                        (T)(dy[c] * (1 - y.part) * (1 - x.part));                        \
                    dx[y.low * line + x.high * channels + c] +=                          \
                        (T)(dy[c] * (1 - y.part) * x.part);                              \
                    dx[y.high * line + x.low * channels + c] +=                          \
                        (T)(dy[c] * y.part * (1 - x.part));                              \
                    dx[y.high * line + x.high * channels + c] +=                         \
                        (T)(dy[c] * y.part * x.part);                                    \
                }                                                                        \
            }                                                                            \
    }
BILINEAR_GRAD(float)
BILINEAR_GRAD(double)

/* in: gradient of the resized images (float32), the images; out: their gradient */
static int kern_bilinear_grad(const struct kernel_args *a)
{
    const struct shape *s = &a->out[0]->shape;
    struct resize_axis axes[2];

    axes_init(a, a->out[0], a->in[0], axes);
    clear(a->out[0]);
    if (tensor_elements(a->out[0]) == 0)
        return 0;
    if (a->out[0]->dtype == DT_DOUBLE)
        bilinear_grad_double(axes, s->dim[0], s->dim[3], a->in[0]->data, a->out[0]->data);
    else if (want_f32(a) == 0)
        bilinear_grad_float(axes, s->dim[0], s->dim[3], a->in[0]->data, a->out[0]->data);
    else
        return ERR_UNSUPPORTED;
    return 0;
}

static int kern_nearest(const struct kernel_args *a)
{
    const struct shape *s = &a->in[0]->shape, *to = &a->out[0]->shape;
    const size_t pixel = (size_t)s->dim[3] * elem_size(a->in[0]);
    const char *x = a->in[0]->data;
    char *y = a->out[0]->data;
    struct resize_axis axes[2];

    axes_init(a, a->in[0], a->out[0], axes);
    if (tensor_elements(a->out[0]) == 0)
        return 0;
    for (int64_t b = 0; b < s->dim[0]; b++, x += (size_t)(s->dim[1] * s->dim[2]) * pixel)
        for (int64_t i = 0; i < to->dim[1]; i++) {
            const char *line = x + (size_t)(nearest_at(&axes[0], i) * s->dim[2]) * pixel;

            for (int64_t j = 0; j < to->dim[2]; j++, y += pixel)
                memcpy(y, line + (size_t)nearest_at(&axes[1], j) * pixel, pixel);
        }
    return 0;
}

/* U: the type in which sums are taken; those of integers wrap around. */
#define NEAREST_GRAD(T, U)                                                               \
    static void nearest_grad_##T(const struct resize_axis *axes, int64_t batch,          \
                                 int64_t channels, const T *dy, T *dx)                   \
    {                                                                                    \
        const int64_t width = axes[1].size;                                              \
                                                                                         \
        for (int64_t b = 0; b < batch; b++, dx += axes[0].size * width * channels)       \
            for (int64_t i = 0; i < axes[0].n; i++)                                      \
                for (int64_t j = 0; j < axes[1].n; j++, dy += channels) {                \
                    T *to = dx + (nearest_at(&axes[0], i) * width +                      \
                                  nearest_at(&axes[1], j)) *                             \
                                     channels;                                           \
                                                                                         \
                    for (int64_t c = 0; c < channels; c++)                               \
                        to[c] = (T)((U)to[c] + (U)dy[c]);                                \
                }                                                                        \
    }
NEAREST_GRAD(float, float)
NEAREST_GRAD(double, double)
NEAREST_GRAD(int32_t, uint32_t)

/* in: gradient of the resized images, size of the images; out: their gradient */
static int kern_nearest_grad(const struct kernel_args *a)
{
    const struct shape *s = &a->out[0]->shape;
    const void *dy = a->in[0]->data;
    struct resize_axis axes[2];

    axes_init(a, a->out[0], a->in[0], axes);
    clear(a->out[0]);
    if (tensor_elements(a->out[0]) == 0)
        return 0;
    switch (a->out[0]->dtype) {
    case DT_FLOAT:
        nearest_grad_float(axes, s->dim[0], s->dim[3], dy, a->out[0]->data);
        return 0;
    case DT_DOUBLE:
        nearest_grad_double(axes, s->dim[0], s->dim[3], dy, a->out[0]->data);
        return 0;
    case DT_INT32:
        nearest_grad_int32_t(axes, s->dim[0], s->dim[3], dy, a->out[0]->data);
        return 0;
    default:
        return want_f32(a);
    }
}

/* ---- shapes and gradients ---- */

/* Images of input 0 in the size that input 1 gives. */
static int resize_shape(const struct shape_args *args)
{
    const struct shape *x = &args->in[0];
    int64_t size[2] = {-1, -1};

    if (dim_of(&args->in[1], 0) >= 0 && dim_of(&args->in[1], 0) != 2)
        return err_set(args->err, ERR_SHAPE, "a size %s, expected two numbers",
                       shape_text(&args->in[1]));
    if (attr_int(args->op, "align_corners") && attr_int(args->op, "half_pixel_centers"))
        return err_set(args->err, ERR_ARG, "align_corners and half_pixel_centers");
    if (value_ints(args, 1, size, 2) == 2)
        for (int d = 0; d < 2; d++)
            if (size[d] <= 0 || dim_of(x, d + 1) == 0)
                return err_set(args->err, ERR_SHAPE, "%s in a size of %lld",
                               shape_text(x), (long long)size[d]);
    args->out[0] = SHAPE(dim_of(x, 0), size[0], size[1], dim_of(x, 3));
    return 0;
}

static int bilinear_grad_shape(const struct shape_args *args)
{
    const struct shape *dy = &args->in[0], *x = &args->in[1];

    for (int d = 0; d < 4; d++)
        if (dim_of(dy, d) >= 0 && dim_of(x, d) >= 0 &&
            (d % 3 == 0 ? dim_of(dy, d) != dim_of(x, d) : dim_of(dy, d) == 0))
            return err_set(args->err, ERR_SHAPE, "gradients %s of images %s",
                           shape_text(dy), shape_text(x));
    args->out[0] = *x;
    return 0;
}

static struct output resize_node(struct graph *g, const char *type, struct operation *op,
                                 struct output x, struct output y)
{
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, x);
    op_input(b, y);
    op_attr(b, operation_attr(op, "align_corners"));
    op_attr(b, operation_attr(op, "half_pixel_centers"));
    return (struct output){op_finish(b), 0};
}

GRAD_ONE(bilinear_grad,
         resize_node(g, "ResizeBilinearGrad", op, grad_out[0], input_of(op, 0)))

GRAD(nearest_grad)
{
    const struct shape s = output_shape(input_of(op, 0));
    const int64_t height = dim_of(&s, 1), width = dim_of(&s, 2);
    const int32_t both[] = {(int32_t)height, (int32_t)width};
    struct output size;

    if (height >= 0 && width >= 0)
        size = constant_i32s(g, both, 2, "ResizeNearestNeighborGrad/size");
    else
        size = vector_slice(g, shape_of(g, input_of(op, 0), NULL), 1, 3, NULL);
    grad_in[0] = resize_node(g, "ResizeNearestNeighborGrad", op, grad_out[0], size);
    return grad_done(grad_in, 1);
}

/* ---- the rows ---- */

#define PLACES ", align_corners:bool=false, half_pixel_centers:bool=false"

static const struct op_def rows[] = {
    {"ResizeBilinear", 0, resize_shape, bilinear_grad, CALL(kern_bilinear),
     "images:T, size:int32 -> resized_images:float32; T:type" PLACES, .ranks = "41",
     .scratch = bilinear_scratch},
    {"ResizeBilinearGrad", OP_NO_GRADIENT, bilinear_grad_shape, NULL,
     CALL(kern_bilinear_grad),
     "grads:float32, original_image:T -> output:T; T:float_type" PLACES, .ranks = "44"},
    {"ResizeNearestNeighbor", 0, resize_shape, nearest_grad, CALL(kern_nearest),
     "images:T, size:int32 -> resized_images:T; T:type" PLACES, .ranks = "41"},
    {"ResizeNearestNeighborGrad", OP_NO_GRADIENT, resize_shape, NULL,
     CALL(kern_nearest_grad), "grads:T, size:int32 -> output:T; T:type" PLACES,
     .ranks = "41"},
};

const struct op_family ops_of_resize = OP_FAMILY(rows);
