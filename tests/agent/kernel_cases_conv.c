/* Convolutions and pools: every sum written out over output, window and channels.
 *
 * Tolerances: sums of some dozens of products below 1.
 */
#include "tests/agent/kernel_cases.h"

#include <string.h>

/* ---- windows ---- */

/* One spatial dimension: z, y or x. */
struct axis {
    int64_t in, size, stride, rate, out, before;
};

/* An image of two dimensions has a z of 1. Element (n, z, y, x, c) of an array of images has
 * index n step[0] + z step[1] + ... */
struct geometry {
    int spatial, second;
    int64_t batch, channels;
    struct axis axis[3];
};

static const char *text_attr(const struct operation *op, const char *name,
                             const char *otherwise)
{
    const struct attr *a = operation_attr(op, name);

    return a != NULL ? a->s : otherwise;
}

/* Number i of a list, or of an integer input that stands for it. */
static int64_t number(const struct reference *r, const char *name, int input, int i)
{
    const struct attr *a = operation_attr(r->op, name);

    if (a == NULL && input > 0)
        return (int64_t)r->in[input].v[i];
    return a == NULL ? 1 : a->list_i[i];
}

/* size: of the window, without the batch and the channels; NULL: ksize. */
static struct geometry geometry_of(const struct reference *r, const struct shape *image,
                                   const int64_t *size, const struct shape *y)
{
    const char *format = text_attr(r->op, "data_format", "NHWC");
    const struct attr *explicit = operation_attr(r->op, "explicit_paddings");
    struct geometry g = {.spatial = image->rank - 2, .second = format[1] == 'C'};

    g.batch = image->dim[0];
    g.channels = image->dim[g.second ? 1 : image->rank - 1];
    g.axis[0] = (struct axis){1, 1, 1, 1, 1, 0};
    for (int i = 0; i < g.spatial; i++) {
        struct axis *a = &g.axis[3 - g.spatial + i];
        const int letter = i + 1 + g.second;
        int64_t padding;

        a->in = image->dim[letter];
        a->out = y->dim[letter];
        a->size = size != NULL ? size[i] : number(r, "ksize", r->n_in - 2, letter);
        a->stride = number(r, "strides", r->n_in - 1, letter);
        a->rate = number(r, "dilations", 0, letter);
        padding = (a->out - 1) * a->stride + (a->size - 1) * a->rate + 1 - a->in;
        if (strcmp(text_attr(r->op, "padding", ""), "SAME") == 0 && padding > 0)
            a->before = padding / 2;
        if (explicit != NULL && explicit->n > 0)
            a->before = explicit->list_i[2 * letter];
    }
    return g;
}

/* The index of an element of images of this size; at: z, y, x. */
static int64_t index_of(const struct geometry *g, int64_t n, const int64_t at[3],
                        int64_t channel, int64_t channels, int is_output)
{
    int64_t pixel = 0, plane = 1;

    for (int i = 0; i < 3; i++) {
        const int64_t size = is_output ? g->axis[i].out : g->axis[i].in;

        pixel = pixel * size + at[i];
        plane *= size;
    }
    return g->second ? (n * channels + channel) * plane + pixel
                     : (n * plane + pixel) * channels + channel;
}

/* The pixel of the input that place k of the window over pixel `out` covers; 0: outside. */
static int covered(const struct geometry *g, const int64_t out[3], const int64_t k[3],
                   int64_t ret[3])
{
    for (int i = 0; i < 3; i++) {
        const struct axis *a = &g->axis[i];

        ret[i] = out[i] * a->stride - a->before + k[i] * a->rate;
        if (ret[i] < 0 || ret[i] >= a->in)
            return 0;
    }
    return 1;
}

/* ---- convolutions ---- */

/* One of the arrays is computed, the others are given. */
struct conv {
    const struct array *image, *filter, *y;
    struct array *to;
};

/* The sum over all products image * filter * y, differentiated by the one of them that is
 * computed. */
static void each_product(const struct reference *r, const struct conv *c)
{
    const struct shape *filter = &c->filter->tensor.shape;
    const struct geometry g =
        geometry_of(r, &c->image->tensor.shape, filter->dim, &c->y->tensor.shape);
    const int depthwise = strncmp(operation_type(r->op), "Depth", 5) == 0;
    const int64_t in = filter->dim[g.spatial], last = filter->dim[g.spatial + 1];
    const int64_t filters = depthwise ? in * last : last;
    const struct axis *z = &g.axis[0], *y = &g.axis[1], *x = &g.axis[2];
    const struct shape all = {
        8, {g.batch, z->out, y->out, x->out, z->size, y->size, x->size, in * last}};
    int64_t at[8], pixel[3];

    for (int64_t i = 0; i < shape_elements(&all); i++) {
        unravel(&all, i, at);
        if (!covered(&g, at + 1, at + 4, pixel))
            continue;
        const int64_t channel = at[7] / last;
        const int64_t a = index_of(&g, at[0], pixel, channel, g.channels, 0);
        const int64_t b =
            ((at[4] * y->size + at[5]) * x->size + at[6]) * in * last + at[7];
        const int64_t d =
            index_of(&g, at[0], at + 1, depthwise ? at[7] : at[7] % last, filters, 1);
        if (c->to == c->y)
            c->to->v[d] += c->image->v[a] * c->filter->v[b];
        else if (c->to == c->image)
            c->to->v[a] += c->y->v[d] * c->filter->v[b];
        else
            c->to->v[b] += c->y->v[d] * c->image->v[a];
    }
}

static void conv(const struct reference *r)
{
    each_product(r, &(struct conv){&r->in[0], &r->in[1], r->out, r->out});
}

static void to_input(const struct reference *r)
{
    each_product(r, &(struct conv){r->out, &r->in[1], &r->in[2], r->out});
}

static void to_filter(const struct reference *r)
{
    each_product(r, &(struct conv){&r->in[0], r->out, &r->in[2], r->out});
}

/* ---- pools ---- */

/* The elements of the window of element i of the pooled images; returns their number. */
static int window_of(const struct reference *r, const struct shape *image,
                     const struct shape *y, int64_t i, int64_t *ret)
{
    const struct geometry g = geometry_of(r, image, NULL, y);
    const struct shape window = {3, {g.axis[0].size, g.axis[1].size, g.axis[2].size}};
    int64_t at[SHAPE_MAX_RANK], out[3] = {0}, k[3], pixel[3];
    int n = 0;

    unravel(y, i, at);
    for (int d = 0; d < g.spatial; d++)
        out[3 - g.spatial + d] = at[d + 1 + g.second];
    for (int64_t j = 0; j < shape_elements(&window); j++) {
        unravel(&window, j, k);
        if (covered(&g, out, k, pixel))
            ret[n++] = index_of(&g, at[0], pixel, at[g.second ? 1 : g.spatial + 1],
                                g.channels, 0);
    }
    return n;
}

enum { WINDOW_MAX = 64 };

/* The position in the image of the largest element in the window of output element i. */
static int64_t largest(const struct reference *r, const struct shape *y, int64_t i)
{
    int64_t at[WINDOW_MAX], best = -1;
    const int n = window_of(r, &r->in[0].tensor.shape, y, i, at);

    for (int k = 0; k < n; k++)
        if (best < 0 || r->in[0].v[at[k]] > r->in[0].v[best])
            best = at[k];
    return best;
}

static void max_pool(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[0].v[largest(r, &r->out->tensor.shape, i)];
}

static void max_pool_argmax(const struct reference *r)
{
    const struct shape *x = &r->in[0].tensor.shape;
    const int64_t size = x->dim[1] * x->dim[2] * x->dim[3];

    max_pool(r);
    for (int64_t i = 0; i < r->out->n; i++) {
        r->out[1].v[i] = (double)largest(r, &r->out->tensor.shape, i);
        if (!operation_attr(r->op, "include_batch_in_index")->i)
            r->out[1].v[i] = (double)((int64_t)r->out[1].v[i] % size);
    }
}

static void max_pool_grad(const struct reference *r)
{
    for (int64_t i = 0; i < r->in[2].n; i++)
        r->out->v[largest(r, &r->in[2].tensor.shape, i)] += r->in[2].v[i];
}

static void max_pool_grad_argmax(const struct reference *r)
{
    const int64_t images = r->in[0].tensor.shape.dim[0], size = r->in[0].n / images;

    for (int64_t i = 0; i < r->in[1].n; i++) {
        const int64_t image = i / (r->in[1].n / images);
        const int whole = (int)operation_attr(r->op, "include_batch_in_index")->i;

        r->out->v[(int64_t)r->in[2].v[i] + (whole ? 0 : image * size)] += r->in[1].v[i];
    }
}

static void max_pool_grad_grad(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[2].v[largest(r, &r->out->tensor.shape, i)];
}

static void avg_pool(const struct reference *r)
{
    int64_t at[WINDOW_MAX];

    for (int64_t i = 0; i < r->out->n; i++) {
        const int n = window_of(r, &r->in[0].tensor.shape, &r->out->tensor.shape, i, at);

        for (int k = 0; k < n; k++)
            r->out->v[i] += r->in[0].v[at[k]] / n;
    }
}

static void avg_pool_grad(const struct reference *r)
{
    int64_t at[WINDOW_MAX];

    for (int64_t i = 0; i < r->in[1].n; i++) {
        const int n = window_of(r, &r->out->tensor.shape, &r->in[1].tensor.shape, i, at);

        for (int k = 0; k < n; k++)
            r->out->v[at[k]] += r->in[1].v[i] / n;
    }
}

/* ---- the rows ---- */

#define ROW(op, types, f, in, attrs, out) FLAGGED(op, types, f, in, attrs, out, 0)
#define FLAGGED(op, types, f, in, attrs, out, flags)                                     \
    {                                                                                    \
        op, types, in, attrs, out, f, NULL, -1, 1, 60, flags                             \
    }
/* The same window in all three operations: a convolution, its gradients. n: of sizes. */
#define CONVS(op, to_image, to_filters, n, image, filter, y, sizes, filter_sizes, attrs) \
    ROW(op, "fd", conv, "x" image " x" filter, attrs, y),                                \
        ROW(to_image, "fd", to_input, "I(" n ")=" sizes " x" filter " x" y, attrs,       \
            image),                                                                      \
        ROW(to_filters, "fd", to_filter, "x" image " I(" n ")=" filter_sizes " x" y,     \
            attrs, filter)
#define CONV(...)                                                                        \
    CONVS("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "4", __VA_ARGS__)
#define CONV3(...)                                                                       \
    CONVS("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", "5", __VA_ARGS__)
#define DEPTHWISE(...)                                                                   \
    CONVS("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput",                 \
          "DepthwiseConv2dNativeBackpropFilter", "4", __VA_ARGS__)
#define POOL(image, y, attrs)                                                            \
    ROW("MaxPool", "fdil", max_pool, "x" image, attrs, y),                               \
        ROW("MaxPoolGrad", "fdil", max_pool_grad, "x" image " x" y " x" y, attrs,        \
            image),                                                                      \
        ROW("MaxPoolGradGrad", "fdil", max_pool_grad_grad, "x" image " x" y " x" image,  \
            attrs, y)
#define MEANS(pool, grad, image, y, sizes, attrs)                                        \
    ROW(pool, "fd", avg_pool, "x" image, attrs, y),                                      \
        ROW(grad, "fd", avg_pool_grad, sizes " x" y, attrs, image)
#define MEAN(...)  MEANS("AvgPool", "AvgPoolGrad", __VA_ARGS__)
#define MEAN3(...) MEANS("AvgPool3D", "AvgPool3DGrad", __VA_ARGS__)
#define ONES       "strides=[1,1,1,1] padding="
#define NCHW       " data_format=NCHW"
#define HALVES     "ksize=[1,2,2,1] strides=[1,2,2,1] padding="
#define EXPLICIT   "EXPLICIT explicit_paddings="

const struct kernel_case conv_cases[] = {
    CONV("(2,4,5,2)", "(3,2,2,3)", "(2,2,4,3)", "2,4,5,2", "3,2,2,3",
         "strides=[1,1,1,1] padding=VALID"),
    CONV("(2,4,5,1)", "(3,2,1,2)", "(2,4,5,2)", "2,4,5,1", "3,2,1,2",
         "strides=[1,1,1,1] padding=SAME"),
    CONV("(1,7,6,2)", "(4,3,2,2)", "(1,2,2,2)", "1,7,6,2", "4,3,2,2",
         "strides=[1,2,3,1] padding=VALID"),
    CONV("(1,7,6,2)", "(4,3,2,2)", "(1,4,2,2)", "1,7,6,2", "4,3,2,2",
         "strides=[1,2,3,1] padding=SAME"),
    /* a window wider than the image, and one that skips pixels */
    CONV("(1,2,3,1)", "(5,5,1,1)", "(1,2,3,1)", "1,2,3,1", "5,5,1,1",
         "strides=[1,1,1,1] padding=SAME"),
    CONV("(2,5,5,1)", "(1,1,1,4)", "(2,2,2,4)", "2,5,5,1", "1,1,1,4",
         "strides=[1,3,3,1] padding=SAME"),
    /* more pixels than a block of 128 */
    CONV("(3,7,7,1)", "(2,1,1,2)", "(3,6,7,2)", "3,7,7,1", "2,1,1,2",
         "strides=[1,1,1,1] padding=VALID"),
    CONV("(0,4,4,1)", "(2,2,1,3)", "(0,3,3,3)", "0,4,4,1", "2,2,1,3",
         "strides=[1,1,1,1] padding=VALID"),
    /* dilations, paddings of each side */
    CONV("(2,6,7,2)", "(2,3,2,3)", "(2,4,3,3)", "2,6,7,2", "2,3,2,3",
         ONES "VALID dilations=[1,2,2,1]"),
    CONV("(1,5,7,1)", "(2,3,1,2)", "(1,3,4,2)", "1,5,7,1", "2,3,1,2",
         "strides=[1,2,2,1] padding=SAME dilations=[1,3,2,1]"),
    CONV("(1,4,5,2)", "(2,3,2,2)", "(1,4,7,2)", "1,4,5,2", "2,3,2,2",
         ONES EXPLICIT "[0,0,1,0,3,1,0,0]"),
    CONV("(1,4,5,2)", "(2,2,2,2)", "(1,3,2,2)", "1,4,5,2", "2,2,2,2",
         "strides=[1,2,3,1] padding=" EXPLICIT "[0,0,0,4,2,0,0,0] dilations=[1,2,3,1]"),
    /* channels second, also with more pixels than a block in an image */
    CONV("(2,2,4,5)", "(3,2,2,3)", "(2,3,2,4)", "2,2,4,5", "3,2,2,3", ONES "VALID" NCHW),
    CONV("(2,1,12,13)", "(2,3,1,2)", "(2,2,12,13)", "2,1,12,13", "2,3,1,2",
         ONES "SAME" NCHW),
    CONV("(1,2,7,6)", "(2,2,2,1)", "(1,1,4,3)", "1,2,7,6", "2,2,2,1",
         "strides=[1,1,2,2] padding=SAME dilations=[1,1,2,3]" NCHW),
    CONV("(1,2,4,5)", "(1,1,2,3)", "(1,3,5,5)", "1,2,4,5", "1,1,2,3",
         ONES EXPLICIT "[0,0,0,0,1,0,0,0]" NCHW),
    CONV3("(1,3,4,5,2)", "(2,3,2,2,2)", "(1,2,2,4,2)", "1,3,4,5,2", "2,3,2,2,2",
          "strides=[1,1,1,1,1] padding=VALID"),
    CONV3("(1,4,3,3,1)", "(2,1,3,1,2)", "(1,2,3,2,2)", "1,4,3,3,1", "2,1,3,1,2",
          "strides=[1,2,1,2,1] padding=SAME dilations=[1,2,1,1,1]"),
    CONV3("(2,2,2,3,2)", "(2,1,2,2,1)", "(2,1,2,3,2)", "2,2,2,3,2", "2,1,2,2,1",
          "strides=[1,1,1,1,1] padding=SAME data_format=NCDHW"),
    DEPTHWISE("(2,4,5,3)", "(3,2,3,1)", "(2,2,4,3)", "2,4,5,3", "3,2,3,1", ONES "VALID"),
    DEPTHWISE("(1,5,5,2)", "(2,3,2,2)", "(1,3,3,4)", "1,5,5,2", "2,3,2,2",
              "strides=[1,2,2,1] padding=SAME"),
    DEPTHWISE("(1,13,12,1)", "(2,2,1,1)", "(1,13,12,1)", "1,13,12,1", "2,2,1,1",
              ONES "SAME dilations=[1,2,3,1]"),
    DEPTHWISE("(2,2,4,4)", "(2,2,2,2)", "(2,4,5,4)", "2,2,4,4", "2,2,2,2",
              ONES EXPLICIT "[0,0,0,0,1,1,1,0]" NCHW),
    DEPTHWISE("(0,4,4,2)", "(2,2,2,1)", "(0,4,4,2)", "0,4,4,2", "2,2,2,1", ONES "SAME"),
    POOL("(2,4,6,2)", "(2,2,3,2)", HALVES "VALID"),
    POOL("(1,5,4,3)", "(1,3,2,3)", "ksize=[1,3,2,1] strides=[1,2,2,1] padding=SAME"),
    POOL("(1,5,5,1)", "(1,3,3,1)", "ksize=[1,3,3,1] strides=[1,1,1,1] padding=VALID"),
    POOL("(1,5,5,1)", "(1,2,2,1)", "ksize=[1,1,1,1] strides=[1,3,3,1] padding=SAME"),
    POOL("(0,4,4,1)", "(0,2,2,1)", HALVES "VALID"),
    POOL("(2,3,5,4)", "(2,3,3,2)", "ksize=[1,1,2,2] strides=[1,1,2,2] padding=SAME" NCHW),
    ROW("MaxPool", "fd", max_pool, "x(1,3,4,2)", HALVES EXPLICIT "[0,0,1,0,1,1,0,0]",
        "(1,2,3,2)"),
    /* MaxPoolGradGrad has no explicit_paddings, in TensorFlow neither */
    FLAGGED("MaxPoolGrad", "fd", max_pool_grad, "x(1,3,4,2) x(1,2,3,2) x(1,2,3,2)",
            HALVES EXPLICIT "[0,0,1,0,1,1,0,0]", "(1,3,4,2)", CASE_NO_DIFFERENCE),
    ROW("MaxPoolV2", "fdil", max_pool, "x(2,5,4,2) I(4)=1,3,2,1 I(4)=1,2,2,1",
        "padding=SAME", "(2,3,2,2)"),
    ROW("MaxPoolV2", "fd", max_pool, "x(2,2,5,4) i(4)=1,1,3,2 i(4)=1,1,2,2",
        "padding=VALID" NCHW, "(2,2,2,2)"),
    ROW("MaxPoolGradV2", "fdil", max_pool_grad,
        "x(1,5,4,2) x(1,3,2,2) x(1,3,2,2) i(4)=1,3,2,1 i(4)=1,2,2,1", "padding=SAME",
        "(1,5,4,2)"),
    ROW("MaxPoolGradGradV2", "fdil", max_pool_grad_grad,
        "x(1,5,4,2) x(1,3,2,2) x(1,5,4,2) i(4)=1,3,2,1 i(4)=1,2,2,1", "padding=SAME",
        "(1,3,2,2)"),
    ROW("MaxPoolWithArgmax", "fdil", max_pool_argmax, "x(2,4,5,2)", HALVES "SAME",
        "(2,2,3,2) (2,2,3,2)"),
    ROW("MaxPoolWithArgmax", "fd", max_pool_argmax, "x(2,4,5,2)",
        HALVES "VALID Targmax=@i include_batch_in_index=true", "(2,2,2,2) (2,2,2,2)"),
    ROW("MaxPoolGradWithArgmax", "fdil", max_pool_grad_argmax,
        "x(2,2,3,1) x(2,1,2,1) l(2,1,2,1)=1,1,3,5", HALVES "SAME", "(2,2,3,1)"),
    ROW("MaxPoolGradWithArgmax", "f", max_pool_grad_argmax,
        "x(2,2,3,1) x(2,1,2,1) i(2,1,2,1)=1,2,9,11",
        HALVES "SAME include_batch_in_index=true", "(2,2,3,1)"),
    ROW("MaxPool3D", "fd", max_pool, "x(1,3,4,3,2)",
        "ksize=[1,2,2,3,1] strides=[1,1,2,1,1] padding=SAME", "(1,3,2,3,2)"),
    ROW("MaxPool3D", "fd", max_pool, "x(1,2,3,4,3)",
        "ksize=[1,1,2,2,3] strides=[1,1,1,2,1] padding=VALID data_format=NCDHW",
        "(1,2,2,2,1)"),
    /* all of the largest elements get the gradient, which is no derivative */
    {"MaxPool3DGrad", "fd",
     "x(1,1,2,4,1)=3,1,5,6,3,3,7,2 X(1,1,1,2,1)=3,7 x(1,1,1,2,1)=5,9",
     "ksize=[1,1,2,2,1] strides=[1,1,2,2,1] padding=SAME", "(1,1,2,4,1)=5,0,0,0,5,5,9,0",
     NULL, NULL, -1, 1, 0, CASE_NO_DIFFERENCE},
    FLAGGED("MaxPool3DGradGrad", "fd", max_pool_grad_grad,
            "x(1,2,2,4,1) x(1,1,1,2,1) x(1,2,2,4,1)",
            "ksize=[1,2,2,2,1] strides=[1,2,2,2,1] padding=SAME", "(1,1,1,2,1)",
            CASE_NO_DIFFERENCE),
    MEAN("(2,4,5,2)", "(2,2,3,2)", "I(4)=2,4,5,2", HALVES "SAME"),
    MEAN("(1,5,5,3)", "(1,3,2,3)", "I(4)=1,5,5,3",
         "ksize=[1,3,2,1] strides=[1,1,3,1] padding=VALID"),
    MEAN("(2,3,4,3)", "(2,3,2,2)", "I(4)=2,3,4,3",
         "ksize=[1,1,3,2] strides=[1,1,2,2] padding=SAME" NCHW),
    MEAN("(0,4,5,2)", "(0,2,3,2)", "I(4)=0,4,5,2", HALVES "SAME"),
    MEAN3("(1,3,4,3,2)", "(1,3,2,3,2)", "I(5)=1,3,4,3,2",
          "ksize=[1,2,2,3,1] strides=[1,1,2,1,1] padding=SAME"),
    MEAN3("(1,2,3,4,3)", "(1,2,2,2,1)", "I(5)=1,2,3,4,3",
          "ksize=[1,1,2,2,3] strides=[1,1,1,2,1] padding=VALID data_format=NCDHW"),
    {NULL},
};
