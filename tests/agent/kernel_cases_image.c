/* Blocks of pixels, images of other sizes, dilations: pixel by pixel. */
#include "tests/agent/kernel_cases.h"

#include <math.h>
#include <string.h>

/* ---- blocks ---- */

static int64_t block(const struct reference *r, int d)
{
    const struct attr *size = operation_attr(r->op, "block_size");

    return size != NULL ? size->i : (int64_t)r->in[1].v[d];
}

/* Between the array in space and the one in blocks: `batch` images of the first. Returns the
 * element of the second for `index` of the first, or -1 if that is cropped; margins are
 * added. */
static int64_t in_blocks(const struct reference *r, const struct shape *blocks,
                         const int64_t *index, int64_t batch)
{
    const double *margins = r->in[r->n_in - 1].v;
    const int n = (int)r->in[r->n_in - 1].tensor.shape.dim[0];
    int64_t at[SHAPE_MAX_RANK], place = 0;

    memcpy(at, index, sizeof(at));
    for (int d = 0; d < n; d++) {
        const int64_t pixel = index[d + 1] + (int64_t)margins[2 * d], size = block(r, d);

        at[d + 1] = pixel / size;
        place = place * size + pixel % size;
        if (at[d + 1] >= blocks->dim[d + 1])
            return -1;
    }
    at[0] = place * batch + index[0];
    return ravel(blocks, at, blocks->rank);
}

static void space_to_batch(const struct reference *r)
{
    const struct array *x = &r->in[0];
    int64_t index[SHAPE_MAX_RANK];

    for (int64_t i = 0; i < x->n; i++) {
        unravel(&x->tensor.shape, i, index);
        r->out->v[in_blocks(r, &r->out->tensor.shape, index, x->tensor.shape.dim[0])] =
            x->v[i];
    }
}

static void batch_to_space(const struct reference *r)
{
    const struct shape *y = &r->out->tensor.shape;
    int64_t index[SHAPE_MAX_RANK];

    for (int64_t i = 0; i < r->out->n; i++) {
        unravel(y, i, index);
        r->out->v[i] = r->in[0].v[in_blocks(r, &r->in[0].tensor.shape, index, y->dim[0])];
    }
}

static void depth(const struct reference *r, const struct array *space,
                  const struct array *deep, int to_depth)
{
    const int second = operation_attr(r->op, "data_format")->s[1] == 'C';
    const int channel = second ? 1 : 3, y = second ? 2 : 1;
    const int64_t size = block(r, 0), channels = space->tensor.shape.dim[channel];
    int64_t index[SHAPE_MAX_RANK];

    for (int64_t i = 0; i < space->n; i++) {
        unravel(&space->tensor.shape, i, index);
        index[channel] += (index[y] % size * size + index[y + 1] % size) * channels;
        index[y] /= size;
        index[y + 1] /= size;
        const int64_t at = ravel(&deep->tensor.shape, index, 4);
        r->out->v[to_depth ? at : i] = r->in[0].v[to_depth ? i : at];
    }
}

static void space_to_depth(const struct reference *r)
{
    depth(r, &r->in[0], r->out, 1);
}

static void depth_to_space(const struct reference *r)
{
    depth(r, r->out, &r->in[0], 0);
}

/* ---- sizes ---- */

/* Where place i of n lies among the pixels 0 .. size-1. */
static double place(const struct reference *r, int64_t i, int64_t n, int64_t size,
                    double half)
{
    if (operation_attr(r->op, "align_corners")->i && n > 1)
        return (double)i * (double)(size - 1) / (double)(n - 1);
    if (operation_attr(r->op, "half_pixel_centers")->i)
        return ((double)i + 0.5) * (double)size / (double)n - half;
    return (double)i * (double)size / (double)n;
}

/* The weight of a pixel for a place: 1 minus the distance, and what is outside belongs to the
 * border. */
static double weight(double at, int64_t pixel, int64_t size)
{
    const double inside = fmin(fmax(at, 0), (double)(size - 1));

    return fmax(0, 1 - fabs(inside - (double)pixel));
}

static double nearest_weight(const struct reference *r, double at, int64_t pixel,
                             int64_t size)
{
    /* places that are pixels, computed with rounding errors, are those pixels */
    const double low =
        operation_attr(r->op, "align_corners")->i ? floor(at + 0.5) : floor(at + 1e-9);

    return fmin(low, (double)(size - 1)) == (double)pixel;
}

/* y (resized) += x, or, with `back`, x += y: weighted pairs of pixels. */
static void resize(const struct reference *r, const struct shape *x,
                   const struct shape *y, const double *from, double *to, int back,
                   int nearest)
{
    const struct shape all = {
        6, {x->dim[0], y->dim[1], y->dim[2], x->dim[1], x->dim[2], x->dim[3]}};
    int64_t at[6];

    for (int64_t i = 0; i < shape_elements(&all); i++) {
        double w = 1;

        unravel(&all, i, at);
        for (int d = 0; d < 2; d++) {
            const double p =
                place(r, at[1 + d], y->dim[1 + d], x->dim[1 + d], nearest ? 0 : 0.5);

            w *= nearest ? nearest_weight(r, p, at[3 + d], x->dim[1 + d])
                         : weight(p, at[3 + d], x->dim[1 + d]);
        }
        const int64_t ix =
            ((at[0] * x->dim[1] + at[3]) * x->dim[2] + at[4]) * x->dim[3] + at[5];
        const int64_t iy =
            ((at[0] * y->dim[1] + at[1]) * y->dim[2] + at[2]) * x->dim[3] + at[5];
        if (back)
            to[ix] += w * from[iy];
        else
            to[iy] += w * from[ix];
    }
}

static void bilinear(const struct reference *r)
{
    resize(r, &r->in[0].tensor.shape, &r->out->tensor.shape, r->in[0].v, r->out->v, 0, 0);
}

static void nearest(const struct reference *r)
{
    resize(r, &r->in[0].tensor.shape, &r->out->tensor.shape, r->in[0].v, r->out->v, 0, 1);
}

static void bilinear_grad(const struct reference *r)
{
    resize(r, &r->out->tensor.shape, &r->in[0].tensor.shape, r->in[0].v, r->out->v, 1, 0);
}

static void nearest_grad(const struct reference *r)
{
    resize(r, &r->out->tensor.shape, &r->in[0].tensor.shape, r->in[0].v, r->out->v, 1, 1);
}

/* ---- dilation ---- */

/* what: 0 the dilation, 1 and 2 its gradients by image and filter */
static void dilate(const struct reference *r, int what)
{
    const struct shape *x = &r->in[0].tensor.shape, *f = &r->in[1].tensor.shape;
    const struct shape *y = what == 0 ? &r->out->tensor.shape : &r->in[2].tensor.shape;
    const int64_t *strides = operation_attr(r->op, "strides")->list_i;
    const int64_t *rates = operation_attr(r->op, "rates")->list_i;
    const int same = strcmp(operation_attr(r->op, "padding")->s, "SAME") == 0;
    int64_t at[4], before[2];

    for (int d = 0; d < 2; d++) {
        before[d] = ((y->dim[d + 1] - 1) * strides[d + 1] +
                     (f->dim[d] - 1) * rates[d + 1] + 1 - x->dim[d + 1]) /
                    2;
        before[d] = same && before[d] > 0 ? before[d] : 0;
    }
    for (int64_t i = 0; i < shape_elements(y); i++) {
        double best = -1e30;
        int64_t best_x = 0, best_f = 0;

        unravel(y, i, at);
        for (int64_t k = 0; k < f->dim[0] * f->dim[1]; k++) {
            const int64_t row = at[1] * strides[1] - before[0] + k / f->dim[1] * rates[1];
            const int64_t column =
                at[2] * strides[2] - before[1] + k % f->dim[1] * rates[2];
            const int64_t ix =
                ((at[0] * x->dim[1] + row) * x->dim[2] + column) * x->dim[3] + at[3];
            const int64_t jf = k * x->dim[3] + at[3];

            if (row < 0 || row >= x->dim[1] || column < 0 || column >= x->dim[2] ||
                r->in[0].v[ix] + r->in[1].v[jf] <= best)
                continue;
            best = r->in[0].v[ix] + r->in[1].v[jf];
            best_x = ix;
            best_f = jf;
        }
        if (what == 0)
            r->out->v[i] = best;
        else
            r->out->v[what == 1 ? best_x : best_f] += r->in[2].v[i];
    }
}

static void dilation(const struct reference *r)
{
    dilate(r, 0);
}

static void dilation_to_input(const struct reference *r)
{
    dilate(r, 1);
}

static void dilation_to_filter(const struct reference *r)
{
    dilate(r, 2);
}

/* ---- the rows ---- */

#define FLAGGED(op, types, f, in, attrs, out, ulps, flags)                               \
    {                                                                                    \
        op, types, in, attrs, out, f, NULL, -1, 1, ulps, flags                           \
    }
#define ROW(op, types, f, in, attrs, out) FLAGGED(op, types, f, in, attrs, out, 12, 0)
#define RESIZE(image, size, resized, attrs)                                              \
    ROW("ResizeBilinear", "f", bilinear, "x" image " I(2)=" size, attrs, resized),       \
        ROW("ResizeBilinearGrad", "f", bilinear_grad, "f" resized " f" image, attrs,     \
            image),                                                                      \
        ROW("ResizeNearestNeighbor", "fdilb", nearest, "x" image " I(2)=" size, attrs,   \
            resized)
#define DILATE(image, filter, y, attrs)                                                  \
    ROW("Dilation2D", "fd", dilation, "x" image " x" filter, attrs, y),                  \
        ROW("Dilation2DBackpropInput", "fd", dilation_to_input,                          \
            "x" image " x" filter " x" y, attrs, image),                                 \
        ROW("Dilation2DBackpropFilter", "fd", dilation_to_filter,                        \
            "x" image " x" filter " x" y, attrs, filter)
#define ALIGN "align_corners=true"
#define HALF  "half_pixel_centers=true"

const struct kernel_case image_cases[] = {
    ROW("SpaceToBatchND", "fdilub", space_to_batch, "x(2,4,3) I(1)=2 I(1,2)=0,0", NULL,
        "(4,2,3)"),
    ROW("SpaceToBatchND", "fdl", space_to_batch, "x(2,4,5,2) i(2)=2,3 l(2,2)=1,1,3,1",
        NULL, "(12,3,3,2)"),
    ROW("SpaceToBatchND", "fd", space_to_batch,
        "x(1,3,2,2,2) I(3)=2,1,3 I(3,2)=0,1,0,0,4,0", NULL, "(6,2,2,2,2)"),
    ROW("SpaceToBatchND", "fd", space_to_batch, "x(2,2) l(1)=2 i(1,2)=5,1", NULL,
        "(4,4)"),
    ROW("SpaceToBatchND", "fd", space_to_batch, "x(2,0,2) I(1)=2 I(1,2)=1,1", NULL,
        "(4,1,2)"),
    ROW("BatchToSpaceND", "fdilub", batch_to_space, "x(4,2,3) I(1)=2 I(1,2)=0,0", NULL,
        "(2,4,3)"),
    ROW("BatchToSpaceND", "fdl", batch_to_space, "x(12,3,3,2) i(2)=2,3 l(2,2)=1,1,3,1",
        NULL, "(2,4,5,2)"),
    ROW("BatchToSpaceND", "fd", batch_to_space,
        "x(6,2,2,2) I(3)=2,1,3 I(3,2)=0,1,0,0,2,3", NULL, "(1,3,2,1)"),
    ROW("SpaceToBatch", "fdil", space_to_batch, "x(2,3,4,2) I(2,2)=1,0,0,2",
        "block_size=2", "(8,2,3,2)"),
    ROW("BatchToSpace", "fdil", batch_to_space, "x(8,2,3,2) l(2,2)=1,0,0,2",
        "block_size=2", "(2,3,4,2)"),
    ROW("SpaceToDepth", "fdilu", space_to_depth, "x(2,4,6,3)", "block_size=2",
        "(2,2,3,12)"),
    ROW("SpaceToDepth", "fd", space_to_depth, "x(2,2,3,6)",
        "block_size=3 data_format=NCHW", "(2,18,1,2)"),
    ROW("DepthToSpace", "fdilu", depth_to_space, "x(2,2,3,12)", "block_size=2",
        "(2,4,6,3)"),
    ROW("DepthToSpace", "fd", depth_to_space, "x(2,18,1,2)",
        "block_size=3 data_format=NCHW", "(2,2,3,6)"),
    ROW("DepthToSpace", "fd", depth_to_space, "x(0,2,3,4)", "block_size=2", "(0,4,6,1)"),
    RESIZE("(2,3,4,2)", "6,3", "(2,6,3,2)", NULL),
    RESIZE("(1,5,2,1)", "3,7", "(1,3,7,1)", ALIGN),
    RESIZE("(1,4,5,2)", "3,8", "(1,3,8,2)", HALF),
    RESIZE("(1,1,3,1)", "1,1", "(1,1,1,1)", ALIGN),
    RESIZE("(0,2,3,1)", "4,4", "(0,4,4,1)", NULL),
    /* products of float32, whatever the images are */
    FLAGGED("ResizeBilinear", "dilu", bilinear, "x(2,3,4,2) i(2)=5,3", NULL, "(2,5,3,2)",
            12, CASE_NO_DIFFERENCE),
    FLAGGED("ResizeBilinearGrad", "d", bilinear_grad, "f(2,5,3,2) d(2,3,4,2)", NULL,
            "(2,3,4,2)", 4e9, 0),
    ROW("ResizeNearestNeighborGrad", "fdi", nearest_grad, "x(2,6,3,2) I(2)=3,4", NULL,
        "(2,3,4,2)"),
    ROW("ResizeNearestNeighborGrad", "fd", nearest_grad, "x(1,3,7,1) i(2)=5,2", ALIGN,
        "(1,5,2,1)"),
    ROW("ResizeNearestNeighborGrad", "fd", nearest_grad, "x(1,3,8,2) i(2)=4,5", HALF,
        "(1,4,5,2)"),
    DILATE("(2,4,5,2)", "(2,3,2)", "(2,3,3,2)",
           "strides=[1,1,1,1] rates=[1,1,1,1] padding=VALID"),
    DILATE("(1,5,6,2)", "(2,2,2)", "(1,3,3,2)",
           "strides=[1,2,2,1] rates=[1,2,3,1] padding=SAME"),
    {NULL},
};
