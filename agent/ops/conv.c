/* conv.c - convolutions of images of two and three dimensions.
 *
 * A convolution is a matrix product: row p of the matrix of patches holds the pixels
 * that the window (window.h) covers at output pixel p, in the order (z, y, x, channel) of the
 * filter's rows. So dense.h computes all sums, and they have the same bits on every machine:
 * a sum over a patch is in order, and the filter's gradient is summed over blocks of
 * DENSE_BLOCK pixels. Only DENSE_BLOCK patches are in memory at a time. The gradient of
 * the input adds the patches' gradients pixel by pixel.
 *
 * With data_format NCHW a block has pixels of one image, of which the output has a matrix
 * (filters, pixels): the products read and write that transposed.
 *
 * Gradients after TensorFlow 1.13's python/ops/nn_grad.py.
 */
#include "agent/kernels/loops.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "agent/ops/window.h"

/* ---- kernels ---- */

struct conv {
    struct window w;
    size_t elem;      /* bytes of an element: float32 or float64 */
    int64_t pixels;   /* of the output, of all images */
    int64_t patch;    /* elements of a patch */
    int64_t filters;  /* channels of the output */
    int is_pointwise; /* the patches are the image */
    char *scratch;    /* (DENSE_BLOCK, patch); fewer rows if there are fewer pixels */
};

/* The floats that hold the patches of a block of pixels, of which y has one filter's
 * results, or their gradients, in each channel. */
static int64_t patch_block(const struct shape_args *args, const struct shape *filter,
                           const struct shape *y)
{
    const int64_t filters = filter->dim[filter->rank - 1];
    const int64_t pixels = filters > 0 ? shape_elements(y) / filters : 0;
    const int64_t rows = pixels < DENSE_BLOCK ? pixels : DENSE_BLOCK;

    return rows * span(filter, 0, filter->rank - 1) *
           (int64_t)(element_bytes(args->op) / sizeof(float));
}

static int64_t conv_scratch(const struct shape_args *args)
{
    return patch_block(args, &args->in[1], &args->out[0]);
}

static int64_t conv_backprop_input_scratch(const struct shape_args *args)
{
    return patch_block(args, &args->in[1], &args->in[2]);
}

static int64_t conv_backprop_filter_scratch(const struct shape_args *args)
{
    return patch_block(args, &args->out[0], &args->in[2]);
}

static int conv_init(const struct kernel_args *a, const struct shape *image,
                     const struct shape *filter, struct conv *ret)
{
    struct conv c = {.elem = dtype_size(a->out[0]->dtype)};

    if (a->out[0]->dtype != DT_DOUBLE && want_f32(a) < 0)
        return ERR_UNSUPPORTED;
    if (window_init(&c.w, a->op, image, filter->dim, NULL, a->err) < 0)
        return err_wrap(a->err, "%s", operation_name(a->op));
    c.pixels = window_pixels(&c.w);
    c.patch = span(filter, 0, filter->rank - 1);
    c.filters = filter->dim[filter->rank - 1];
    c.scratch = a->n_out > 1 ? a->out[1]->data : NULL;
    c.is_pointwise = !c.w.channels_second;
    for (int i = 0; i < WINDOW_AXES; i++)
        c.is_pointwise &= c.w.axis[i].size == 1 && c.w.axis[i].stride == 1 &&
                          c.w.axis[i].out == c.w.axis[i].in;
    *ret = c;
    return 0;
}

/* Copies the patch at a place. Pixels are n elements of `elem` bytes each, n 1 if the
 * channels are apart. */
static void take_patch(const struct conv *c, const char *image,
                       const struct window_place *p, char *patch)
{
    const struct window_axis *x = &c->w.axis[2];
    const int64_t channels = c->w.channels, line = x->size * channels;
    const int64_t step = window_pixel_step(&c->w) * x->rate;
    const int64_t channel_step = window_channel_step(&c->w);

    if (c->patch == 0)
        return;
    if (p->n < x->size || p->at[1] < 0 || p->at[0] < 0 ||
        p->at[1] + (c->w.axis[1].size - 1) * c->w.axis[1].rate >= c->w.axis[1].in ||
        p->at[0] + (c->w.axis[0].size - 1) * c->w.axis[0].rate >= c->w.axis[0].in)
        memset(patch, 0, (size_t)c->patch * c->elem);
    EACH_LINE(&c->w, p, k, at)
    {
        char *to = patch + (size_t)(k * line + p->first * channels) * c->elem;
        const char *from = image + (size_t)at * c->elem;

        if (channel_step == 1 && x->rate == 1) {
            memcpy(to, from, (size_t)(p->n * channels) * c->elem);
            continue;
        }
        for (int64_t i = 0; i < p->n; i++, from += (size_t)step * c->elem)
            for (int64_t j = 0; j < channels; j++, to += c->elem) {
                const char *pixel = from + (size_t)(j * channel_step) * c->elem;

                if (c->elem == sizeof(float))
                    memcpy(to, pixel, sizeof(float));
                else
                    memcpy(to, pixel, sizeof(double));
            }
    }
}

/* Returns the patches of n output pixels from `first` on: in scratch memory, or in the image
 * itself. */
static const char *take_patches(const struct conv *c, const char *image, int64_t first,
                                int64_t n)
{
    struct window_place p;

    if (c->is_pointwise)
        return image + (size_t)(first * c->patch) * c->elem;
    for (int64_t i = 0; i < n; i++) {
        window_at(&c->w, first + i, &p);
        take_patch(c, image, &p, c->scratch + (size_t)(i * c->patch) * c->elem);
    }
    return c->scratch;
}

#define ADD_PATCH(T)                                                                     \
    static void add_patch_##T(const struct conv *c, T *image,                            \
                              const struct window_place *p, const T *patch)              \
    {                                                                                    \
        const struct window_axis *x = &c->w.axis[2];                                     \
        const int64_t channels = c->w.channels, line = x->size * channels;               \
        const int64_t step = window_pixel_step(&c->w) * x->rate;                         \
        const int64_t channel_step = window_channel_step(&c->w);                         \
                                                                                         \
        EACH_LINE(&c->w, p, k, at)                                                       \
        {                                                                                \
            const T *from = patch + k * line + p->first * channels;                      \
                                                                                         \
            if (channel_step == 1 && x->rate == 1) {                                     \
                for (int64_t i = 0; i < p->n * channels; i++)                            \
                    image[at + i] += from[i];                                            \
                continue;                                                                \
            }                                                                            \
            for (int64_t i = 0; i < p->n; i++)                                           \
                for (int64_t j = 0; j < channels; j++)                                   \
                    image[at + i * step + j * channel_step] += from[i * channels + j];   \
        }                                                                                \
    }
ADD_PATCH(float)
ADD_PATCH(double)

/* Adds the patches in scratch memory, those of n pixels from `first` on, to the image. */
static void add_patches(const struct conv *c, void *image, int64_t first, int64_t n)
{
    struct window_place p;

    for (int64_t i = 0; i < n; i++) {
        const char *patch = c->scratch + (size_t)(i * c->patch) * c->elem;

        window_at(&c->w, first + i, &p);
        if (c->elem == sizeof(float))
            add_patch_float(c, image, &p, (const void *)patch);
        else
            add_patch_double(c, image, &p, (const void *)patch);
    }
}

/* C (m, n) = A (m, k) B (k, n), as in dense.h, of elements of either type. */
struct product {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    int transposed_a, transposed_b, add;
};

static void multiply(const struct conv *c, const struct product *p)
{
    if (c->elem == sizeof(float)) {
        const struct dense d = {.m = p->m,
                                .n = p->n,
                                .k = p->k,
                                .a = p->a,
                                .lda = p->lda,
                                .transposed_a = p->transposed_a,
                                .b = p->b,
                                .ldb = p->ldb,
                                .transposed_b = p->transposed_b,
                                .c = p->c,
                                .ldc = p->ldc,
                                .add = p->add};

        kern_loops()->dense(&d);
        return;
    }
    const double *a = p->a, *b = p->b;
    double *to = p->c;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;

            for (int64_t l = 0; l < p->k; l++)
                sum += a[p->transposed_a ? l * p->lda + i : i * p->lda + l] *
                       b[p->transposed_b ? j * p->ldb + l : l * p->ldb + j];
            to[i * p->ldc + j] = p->add ? to[i * p->ldc + j] + sum : sum;
        }
}

/* A block of output pixels, and where the output has them: a matrix (n, filters), stored
 * transposed if the channels are second. */
struct block {
    int64_t first, n;
    size_t at; /* bytes */
    int64_t ld;
};

/* The block that begins with pixel `first`; n is 0 past the last. */
static struct block block_at(const struct conv *c, int64_t first)
{
    if (first >= c->pixels)
        return (struct block){0};
    const int64_t plane = window_image_pixels(&c->w);
    const int64_t image = c->w.channels_second ? first / plane : 0;
    const int64_t end = c->w.channels_second ? (image + 1) * plane : c->pixels;
    struct block b = {.first = first, .ld = c->w.channels_second ? plane : c->filters};

    b.n = end - first < DENSE_BLOCK ? end - first : DENSE_BLOCK;
    b.at =
        (size_t)(c->w.channels_second ? image * plane * c->filters + first - image * plane
                                      : first * c->filters) *
        c->elem;
    return b;
}

#define EACH_BLOCK(c, b)                                                                 \
    for (struct block b = block_at(c, 0); b.n > 0; b = block_at(c, b.first + b.n))

/* in: image, filter; out: image, scratch */
static int kern_conv(const struct kernel_args *a)
{
    const void *filter = a->in[1]->data;
    struct conv c;
    int rc = conv_init(a, &a->in[0]->shape, &a->in[1]->shape, &c);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    EACH_BLOCK(&c, b)
    {
        const char *patches = take_patches(&c, a->in[0]->data, b.first, b.n);
        struct product p = {.m = b.n,
                            .n = c.filters,
                            .k = c.patch,
                            .a = patches,
                            .lda = c.patch,
                            .b = filter,
                            .ldb = c.filters,
                            .c = (char *)a->out[0]->data + b.at,
                            .ldc = b.ld};

        if (c.w.channels_second) {
            p.m = c.filters;
            p.n = b.n;
            p.a = filter;
            p.lda = c.filters;
            p.b = patches;
            p.ldb = c.patch;
            p.transposed_a = p.transposed_b = 1;
        }
        multiply(&c, &p);
    }
    return 0;
}

/* in: input_sizes, filter, gradient of the output; out: that of the input, scratch */
static int kern_conv_backprop_input(const struct kernel_args *a)
{
    struct conv c;
    int rc = conv_init(a, &a->out[0]->shape, &a->in[1]->shape, &c);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    memset(a->out[0]->data, 0, tensor_bytes(a->out[0]));
    if (c.filters == 0) /* nor is there scratch memory */
        return 0;
    EACH_BLOCK(&c, b)
    {
        const struct product p = {.m = b.n,
                                  .n = c.patch,
                                  .k = c.filters,
                                  .a = (const char *)a->in[2]->data + b.at,
                                  .lda = b.ld,
                                  .transposed_a = c.w.channels_second,
                                  .b = a->in[1]->data,
                                  .ldb = c.filters,
                                  .transposed_b = 1,
                                  .c = c.scratch,
                                  .ldc = c.patch};

        multiply(&c, &p);
        add_patches(&c, a->out[0]->data, b.first, b.n);
    }
    return 0;
}

/* in: image, filter_sizes, gradient of the output; out: that of the filter, scratch */
static int kern_conv_backprop_filter(const struct kernel_args *a)
{
    struct conv c;
    int rc = conv_init(a, &a->in[0]->shape, &a->out[0]->shape, &c);

    if (rc < 0 || tensor_elements(a->out[0]) == 0)
        return rc;
    memset(a->out[0]->data, 0, tensor_bytes(a->out[0]));
    EACH_BLOCK(&c, b)
    {
        const struct product p = {.m = c.patch,
                                  .n = c.filters,
                                  .k = b.n,
                                  .a = take_patches(&c, a->in[0]->data, b.first, b.n),
                                  .lda = c.patch,
                                  .transposed_a = 1,
                                  .b = (const char *)a->in[2]->data + b.at,
                                  .ldb = b.ld,
                                  .transposed_b = c.w.channels_second,
                                  .c = a->out[0]->data,
                                  .ldc = c.filters,
                                  .add = b.first > 0};

        multiply(&c, &p);
    }
    return 0;
}

/* ---- shapes and gradients: filter (y, x, channels in, channels out), 3-D: (z, y, ...) ---- */

/* The window of a convolution whose image and filter have these shapes. */
static int conv_window(const struct shape_args *args, const struct shape *image,
                       const struct shape *filter, struct window *ret)
{
    const int spatial = window_spatial(args->op);
    const int64_t deep = dim_of(filter, spatial);
    int64_t size[WINDOW_AXES];
    int rc;

    for (int i = 0; i < spatial; i++)
        size[i] = dim_of(filter, i);
    rc = window_init(ret, args->op, image, size, NULL, args->err);
    if (rc == 0 && ret->channels >= 0 && deep >= 0 && ret->channels != deep)
        rc = err_set(args->err, ERR_SHAPE,
                     "a filter %s for %lld channels does not fit an image %s",
                     shape_text(filter), (long long)deep, shape_text(image));
    return rc;
}

static int conv_shape(const struct shape_args *args)
{
    struct window w;
    int rc = conv_window(args, &args->in[0], &args->in[1], &w);

    if (rc == 0)
        args->out[0] = window_output(&w, dim_of(&args->in[1], w.spatial + 1));
    return rc;
}

/* The shape of the image or filter that input i, input_sizes or filter_sizes, gives: of the
 * rank of both, unknown if the value is. */
static int sizes_of(const struct shape_args *args, int i, const char *name,
                    struct shape *ret)
{
    const int rank = window_spatial(args->op) + 2;
    int rc = value_sizes(args, i, ret);

    if (rc == 0 && ret->rank >= 0 && ret->rank != rank)
        rc = err_set(args->err, ERR_SHAPE, "%s: %d numbers, expected %d", name, ret->rank,
                     rank);
    if (rc == 0)
        args->out[0] = ret->rank >= 0 ? *ret : shape_of_rank(rank);
    return rc;
}

static int conv_backprop_input_shape(const struct shape_args *args)
{
    struct shape image = SHAPE_UNKNOWN;
    struct window w;
    int rc = sizes_of(args, 0, "input_sizes", &image);

    if (rc == 0)
        rc = conv_window(args, &image, &args->in[1], &w);
    if (rc == 0 && image.rank >= 0)
        rc = window_want_output(args, &w, 2, dim_of(&args->in[1], w.spatial + 1));
    return rc;
}

static int conv_backprop_filter_shape(const struct shape_args *args)
{
    struct shape filter = SHAPE_UNKNOWN;
    struct window w;
    int rc = sizes_of(args, 1, "filter_sizes", &filter);

    if (rc == 0)
        rc = conv_window(args, &args->in[0], &filter, &w);
    if (rc == 0 && filter.rank >= 0)
        rc = window_want_output(args, &w, 2, dim_of(&filter, w.spatial + 1));
    return rc;
}

/* The types of the three operations, of two or three dimensions. */
static const char *const types[][3] = {
    {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"},
    {"Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"},
};
#define TYPES types[window_spatial(op) - 2]
#define NODE(type, ...)                                                                  \
    window_node(g, type, op, (const struct output[]){__VA_ARGS__},                       \
                sizeof((const struct output[]){__VA_ARGS__}) / sizeof(struct output))

GRAD(conv_grad)
{
    struct output x = input_of(op, 0), filter = input_of(op, 1);
    struct op_builder *b = op_begin(g, "ShapeN", NULL);
    struct operation *sizes;

    op_input(b, x);
    op_input(b, filter);
    sizes = op_finish(b);
    if (sizes == NULL)
        return -1;
    grad_in[0] = NODE(TYPES[1], {sizes, 0}, filter, grad_out[0]);
    grad_in[1] = NODE(TYPES[2], x, {sizes, 1}, grad_out[0]);
    return grad_done(grad_in, 2);
}

GRAD(conv_backprop_input_grad)
{
    struct output filter = input_of(op, 1), dy = input_of(op, 2);
    struct output sizes = shape_of(g, filter, NULL);

    grad_in[1] = NODE(TYPES[2], grad_out[0], sizes, dy);
    grad_in[2] = NODE(TYPES[0], grad_out[0], filter);
    return grad_done(grad_in + 1, 2);
}

GRAD(conv_backprop_filter_grad)
{
    struct output x = input_of(op, 0), dy = input_of(op, 2);
    struct output sizes = shape_of(g, x, NULL), ends[2];

    ends[0] = grad_in[0] = NODE(TYPES[1], sizes, grad_out[0], dy);
    ends[1] = grad_in[2] = NODE(TYPES[0], x, grad_out[0]);
    return grad_done(ends, 2);
}

/* ---- the rows ---- */

#define CONV_ATTRS                                                                       \
    "T:float_type, strides:list(int), use_cudnn_on_gpu:bool=true, padding:string, "      \
    "explicit_paddings:list(int)=[], data_format:string=NHWC, "                          \
    "dilations:list(int)=[1 1 1 1]"
#define CONV3D_ATTRS                                                                     \
    "T:float_type, strides:list(int), padding:string, data_format:string=NDHWC, "        \
    "dilations:list(int)=[1 1 1 1 1]"

static const struct op_def rows[] = {
    {"Conv2D", 0, conv_shape, conv_grad, CALL(kern_conv),
     "input:T, filter:T -> output:T; " CONV_ATTRS, .ranks = "44",
     .scratch = conv_scratch},
    {"Conv2DBackpropInput", 0, conv_backprop_input_shape, conv_backprop_input_grad,
     CALL(kern_conv_backprop_input),
     "input_sizes:int32, filter:T, out_backprop:T -> output:T; " CONV_ATTRS,
     .ranks = "?44", .scratch = conv_backprop_input_scratch},
    {"Conv2DBackpropFilter", 0, conv_backprop_filter_shape, conv_backprop_filter_grad,
     CALL(kern_conv_backprop_filter),
     "input:T, filter_sizes:int32, out_backprop:T -> output:T; " CONV_ATTRS,
     .ranks = "4?4", .scratch = conv_backprop_filter_scratch},
    {"Conv3D", 0, conv_shape, conv_grad, CALL(kern_conv),
     "input:T, filter:T -> output:T; " CONV3D_ATTRS, .ranks = "55",
     .scratch = conv_scratch},
    {"Conv3DBackpropInputV2", 0, conv_backprop_input_shape, conv_backprop_input_grad,
     CALL(kern_conv_backprop_input),
     "input_sizes:Tshape, filter:T, out_backprop:T -> output:T; " CONV3D_ATTRS
     ", Tshape:index_type=int32",
     .ranks = "?55", .scratch = conv_backprop_input_scratch},
    {"Conv3DBackpropFilterV2", 0, conv_backprop_filter_shape, conv_backprop_filter_grad,
     CALL(kern_conv_backprop_filter),
     "input:T, filter_sizes:int32, out_backprop:T -> output:T; " CONV3D_ATTRS,
     .ranks = "5?5", .scratch = conv_backprop_filter_scratch},
};

const struct op_family ops_of_conv = OP_FAMILY(rows);
