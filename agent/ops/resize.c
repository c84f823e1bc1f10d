/* resize.c - images (batch, y, x, channels) of another size, and parts of them.
 *
 * Place i of n places lies in the image of `size` pixels at
 *     i scale                   scale = size / n, or with align_corners (size - 1) / (n - 1),
 *     (i + 1/2) scale - 1/2     so that the corners' centres meet; half_pixel_centers
 * ResizeBilinear weights the two pixels beside it in both directions; ResizeNearestNeighbor
 * takes the pixel before it, or with align_corners the nearest one; ResizeBicubic weights the four
 * pixels around it, those beyond the image as the last one, or with half_pixel_centers not at all.
 * CropAndResize does the former two for boxes [y1, x1, y2, x2], in which 0 and 1 are the centres of
 * the first and the last pixel. All in float32, as TensorFlow does.
 *
 * Gradients after TensorFlow 1.13's python/ops/image_grad.py.
 */
#include "agent/graph/import.h"
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <float.h>
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

/* The images as float32, in scratch memory if they are not. ERR_UNSUPPORTED. */
static int as_floats(const struct kernel_args *a, const struct tensor *image,
                     const float **ret)
{
    loop_fn to_float;

    *ret = image->data;
    if (image->dtype == DT_FLOAT || tensor_elements(image) == 0)
        return 0;
    to_float = kern_loops()->cast(image->dtype, DT_FLOAT);
    if (to_float == NULL)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                       operation_type(a->op), dtype_name(image->dtype));
    *ret = a->out[a->n_out - 1]->data;
    to_float(a->out[a->n_out - 1]->data, image->data, NULL, NULL,
             (size_t)tensor_elements(image), 0);
    return 0;
}

/* out: resized images, scratch: the images as float32, if they are not */
static int kern_bilinear(const struct kernel_args *a)
{
    const struct tensor *image = a->in[0];
    const struct shape *s = &image->shape, *to = &a->out[0]->shape;
    const int64_t line = s->dim[2] * s->dim[3], out_line = to->dim[2] * to->dim[3];
    const float *x;
    float *y = a->out[0]->data;
    struct resize_axis axes[2];

    axes_init(a, image, a->out[0], axes);
    if (tensor_elements(a->out[0]) == 0)
        return 0;
    if (as_floats(a, image, &x) != 0)
        return ERR_UNSUPPORTED;
    for (int64_t b = 0; b < s->dim[0]; b++, x += s->dim[1] * line)
        for (int64_t i = 0; i < to->dim[1]; i++, y += out_line) {
            const struct between p = between_at(&axes[0], i);

            blend_line(x + p.low * line, x + p.high * line, p.part, &axes[1], s->dim[3],
                       y);
        }
    return 0;
}

static int64_t scratch_of(const struct shape_args *args, int image)
{
    return attr_int(args->op, "T") == DT_FLOAT ? 0 : shape_elements(&args->in[image]);
}

static int64_t images_scratch(const struct shape_args *args)
{
    return scratch_of(args, 0);
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
#define KERN_GRAD(name)                                                                  \
    static int kern_##name##_grad(const struct kernel_args *a)                           \
    {                                                                                    \
        const struct shape *s = &a->out[0]->shape;                                       \
        struct resize_axis axes[2];                                                      \
                                                                                         \
        axes_init(a, a->out[0], a->in[0], axes);                                         \
        clear(a->out[0]);                                                                \
        if (tensor_elements(a->out[0]) == 0)                                             \
            return 0;                                                                    \
        if (a->out[0]->dtype == DT_DOUBLE)                                               \
            name##_grad_double(axes, s->dim[0], s->dim[3], a->in[0]->data,               \
                               a->out[0]->data);                                         \
        else if (want_f32(a) == 0)                                                       \
            name##_grad_float(axes, s->dim[0], s->dim[3], a->in[0]->data,                \
                              a->out[0]->data);                                          \
        else                                                                             \
            return ERR_UNSUPPORTED;                                                      \
        return 0;                                                                        \
    }
KERN_GRAD(bilinear)

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

/* ---- four pixels ---- */

/* The pixels around a place, and their weights. */
struct around {
    int64_t pixel[4];
    float weight[4];
};

/* The weight of a pixel at most 1, or at most 2, from a place. The distance is a multiple of 2^-10,
 * as in TensorFlow's table. */
static float weight_near(double a, float x)
{
    return (float)(((a + 2) * (double)x - (a + 3)) * (double)x * (double)x + 1);
}

static float weight_far(double a, float x)
{
    return (float)(((a * (double)x - 5 * a) * (double)x + 8 * a) * (double)x - 4 * a);
}

static struct around around_at(const struct resize_axis *axis, int64_t i)
{
    enum { STEPS = 1 << 10 };
    const float at =
        axis->half ? ((float)i + 0.5f) * axis->scale - 0.5f : (float)i * axis->scale;
    const float floor_at = floorf(at);
    const float part = (float)lrintf((at - floor_at) * STEPS) / STEPS;
    const double a = axis->half ? -0.5 : -0.75;
    struct around r = {.weight = {weight_far(a, part + 1), weight_near(a, part),
                                  weight_near(a, 1 - part), weight_far(a, 2 - part)}};
    float sum = 0;

    for (int k = 0; k < 4; k++) {
        const int64_t pixel = (int64_t)floor_at - 1 + k;
        const int64_t most = axis->size - 1;

        r.pixel[k] = pixel < 0 ? 0 : pixel > most ? most : pixel;
        if (axis->half && r.pixel[k] != pixel)
            r.weight[k] = 0;
        sum += r.weight[k];
    }
    for (int k = 0; axis->half && fabsf(sum) >= 1000 * FLT_MIN && k < 4; k++)
        r.weight[k] *= 1 / sum;
    return r;
}

static float weighted(const struct around *p, const float v[4])
{
    return v[0] * p->weight[0] + v[1] * p->weight[1] + v[2] * p->weight[2] +
           v[3] * p->weight[3];
}

/* One pixel of the result, of the image x. */
static void blend_pixel(const float *x, const struct resize_axis *h,
                        const struct around *y_at, const struct around *x_at,
                        int64_t channels, float *y)
{
    for (int64_t c = 0; c < channels; c++) {
        float columns[4];

        for (int k = 0; k < 4; k++) {
            const float *column = x + x_at->pixel[k] * channels + c;
            const int64_t line = h->size * channels;
            const float v[4] = {
                column[y_at->pixel[0] * line], column[y_at->pixel[1] * line],
                column[y_at->pixel[2] * line], column[y_at->pixel[3] * line]};

            columns[k] = weighted(y_at, v);
        }
        y[c] = weighted(x_at, columns);
    }
}

/* out: resized images, scratch: the images as float32, if they are not */
static int kern_bicubic(const struct kernel_args *a)
{
    const struct shape *s = &a->in[0]->shape, *to = &a->out[0]->shape;
    const float *x;
    float *y = a->out[0]->data;
    struct resize_axis axes[2];

    axes_init(a, a->in[0], a->out[0], axes);
    if (tensor_elements(a->out[0]) == 0)
        return 0;
    if (as_floats(a, a->in[0], &x) != 0)
        return ERR_UNSUPPORTED;
    for (int64_t b = 0; b < s->dim[0]; b++, x += s->dim[1] * s->dim[2] * s->dim[3])
        for (int64_t i = 0; i < to->dim[1]; i++) {
            const struct around y_at = around_at(&axes[0], i);

            for (int64_t j = 0; j < to->dim[2]; j++, y += s->dim[3]) {
                const struct around x_at = around_at(&axes[1], j);

                blend_pixel(x, &axes[1], &y_at, &x_at, s->dim[3], y);
            }
        }
    return 0;
}

#define BICUBIC_GRAD(T)                                                                  \
    static void bicubic_grad_##T(const struct resize_axis *axes, int64_t batch,          \
                                 int64_t channels, const float *dy, T *dx)               \
    {                                                                                    \
        const struct resize_axis *v = &axes[0], *h = &axes[1];                           \
                                                                                         \
        for (int64_t b = 0; b < batch; b++, dx += v->size * h->size * channels)          \
            for (int64_t i = 0; i < v->n * h->n; i++, dy += channels) {                  \
                const struct around y = around_at(v, i / h->n);                          \
                const struct around x = around_at(h, i % h->n);                          \
                                                                                         \
                for (int64_t c = 0; c < channels; c++)                                   \
                    for (int k = 0; k < 16; k++)                                         \
                        dx[(y.pixel[k / 4] * h->size + x.pixel[k % 4]) * channels +      \
                           c] += (T)dy[c] * (T)y.weight[k / 4] * (T)x.weight[k % 4];     \
            }                                                                            \
    }
BICUBIC_GRAD(float)
BICUBIC_GRAD(double)

KERN_GRAD(bicubic)

/* ---- boxes ---- */

/* One direction of a box: n places in an image of `size` pixels. */
struct box_axis {
    int64_t size, n;
    float begin, end, ratio, scale; /* ratio: pixels from place to place of the whole */
};

/* by_ratio: rounded as TensorFlow's gradient of the boxes is, which matters at pixels' centres. */
static struct box_axis box_axis(const float *box, int d, int64_t size, int64_t n,
                                int by_ratio)
{
    struct box_axis r = {.size = size, .n = n, .begin = box[d], .end = box[d + 2]};

    if (n > 1) {
        r.ratio = (float)(size - 1) / (float)(n - 1);
        r.scale = by_ratio ? (r.end - r.begin) * r.ratio
                           : (r.end - r.begin) * (float)(size - 1) / (float)(n - 1);
    }
    return r;
}

/* Returns 0 if the place is outside of the image. */
static int box_place(const struct box_axis *b, int64_t i, struct between *ret)
{
    const float last = (float)(b->size - 1);
    const float at = b->n > 1 ? b->begin * last + (float)i * b->scale
                              : 0.5f * (b->begin + b->end) * last;

    if (!(at >= 0 && at <= last))
        return 0;
    *ret = (struct between){(int64_t)floorf(at), (int64_t)ceilf(at), at - floorf(at)};
    return 1;
}

/* What the kernels of boxes have in common: places of all boxes, one after the other. */
struct crops {
    const struct tensor *boxes, *of; /* of: the number of the image of each box */
    struct shape image, crops;       /* (batch, y, x, channels) */
    int is_nearest, by_ratio;
};

/* A place of a box. */
struct crop_place {
    int64_t box, image, line; /* line: elements from one line of the image to the next */
    struct box_axis v, h;
    struct between y, x;
    int is_inside;
};

/* The inputs `boxes` and box_ind, which follows. ERR_ARG. */
static int crops_init(struct crops *c, const struct kernel_args *a, int boxes,
                      const struct shape *image, const struct shape *crops)
{
    const struct attr *method = operation_attr(a->op, "method");

    *c = (struct crops){
        .boxes = a->in[boxes], .of = a->in[boxes + 1], .image = *image, .crops = *crops};
    c->is_nearest = method->s_len == 7 && memcmp(method->s, "nearest", 7) == 0;
    if (!c->is_nearest && (method->s_len != 8 || memcmp(method->s, "bilinear", 8) != 0))
        return err_set(a->err, ERR_ARG,
                       "%s: method must be 'bilinear' or 'nearest', not '%.*s'",
                       operation_name(a->op), (int)method->s_len, method->s);
    for (int64_t i = 0; i < tensor_elements(c->of); i++)
        if (tensor_int(c->of, i) < 0 || tensor_int(c->of, i) >= image->dim[0])
            return err_set(a->err, ERR_ARG,
                           "%s: box_index has values outside [0, batch_size): %lld",
                           operation_name(a->op), (long long)tensor_int(c->of, i));
    return 0;
}

static struct crop_place crop_place(const struct crops *c, int64_t at)
{
    const int64_t in_box = at % (c->crops.dim[1] * c->crops.dim[2]);
    struct crop_place p = {.box = at / (c->crops.dim[1] * c->crops.dim[2])};
    const float *box = (const float *)c->boxes->data + 4 * p.box;

    p.line = c->image.dim[2] * c->image.dim[3];
    p.image = tensor_int(c->of, p.box) * c->image.dim[1] * p.line;
    p.v = box_axis(box, 0, c->image.dim[1], c->crops.dim[1], c->by_ratio);
    p.h = box_axis(box, 1, c->image.dim[2], c->crops.dim[2], c->by_ratio);
    p.is_inside = box_place(&p.v, in_box / c->crops.dim[2], &p.y) &&
                  box_place(&p.h, in_box % c->crops.dim[2], &p.x);
    return p;
}

static int64_t crops_places(const struct crops *c)
{
    return c->crops.dim[0] * c->crops.dim[1] * c->crops.dim[2];
}

/* Element c = 0 of one of the four pixels beside a place. */
static int64_t corner(const struct crops *c, const struct crop_place *p, int is_below,
                      int is_right)
{
    return p->image + (is_below ? p->y.high : p->y.low) * p->line +
           (is_right ? p->x.high : p->x.low) * c->image.dim[3];
}

/* The nearest pixel. */
static int64_t nearest_corner(const struct crops *c, const struct crop_place *p)
{
    return corner(c, p, p->y.part >= 0.5f, p->x.part >= 0.5f);
}

/* in: image, boxes, box_ind, crop_size; out: crops, scratch: the images as float32 */
static int kern_crop(const struct kernel_args *a)
{
    const int64_t channels = a->in[0]->shape.dim[3];
    float *y = a->out[0]->data;
    const float *x;
    struct crops c;

    if (crops_init(&c, a, 1, &a->in[0]->shape, &a->out[0]->shape) != 0)
        return ERR_ARG;
    if (as_floats(a, a->in[0], &x) != 0)
        return ERR_UNSUPPORTED;
    for (int64_t i = 0; channels > 0 && i < crops_places(&c); i++, y += channels) {
        const struct crop_place p = crop_place(&c, i);
        const float otherwise = float_attr(a->op, "extrapolation_value", 0);

        for (int64_t k = 0; k < channels; k++) {
            if (!p.is_inside) {
                y[k] = otherwise;
            } else if (c.is_nearest) {
                y[k] = x[nearest_corner(&c, &p) + k];
            } else {
                const float left_above = x[corner(&c, &p, 0, 0) + k];
                const float left_below = x[corner(&c, &p, 1, 0) + k];
                const float top =
                    left_above + (x[corner(&c, &p, 0, 1) + k] - left_above) * p.x.part;
                const float bottom =
                    left_below + (x[corner(&c, &p, 1, 1) + k] - left_below) * p.x.part;

                y[k] = top + (bottom - top) * p.y.part;
            }
        }
    }
    return 0;
}

static void add_to(const struct tensor *y, int64_t i, float v)
{
    if (y->dtype == DT_DOUBLE)
        ((double *)y->data)[i] += (double)v;
    else
        tensor_f32(y)[i] += v;
}

/* in: grads, boxes, box_ind, image_size; out: the gradient of the images */
static int kern_crop_grad_image(const struct kernel_args *a)
{
    const int64_t channels = a->out[0]->shape.dim[3];
    const float *dy = a->in[0]->data;
    struct crops c;

    if (a->out[0]->dtype != DT_DOUBLE && want_f32(a) != 0)
        return ERR_UNSUPPORTED;
    if (crops_init(&c, a, 1, &a->out[0]->shape, &a->in[0]->shape) != 0)
        return ERR_ARG;
    clear(a->out[0]);
    for (int64_t i = 0; channels > 0 && i < crops_places(&c); i++, dy += channels) {
        const struct crop_place p = crop_place(&c, i);

        for (int64_t k = 0; p.is_inside && k < channels; k++) {
            if (c.is_nearest) {
                add_to(a->out[0], nearest_corner(&c, &p) + k, dy[k]);
                continue;
            }
            for (int at = 0; at < 4; at++) {
                const float v = at < 2 ? (1 - p.y.part) * dy[k] : p.y.part * dy[k];

                add_to(a->out[0], corner(&c, &p, at / 2, at % 2) + k,
                       at % 2 == 0 ? (1 - p.x.part) * v : p.x.part * v);
            }
        }
    }
    return 0;
}

/* Adds the gradient d of a place to those of the begin and the end of one direction. */
static void add_to_box(const struct box_axis *b, int64_t i, float d, float *begin,
                       float *end)
{
    const float last = (float)(b->size - 1);

    if (b->n > 1) {
        *begin += d * (last - (float)i * b->ratio);
        *end += d * ((float)i * b->ratio);
    } else {
        *begin += d * 0.5f * last;
        *end += d * 0.5f * last;
    }
}

/* in: grads, image, boxes, box_ind; out: the gradient of the boxes, scratch: the images as
 * float32 */
static int kern_crop_grad_boxes(const struct kernel_args *a)
{
    const int64_t channels = a->in[1]->shape.dim[3];
    const float *dy = a->in[0]->data, *x;
    struct crops c;

    if (crops_init(&c, a, 2, &a->in[1]->shape, &a->in[0]->shape) != 0)
        return ERR_ARG;
    c.by_ratio = 1;
    if (as_floats(a, a->in[1], &x) != 0)
        return ERR_UNSUPPORTED;
    clear(a->out[0]);
    for (int64_t i = 0; channels > 0 && i < crops_places(&c); i++, dy += channels) {
        const struct crop_place p = crop_place(&c, i);
        const int64_t in_box = i % (c.crops.dim[1] * c.crops.dim[2]);
        float *d = tensor_f32(a->out[0]) + 4 * p.box;

        for (int64_t k = 0; p.is_inside && k < channels; k++) {
            const float above[] = {x[corner(&c, &p, 0, 0) + k],
                                   x[corner(&c, &p, 0, 1) + k]};
            const float below[] = {x[corner(&c, &p, 1, 0) + k],
                                   x[corner(&c, &p, 1, 1) + k]};
            const float by_y =
                (1 - p.x.part) * (below[0] - above[0]) + p.x.part * (below[1] - above[1]);
            const float by_x =
                (1 - p.y.part) * (above[1] - above[0]) + p.y.part * (below[1] - below[0]);

            add_to_box(&p.v, in_box / c.crops.dim[2], by_y * dy[k], &d[0], &d[2]);
            add_to_box(&p.h, in_box % c.crops.dim[2], by_x * dy[k], &d[1], &d[3]);
        }
    }
    return 0;
}

static int64_t crop_boxes_scratch(const struct shape_args *args)
{
    return scratch_of(args, 1);
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

GRAD(bicubic_grad)
{
    const enum dtype dtype = output_dtype(input_of(op, 0));

    if (dtype != DT_FLOAT && dtype != DT_DOUBLE)
        return 0;
    grad_in[0] = resize_node(g, "ResizeBicubicGrad", op, grad_out[0], input_of(op, 0));
    return grad_done(grad_in, 1);
}

/* The inputs boxes (n, 4) and box_ind (n), which follows; *ret_n: n, or -1. */
static int boxes_shape(const struct shape_args *args, int boxes, int64_t *ret_n)
{
    const int64_t n = dim_of(&args->in[boxes], 0), of = dim_of(&args->in[boxes + 1], 0);
    const int64_t numbers = dim_of(&args->in[boxes], 1);

    *ret_n = n >= 0 ? n : of;
    if ((of >= 0 && of != *ret_n) || (numbers >= 0 && numbers != 4))
        return err_set(args->err, ERR_SHAPE, "boxes %s of images %s",
                       shape_text(&args->in[boxes]), shape_text(&args->in[boxes + 1]));
    return 0;
}

static int crop_shape(const struct shape_args *args)
{
    int64_t n, size[2] = {-1, -1};

    if (boxes_shape(args, 1, &n) != 0)
        return ERR_SHAPE;
    if (dim_of(&args->in[3], 0) >= 0 && dim_of(&args->in[3], 0) != 2)
        return err_set(args->err, ERR_SHAPE, "a size %s, expected two numbers",
                       shape_text(&args->in[3]));
    if (value_ints(args, 3, size, 2) == 2)
        for (int d = 0; d < 2; d++)
            if (size[d] <= 0 || dim_of(&args->in[0], d + 1) == 0)
                return err_set(args->err, ERR_SHAPE, "%s in a size of %lld",
                               shape_text(&args->in[0]), (long long)size[d]);
    args->out[0] = SHAPE(n, size[0], size[1], dim_of(&args->in[0], 3));
    return 0;
}

/* Whether the gradients in input 0 are those of n crops of such images. */
static int check_crops(const struct shape_args *args, int64_t n,
                       const struct shape *image)
{
    const struct shape *dy = &args->in[0];

    if ((n >= 0 && dim_of(dy, 0) >= 0 && dim_of(dy, 0) != n) ||
        (dim_of(dy, 3) >= 0 && dim_of(image, 3) >= 0 &&
         dim_of(dy, 3) != dim_of(image, 3)) ||
        dim_of(image, 1) == 0 || dim_of(image, 2) == 0)
        return err_set(args->err, ERR_SHAPE, "gradients %s of images %s", shape_text(dy),
                       shape_text(image));
    return 0;
}

static int crop_grad_image_shape(const struct shape_args *args)
{
    struct shape image;
    int64_t n;

    if (boxes_shape(args, 1, &n) != 0 || value_sizes(args, 3, &image) != 0)
        return ERR_SHAPE;
    if (image.rank >= 0 && image.rank != 4)
        return err_set(args->err, ERR_SHAPE, "images of %d dimensions", image.rank);
    if (check_crops(args, n, &image) != 0)
        return ERR_SHAPE;
    args->out[0] = image.rank < 0 ? shape_of_rank(4) : image;
    return 0;
}

static int crop_grad_boxes_shape(const struct shape_args *args)
{
    int64_t n;

    if (boxes_shape(args, 2, &n) != 0 || check_crops(args, n, &args->in[1]) != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(n, 4);
    return 0;
}

GRAD(crop_grad)
{
    struct output image = input_of(op, 0);
    const enum dtype dtype = output_dtype(image);
    struct op_builder *b;

    if (dtype == DT_FLOAT || dtype == DT_DOUBLE || dtype == DT_HALF) {
        struct output size = shape_of(g, image, NULL);

        b = op_begin(g, "CropAndResizeGradImage", NULL);
        op_input(b, grad_out[0]);
        op_input(b, input_of(op, 1));
        op_input(b, input_of(op, 2));
        op_input(b, size);
        op_attr_type(b, "T", dtype);
        op_attr(b, operation_attr(op, "method"));
        grad_in[0] = (struct output){op_finish(b), 0};
        if (!output_valid(grad_in[0]))
            return -1;
    }
    b = op_begin(g, "CropAndResizeGradBoxes", NULL);
    op_input(b, grad_out[0]);
    for (int i = 0; i < 3; i++)
        op_input(b, input_of(op, i));
    grad_in[1] = (struct output){op_finish(b), 0};
    return grad_done(grad_in + 1, 1);
}

/* ---- the rows ---- */

#define PLACES ", align_corners:bool=false, half_pixel_centers:bool=false"

static const struct op_def rows[] = {
    {"ResizeBilinear", 0, resize_shape, bilinear_grad, CALL(kern_bilinear),
     "images:T, size:int32 -> resized_images:float32; T:type" PLACES, .ranks = "41",
     .scratch = images_scratch},
    {"ResizeBilinearGrad", OP_NO_GRADIENT, bilinear_grad_shape, NULL,
     CALL(kern_bilinear_grad),
     "grads:float32, original_image:T -> output:T; T:float_type" PLACES, .ranks = "44"},
    {"ResizeNearestNeighbor", 0, resize_shape, nearest_grad, CALL(kern_nearest),
     "images:T, size:int32 -> resized_images:T; T:type" PLACES, .ranks = "41"},
    {"ResizeNearestNeighborGrad", OP_NO_GRADIENT, resize_shape, NULL,
     CALL(kern_nearest_grad), "grads:T, size:int32 -> output:T; T:type" PLACES,
     .ranks = "41"},
    {"ResizeBicubic", 0, resize_shape, bicubic_grad, CALL(kern_bicubic),
     "images:T, size:int32 -> resized_images:float32; T:type" PLACES, .ranks = "41",
     .scratch = images_scratch},
    {"ResizeBicubicGrad", OP_NO_GRADIENT, bilinear_grad_shape, NULL,
     CALL(kern_bicubic_grad),
     "grads:float32, original_image:T -> output:T; T:float_type" PLACES, .ranks = "44"},
    {"CropAndResize", 0, crop_shape, crop_grad, CALL(kern_crop),
     "image:T, boxes:float32, box_ind:int32, crop_size:int32 -> crops:float32; T:type, "
     "method:string=bilinear, extrapolation_value:float=0",
     .ranks = "4211", .scratch = images_scratch},
    {"CropAndResizeGradImage", OP_NO_GRADIENT, crop_grad_image_shape, NULL,
     CALL(kern_crop_grad_image),
     "grads:float32, boxes:float32, box_ind:int32, image_size:int32 -> output:T; "
     "T:float_type, method:string=bilinear",
     .ranks = "4211"},
    {"CropAndResizeGradBoxes", OP_NO_GRADIENT, crop_grad_boxes_shape, NULL,
     CALL(kern_crop_grad_boxes),
     "grads:float32, image:T, boxes:float32, box_ind:int32 -> output:float32; T:type, "
     "method:string=bilinear",
     .ranks = "4421", .scratch = crop_boxes_scratch},
};

const struct op_family ops_of_resize = OP_FAMILY(rows);
