/* Convolutions and pools of float32 images (batch, y, x, channels).
 *
 * A convolution is a matrix product: row p of the matrix of patches holds the pixels
 * that the window covers at output pixel p, in the order (y, x, channel) of the filter's
 * rows. So dense.h computes all sums, and they have the same bits on every machine: a
 * sum over a patch is in order, and the filter's gradient is summed over blocks of
 * DENSE_BLOCK pixels. Only DENSE_BLOCK patches are in memory at a time. The gradient of
 * the input adds the patches' gradients pixel by pixel. */
#include "agent/session/kernels/kernel.h"

#include "agent/graph/window.h"
#include "agent/session/kernels/loops.h"

#include <string.h>

struct conv {
    struct window w;
    int64_t pixels;  /* of the output, of all images */
    int64_t patch;   /* elements of a patch */
    int64_t filters; /* channels of the output */
    float *scratch;  /* (DENSE_BLOCK, patch); fewer rows if there are fewer pixels */
};

int64_t kern_conv_scratch(kernel_fn fn, const struct shape *filter, int64_t pixels)
{
    const int64_t rows = pixels < DENSE_BLOCK ? pixels : DENSE_BLOCK;

    if (fn != kern_conv2d && fn != kern_conv2d_backprop_input &&
        fn != kern_conv2d_backprop_filter)
        return 0;
    return rows * filter->dim[0] * filter->dim[1] * filter->dim[2];
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
int kern_conv2d(const struct kernel_args *a)
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
int kern_conv2d_backprop_input(const struct kernel_args *a)
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
int kern_conv2d_backprop_filter(const struct kernel_args *a)
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

/* ---- pools ---- */

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

int kern_max_pool(const struct kernel_args *a)
{
    return pool(a, a->in[0]->data, 0);
}

/* in: image, pooled image, gradient of the pooled image; out: gradient of the image */
int kern_max_pool_grad(const struct kernel_args *a)
{
    return pool(a, a->in[2]->data, 1);
}

/* in: image, pooled image, an array like the image; out: its elements that were pooled */
int kern_max_pool_grad_grad(const struct kernel_args *a)
{
    return pool(a, a->in[2]->data, 0);
}
