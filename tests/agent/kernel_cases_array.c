/* Shapes as values, changes of shape, joining and cutting, slices, indices. All move
 * elements or count them, so every result is exact; sums of them are given one unit for
 * each term.
 *
 * The text of the outputs tells where the elements go, as positions in an input
 * (`picked`); otherwise a naive loop computes it.
 */
#include "tests/agent/kernel_cases.h"

#include <string.h>

static double same(const double *x, const struct operation *op)
{
    (void)op;
    return x[0];
}

static double zero(const double *x, const struct operation *op)
{
    (void)x;
    (void)op;
    return 0;
}

static double one(const double *x, const struct operation *op)
{
    (void)x;
    (void)op;
    return 1;
}

/* The outputs' text gives positions in the first input of type x (-1: zero). */
static void picked(const struct reference *r)
{
    const struct array *x = r->in;

    while (x->letter != 'x')
        x++;
    for (int k = 0; k < r->n_out; k++)
        for (int64_t i = 0; i < r->out[k].n; i++) {
            int64_t at = (int64_t)r->out[k].v[i];

            r->out[k].v[i] = at < 0 ? 0 : x->v[at];
        }
}

/* Copies all elements in the same order. */
static void copied(const struct reference *r)
{
    memcpy(r->out->v, r->in->v, (size_t)r->out->n * sizeof(double));
}

static void filled(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[1].v[0];
}

static void ranged(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++)
        r->out->v[i] = r->in[0].v[0] + (double)i * r->in[2].v[0];
}

static void transposed(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++) {
        const struct shape *s = &r->in[0].tensor.shape;
        int64_t index[SHAPE_MAX_RANK], from[SHAPE_MAX_RANK];

        unravel(&r->out->tensor.shape, i, index);
        for (int d = 0; d < s->rank; d++)
            from[(int)r->in[1].v[d]] = index[d];
        r->out->v[i] = r->in[0].v[ravel(s, from, s->rank)];
    }
}

static void tiled(const struct reference *r)
{
    for (int64_t i = 0; i < r->out->n; i++) {
        const struct shape *s = &r->in[0].tensor.shape;
        int64_t index[SHAPE_MAX_RANK];

        unravel(&r->out->tensor.shape, i, index);
        for (int d = 0; d < s->rank; d++)
            index[d] %= s->dim[d];
        r->out->v[i] = r->in[0].v[ravel(s, index, s->rank)];
    }
}

/* Copies rows (all dimensions beyond those of the indices) to the positions in the
 * indices. */
static void stitched(const struct reference *r)
{
    int n = r->n_in / 2;

    for (int k = 0; k < n; k++) {
        const struct array *at = &r->in[k], *data = &r->in[n + k];
        int64_t width = at->n > 0 ? data->n / at->n : 0;

        for (int64_t i = 0; i < data->n; i++)
            r->out->v[(int64_t)at->v[i / width] * width + i % width] = data->v[i];
    }
}

/* ---- joining ---- */

static int64_t axis_of(double axis, int rank)
{
    return (int64_t)axis + (axis < 0 ? rank : 0);
}

static void joined(const struct reference *r)
{
    const struct shape *all = &r->out->tensor.shape;
    int64_t axis = axis_of(r->in[r->n_in - 1].v[0], all->rank), begin = 0;

    for (int k = 0; k < r->n_in - 1; k++) {
        const struct array *x = &r->in[k];

        for (int64_t i = 0; i < x->n; i++) {
            int64_t index[SHAPE_MAX_RANK];

            unravel(&x->tensor.shape, i, index);
            index[axis] += begin;
            r->out->v[ravel(all, index, all->rank)] = x->v[i];
        }
        begin += x->tensor.shape.dim[axis];
    }
}

/* Concat has its axis first. */
static void joined_old(const struct reference *r)
{
    struct array in[MAX_OPERANDS];
    struct reference turned = *r;

    memcpy(in, r->in + 1, (size_t)(r->n_in - 1) * sizeof(in[0]));
    in[r->n_in - 1] = r->in[0];
    turned.in = in;
    joined(&turned);
}

static void padded(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;

    for (int64_t i = 0; i < r->in[0].n; i++) {
        int64_t index[SHAPE_MAX_RANK];

        unravel(s, i, index);
        for (int d = 0; d < s->rank; d++)
            index[d] += (int64_t)r->in[1].v[2 * d];
        r->out->v[ravel(&r->out->tensor.shape, index, s->rank)] = r->in[0].v[i];
    }
}

static void packed(const struct reference *r)
{
    const struct shape *all = &r->out->tensor.shape;
    int64_t axis = axis_of((double)operation_attr(r->op, "axis")->i, all->rank);

    for (int64_t i = 0; i < r->out->n; i++) {
        const struct array *x;
        int64_t index[SHAPE_MAX_RANK];

        unravel(all, i, index);
        x = &r->in[index[axis]];
        for (int64_t d = axis; d + 1 < all->rank; d++)
            index[d] = index[d + 1];
        r->out->v[i] = x->v[ravel(&x->tensor.shape, index, all->rank - 1)];
    }
}

/* ---- indices ---- */

/* params[.., indices[..], ..] with the axis from input 2, or 0. */
static void gathered(const struct reference *r)
{
    const struct shape *s = &r->in[0].tensor.shape;
    int64_t axis = r->n_in > 2 ? axis_of(r->in[2].v[0], s->rank) : 0;
    int64_t inner = 1, n = r->in[1].n;

    for (int d = (int)axis + 1; d < s->rank; d++)
        inner *= s->dim[d];
    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t row = (int64_t)r->in[1].v[i / inner % n];

        r->out->v[i] =
            r->in[0].v[(i / inner / n * s->dim[axis] + row) * inner + i % inner];
    }
}

static void summed_by_id(const struct reference *r)
{
    int64_t width = r->in[1].n > 0 ? r->in[0].n / r->in[1].n : 0;

    for (int64_t i = 0; i < r->in[0].n; i++)
        if (r->in[1].v[i / width] >= 0)
            r->out->v[(int64_t)r->in[1].v[i / width] * width + i % width] +=
                r->in[0].v[i];
}

static void one_hot(const struct reference *r)
{
    const struct shape *s = &r->out->tensor.shape;
    int64_t axis = axis_of((double)operation_attr(r->op, "axis")->i, s->rank);

    for (int64_t i = 0; i < r->out->n; i++) {
        int64_t index[SHAPE_MAX_RANK], hot;

        unravel(s, i, index);
        hot = index[axis];
        for (int64_t d = axis; d + 1 < s->rank; d++)
            index[d] = index[d + 1];
        r->out->v[i] =
            (double)hot == r->in[0].v[ravel(&r->in[0].tensor.shape, index, s->rank - 1)]
                ? r->in[2].v[0]
                : r->in[3].v[0];
    }
}

/* ---- the rows ---- */

#define ALL "fdilscuwb"
#define MOVE(op, in, attrs, out, f)                                                      \
    {                                                                                    \
        op, ALL, in, attrs, out, f, NULL, -5, 5, 0, 0                                    \
    }
#define EACH(op, types, f, in, attrs)                                                    \
    {                                                                                    \
        op, types, in, attrs, NULL, NULL, f, -5, 5, 0, 0                                 \
    }
#define TELL(op, in, attrs, out)                                                         \
    {                                                                                    \
        op, "f", in, attrs, out, NULL, NULL, -5, 5, 0, 0                                 \
    }

const struct kernel_case array_cases[] = {
    EACH("Identity", ALL, same, "x(2,3)", NULL),
    EACH("Identity", ALL, same, "x(0)", NULL),
    EACH("StopGradient", ALL, same, "x(2,3)", NULL),
    EACH("PlaceholderWithDefault", ALL, same, "x(2,3)", "shape=(-1,3)"),
    EACH("CheckNumerics", "fd", same, "x(2,3)", "message=here"),
    EACH("CheckNumerics", "fd", same, "x(0)", "message=here"),
    EACH("ZerosLike", ALL, zero, "x(2,3)", NULL),
    EACH("ZerosLike", ALL, zero, "x(0)", NULL),
    EACH("OnesLike", ALL, one, "x(2,3)", NULL),
    EACH("OnesLike", ALL, one, "x", NULL),
    TELL("Shape", "x(2,1,3)", NULL, "(3)=2,1,3"),
    TELL("Shape", "x", NULL, "(0)"),
    TELL("Shape", "x(0,7)", "out_type=@l", "(2)=0,7"),
    TELL("ShapeN", "x(2,3) x(4) x", NULL, "(2)=2,3 (1)=4 (0)"),
    TELL("Size", "x(2,1,3)", NULL, ".=6"),
    TELL("Size", "x", "out_type=@l", ".=1"),
    TELL("Size", "x(0,4)", NULL, ".=0"),
    TELL("Rank", "x(2,1,3)", NULL, ".=3"),
    TELL("Rank", "x", NULL, ".=0"),
    TELL("BroadcastGradientArgs", "i(2)=2,3 i(1)=3", NULL, "(0) (1)=0"),
    TELL("BroadcastGradientArgs", "i(2)=2,1 i(2)=1,3", NULL, "(1)=1 (1)=0"),
    TELL("BroadcastGradientArgs", "i(2)=2,3 i(2)=2,3", NULL, "(0) (0)"),
    TELL("BroadcastGradientArgs", "i(0) i(2)=4,5", NULL, "(2)=0,1 (0)"),
    TELL("BroadcastGradientArgs", "l(3)=4,1,3 l(2)=2,1", NULL, "(1)=1 (2)=0,2"),
    TELL("ConcatOffset", "i=1 i(2)=2,3 i(2)=2,5 i(2)=2,1", NULL,
         "(2)=0,0 (2)=0,3 (2)=0,8"),
    TELL("ConcatOffset", "i=-2 i(2)=2,3 i(2)=4,3", NULL, "(2)=0,0 (2)=2,0"),
    TELL("InvertPermutation", "i(4)=2,0,3,1", NULL, "(4)=1,3,0,2"),
    TELL("InvertPermutation", "l(3)=0,2,1", NULL, "(3)=0,2,1"),
    TELL("InvertPermutation", "i(0)", NULL, "(0)"),
    {"Range", "il", "X=3 X=11 X=2", NULL, "(4)", ranged, .ulps = 0},
    {"Range", "il", "X=3 X=-4 X=-3", NULL, "(3)", ranged, .ulps = 0},
    {"Range", "il", "X=3 X=3 X=1", NULL, "(0)", ranged, .ulps = 0},
    {"Range", "il", "x=0 x=5 x=1", NULL, "(5)", ranged, .ulps = 0},
    {"Range", "fd", "X=0 X=1 X=0.25", NULL, "(4)", ranged, .ulps = 1},
    MOVE("Fill", "I(2)=2,3 x", NULL, "(2,3)", filled),
    MOVE("Fill", "i(2)=2,3 x", NULL, "(2,3)", filled),
    MOVE("Fill", "L(1)=4 x", NULL, "(4)", filled),
    MOVE("Fill", "I(0) x", NULL, ".", filled),
    MOVE("Fill", "I(2)=0,3 x", NULL, "(0,3)", filled),
    MOVE("DynamicStitch", "I(2)=3,0 I(2)=1,2 x(2,3) x(2,3)", NULL, "(4,3)", stitched),
    MOVE("DynamicStitch", "i(2)=3,0 i(2)=1,2 x(2,3) x(2,3)", NULL, "(4,3)", stitched),
    MOVE("DynamicStitch", "I=0 I(2,1)=1,2 x(2) x(2,1,2)", NULL, "(3,2)", stitched),
    {"DynamicStitch", "fdil", "I(3)=0,1,2 I(1)=1 x(3) x(1)", NULL, "(3)", stitched,
     .low = -5, .high = 5,
     /* the first of two sources gets a gradient, too, as in TensorFlow */
     .flags = CASE_NO_DIFFERENCE},
    MOVE("Reshape", "x(2,3) I(2)=3,2", NULL, "(3,2)", copied),
    MOVE("Reshape", "x(2,3) I(1)=-1", NULL, "(6)", copied),
    MOVE("Reshape", "x(2,3) i(3)=1,-1,3", NULL, "(1,2,3)", copied),
    MOVE("Reshape", "x(1,1) I(0)", NULL, ".", copied),
    MOVE("Reshape", "x(0,3) L(2)=-1,3", NULL, "(0,3)", copied),
    MOVE("ExpandDims", "x(2,3) I=0", NULL, "(1,2,3)", copied),
    MOVE("ExpandDims", "x(2,3) I=-1", NULL, "(2,3,1)", copied),
    MOVE("ExpandDims", "x(2,3) i=1", NULL, "(2,1,3)", copied),
    MOVE("ExpandDims", "x L=0", NULL, "(1)", copied),
    MOVE("Squeeze", "x(1,2,1,3)", NULL, "(2,3)", copied),
    MOVE("Squeeze", "x(1,2,1,3)", "squeeze_dims=[-2]", "(1,2,3)", copied),
    MOVE("Squeeze", "x(1,1)", NULL, ".", copied),
    MOVE("Squeeze", "x(1,0)", "squeeze_dims=[0]", "(0)", copied),
    MOVE("Transpose", "x(2,3) I(2)=1,0", NULL, "(3,2)", transposed),
    MOVE("Transpose", "x(2,3,4) I(3)=2,0,1", NULL, "(4,2,3)", transposed),
    MOVE("Transpose", "x(2,3,4) i(3)=0,2,1", NULL, "(2,4,3)", transposed),
    MOVE("Transpose", "x(2,3) L(2)=0,1", NULL, "(2,3)", transposed),
    MOVE("Transpose", "x(0,3) I(2)=1,0", NULL, "(3,0)", transposed),
    MOVE("Transpose", "x I(0)", NULL, ".", transposed),
    MOVE("Tile", "x(2,3) I(2)=2,3", NULL, "(4,9)", tiled),
    MOVE("Tile", "x(2,1,2) i(3)=1,3,1", NULL, "(2,3,2)", tiled),
    MOVE("Tile", "x(2) L(1)=0", NULL, "(0)", tiled),
    MOVE("Tile", "x(0,2) I(2)=2,2", NULL, "(0,4)", tiled),
    MOVE("Tile", "x I(0)", NULL, ".", tiled),
    {NULL},
};

const struct kernel_case piece_cases[] = {
    MOVE("ConcatV2", "x(2,3) x(2,1) x(2,2) I=1", NULL, "(2,6)", joined),
    MOVE("ConcatV2", "x(1,3) x(2,3) I=-2", NULL, "(3,3)", joined),
    MOVE("ConcatV2", "x(2,2,2) x(2,1,2) I=1", NULL, "(2,3,2)", joined),
    MOVE("ConcatV2", "x(2,0) x(2,3) i=1", NULL, "(2,3)", joined),
    MOVE("ConcatV2", "x(4) L=0", NULL, "(4)", joined),
    MOVE("Concat", "I=1 x(2,3) x(2,1) x(2,2)", NULL, "(2,6)", joined_old),
    MOVE("Concat", "i=-2 x(1,3) x(2,3)", NULL, "(3,3)", joined_old),
    MOVE("Pad", "x(2,3) I(2,2)=1,0,2,1", NULL, "(3,6)", padded),
    MOVE("Pad", "x(0,3) I(2,2)=1,1,0,0", NULL, "(2,3)", padded),
    MOVE("Pack", "x(3) x(3)", NULL, "(2,3)", packed),
    MOVE("Pack", "x(3) x(3)", "axis=1", "(3,2)", packed),
    MOVE("Pack", "x(2,3) x(2,3) x(2,3)", "axis=-2", "(2,3,3)", packed),
    MOVE("Pack", "x x x", NULL, "(3)", packed),
    MOVE("Pack", "x(0,2)", NULL, "(1,0,2)", packed),
    MOVE("Unpack", "x(2,3)", "num=2", "(3)=0,1,2 (3)=3,4,5", picked),
    MOVE("Unpack", "x(2,3)", "num=3 axis=-1", "(2)=0,3 (2)=1,4 (2)=2,5", picked),
    MOVE("Unpack", "x(2)", "num=2", ".=0 .=1", picked),
    MOVE("Split", "I=1 x(2,4)", "num_split=2", "(2,2)=0,1,4,5 (2,2)=2,3,6,7", picked),
    MOVE("Split", "I=-2 x(2,2)", "num_split=2", "(1,2)=0,1 (1,2)=2,3", picked),
    MOVE("Split", "i=0 x(2,2)", "num_split=1", "(2,2)=0,1,2,3", picked),
    MOVE("SplitV", "x(2,4) I(3)=1,0,3 I=1", "num_split=3",
         "(2,1)=0,4 (2,0) (2,3)=1,2,3,5,6,7", picked),
    MOVE("SplitV", "x(3,1) L(2)=-1,1 I=-2", "num_split=2", "(2,1)=0,1 (1,1)=2", picked),
    MOVE("SplitV", "x(3,1) l(2)=2,1 I=0", "num_split=2", "(2,1)=0,1 (1,1)=2", picked),
    MOVE("SplitV", "x(3,1) l(2)=2,1 i=0", "num_split=2", "(2,1)=0,1 (1,1)=2", picked),
    MOVE("Slice", "x(3,4) I(2)=1,2 I(2)=2,1", NULL, "(2,1)=6,10", picked),
    MOVE("Slice", "x(3,4) I(2)=0,1 I(2)=-1,2", NULL, "(3,2)=1,2,5,6,9,10", picked),
    MOVE("Slice", "x(3,4) i(2)=2,0 i(2)=1,-1", NULL, "(1,4)=8,9,10,11", picked),
    MOVE("Slice", "x(3) L(1)=3 L(1)=0", NULL, "(0)", picked),
    MOVE("Slice", "x I(0) I(0)", NULL, ".=0", picked),
    MOVE("StridedSlice", "x(3,4) I(2)=0,1 I(2)=3,4 I(2)=2,2", NULL, "(2,2)=1,3,9,11",
         picked),
    MOVE("StridedSlice", "x(3,4) I(2)=-1,-1 I(2)=-4,-3 I(2)=-1,-1", NULL,
         "(3,2)=11,10,7,6,3,2", picked),
    MOVE("StridedSlice", "x(3,4) i(1)=1 i(1)=2 i(1)=1", NULL, "(1,4)=4,5,6,7", picked),
    MOVE("StridedSlice", "x(3,4) I(2)=1,-2 I(2)=2,-1 I(2)=1,1", "shrink_axis_mask=3",
         ".=6", picked),
    MOVE("StridedSlice", "x(3,4) I(2)=9,1 I(2)=9,2 I(2)=1,1", "begin_mask=1 end_mask=1",
         "(3,1)=1,5,9", picked),
    MOVE("StridedSlice", "x(2,2,3) I(2)=0,1 I(2)=0,2 I(2)=1,1",
         "ellipsis_mask=1 shrink_axis_mask=2", "(2,2)=1,4,7,10", picked),
    MOVE("StridedSlice", "x(2,3) I(3)=0,0,1 I(3)=2,0,9 I(3)=1,1,1", "new_axis_mask=2",
         "(2,1,2)=1,2,4,5", picked),
    MOVE("StridedSlice", "x(3) I(1)=2 I(1)=1 I(1)=1", NULL, "(0)", picked),
    MOVE("StridedSlice", "x(3) L(1)=0 L(1)=0 L(1)=-1", "end_mask=1", "(1)=0", picked),
    MOVE("StridedSlice", "x(5) I(1)=0 I(1)=0 I(1)=-2", "begin_mask=1 end_mask=1",
         "(3)=4,2,0", picked),
    MOVE("StridedSliceGrad", "I(2)=3,4 I(2)=0,1 I(2)=3,4 I(2)=2,2 x(2,2)", NULL,
         "(3,4)=-1,0,-1,1,-1,-1,-1,-1,-1,2,-1,3", picked),
    MOVE("StridedSliceGrad", "i(1)=4 i(1)=-1 i(1)=-9 i(1)=-2 x(2)", NULL, "(4)=-1,1,-1,0",
         picked),
    MOVE("StridedSliceGrad", "I(2)=2,2 I(1)=1 I(1)=2 I(1)=1 x(2)", "shrink_axis_mask=1",
         "(2,2)=-1,-1,0,1", picked),
    MOVE("Gather", "x(3,2) i(4)=2,0,2,1", NULL, "(4,2)", gathered),
    MOVE("Gather", "x(3) l(2,2)=2,0,2,1", NULL, "(2,2)", gathered),
    MOVE("Gather", "x(3,2) i=1", NULL, "(2)", gathered),
    MOVE("Gather", "x(3,2) i(0)", NULL, "(0,2)", gathered),
    MOVE("GatherV2", "x(3,2) i(4)=2,0,2,1 I=0", NULL, "(4,2)", gathered),
    MOVE("GatherV2", "x(2,3) l(2)=2,0 I=-1", NULL, "(2,2)", gathered),
    MOVE("GatherV2", "x(2,3,2) i(2,2)=2,0,2,1 I=1", NULL, "(2,2,2,2)", gathered),
    MOVE("GatherV2", "x(2,3) i=1 I=1", NULL, "(2)", gathered),
    MOVE("GatherV2", "x(2,3) i(2,2)=2,0,1,1 I=1", "batch_dims=1", "(2,2)=2,0,4,4",
         picked),
    MOVE("GatherV2", "x(2,2,3) l(2,1)=2,0 L=2", "batch_dims=-1", "(2,2,1)=2,5,6,9",
         picked),
    MOVE("GatherV2", "x(2,2,3) i(2,2,2)=0,1,2,0,1,1,2,2 I=-1", "batch_dims=2",
         "(2,2,2)=0,1,5,3,7,7,11,11", picked),
    MOVE("GatherV2", "x(2,3,2) i(2)=2,0 I=1", "batch_dims=1", "(2,2)=4,5,6,7", picked),
    MOVE("GatherV2", "x(0,3) i(0,2) I=1", "batch_dims=1", "(0,2)", picked),
    MOVE("GatherNd", "x(3,2) i(2,1)=2,0", NULL, "(2,2)=4,5,0,1", picked),
    MOVE("GatherNd", "x(3,2) l(2,2,2)=2,1,0,0,1,1,2,1", NULL, "(2,2)=5,0,3,5", picked),
    MOVE("GatherNd", "x(2,2,2) i(2,2)=1,0,0,1", NULL, "(2,2)=4,5,2,3", picked),
    MOVE("GatherNd", "x(3) i(1)=1", NULL, ".=1", picked),
    MOVE("GatherNd", "x(2) i(2,0)", NULL, "(2,2)=0,1,0,1", picked),
    MOVE("GatherNd", "x(3,2) i(0,1)", NULL, "(0,2)", picked),
    {"UnsortedSegmentSum", "fdil", "x(4,2) i(4)=2,0,2,-1 I=4", NULL, "(4,2)",
     summed_by_id, .low = -5, .high = 5, .ulps = 2},
    {"UnsortedSegmentSum", "fdil", "x(2,2) l(2,2)=1,1,1,0 i=2", NULL, "(2)", summed_by_id,
     .low = -5, .high = 5, .ulps = 3},
    {"UnsortedSegmentSum", "fd", "x(0,2) i(0) I=2", NULL, "(2,2)", summed_by_id,
     .ulps = 0},
    MOVE("OneHot", "i(3)=1,0,5 I=3 x x", NULL, "(3,3)", one_hot),
    MOVE("OneHot", "l(2,2)=1,0,2,-1 I=3 x x", "axis=1", "(2,3,2)", one_hot),
    MOVE("OneHot", "u(2)=1,0 i=2 x x", "axis=0", "(2,2)", one_hot),
    MOVE("OneHot", "i=1 I=2 x x", NULL, "(2)", one_hot),
    {NULL},
};
