/* ops_pieces.c - joining and splitting, slices, indices.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py; where it makes
 * IndexedSlices, the dense op that gives the same values stands here.
 */
#include "agent/graph/graph_internal.h"
#include "agent/graph/op_rules.h"

/* ---- joining and splitting ---- */

/* Values at inputs first .. first + n - 1, the axis at input `at`. */
static int joined_shape(const struct shape_args *args, int first, int at)
{
    int n = args->n_in - 1;
    struct shape out = SHAPE_UNKNOWN;
    int64_t axis, total = 0;

    if (want_rank(args, at, 0) != 0)
        return ERR_SHAPE;
    for (int i = first; i < first + n && out.rank < 0; i++)
        out = args->in[i];
    if (out.rank < 0)
        return 0;
    if (value_ints(args, at, &axis, 1) != 1) {
        for (int i = 0; i < out.rank; i++)
            out.dim[i] = -1;
        args->out[0] = out;
        return 0;
    }
    if (wrap_axis(args, out.rank, &axis) != 0)
        return ERR_SHAPE;
    for (int i = first; i < first + n; i++) {
        struct shape in = args->in[i], *s = &in;
        int64_t d = dim_of(s, (int)axis);

        if (total < 0 || d < 0)
            total = -1;
        else if (__builtin_add_overflow(total, d, &total))
            return err_set(args->err, ERR_LIMIT, "too many elements");
        if (s->rank == out.rank)
            s->dim[axis] = out.dim[axis];
        if (shape_merge(&out, s, &out) != 0)
            return err_set(args->err, ERR_SHAPE,
                           "shapes %s and %s differ in more than dimension %lld",
                           shape_text(&args->in[first]), shape_text(&args->in[i]),
                           (long long)axis);
    }
    out.dim[axis] = total;
    args->out[0] = out;
    return 0;
}

static int concat_shape(const struct shape_args *args)
{
    return joined_shape(args, 0, args->n_in - 1);
}

/* The op of TensorFlow 0.12: the axis comes first. */
static int old_concat_shape(const struct shape_args *args)
{
    return joined_shape(args, 1, 0);
}

/* Shapes of all values: Consts where they are known, otherwise one ShapeN. (Those before
 * the first unknown one are made and left, as TensorFlow does.) */
static void shapes_of(struct graph *g, const struct operation *op, int first, int n,
                      struct output *ret)
{
    struct op_builder *b;
    struct operation *shapes;
    int all_known = 1;

    for (int i = 0; all_known && i < n; i++) {
        struct shape s = output_shape(input_of(op, first + i));

        ret[i] = shape_of(g, input_of(op, first + i), NULL);
        all_known = shape_known(&s);
    }
    if (all_known)
        return;
    b = op_begin(g, "ShapeN", NULL);
    for (int i = 0; i < n; i++)
        op_input(b, input_of(op, first + i));
    shapes = op_finish(b);
    for (int i = 0; i < n; i++)
        ret[i] = (struct output){shapes, i};
}

static struct output rank_of(struct graph *g, struct output x)
{
    int rank = output_shape(x).rank;

    return rank >= 0 ? constant_i32(g, rank, "Rank") : unary(g, "Rank", x, NULL);
}

static int split_among(struct graph *g, struct operation *op, int first, int at,
                       const struct output *grad_out, struct output *grad_in)
{
    int n = operation_n_inputs(op) - 1;
    struct output *sizes = ARENA_ARRAY(&g->arena, struct output, n), axis;
    struct op_builder *b;
    struct operation *offsets;

    axis = cast(g, input_of(op, at), DT_INT32, NULL);
    axis = binary(g, "FloorMod", axis, rank_of(g, input_of(op, first)), "mod");
    shapes_of(g, op, first, n, sizes);
    b = op_begin(g, "ConcatOffset", NULL);
    op_input(b, axis);
    for (int i = 0; i < n; i++)
        op_input(b, sizes[i]);
    offsets = op_finish(b);
    for (int i = 0; i < n; i++)
        grad_in[first + i] =
            ternary(g, "Slice", grad_out[0], (struct output){offsets, i}, sizes[i], NULL);
    return grad_done(grad_in + first, n);
}

GRAD(concat_grad)
{
    return split_among(g, op, 0, operation_n_inputs(op) - 1, grad_out, grad_in);
}

GRAD(old_concat_grad)
{
    return split_among(g, op, 1, 0, grad_out, grad_in);
}

static int pack_shape(const struct shape_args *args)
{
    struct shape out = args->in[0];
    int64_t axis = attr_int(args->op, "axis");

    for (int i = 1; i < args->n_in; i++)
        if (shape_merge(&out, &args->in[i], &out) != 0)
            return err_set(args->err, ERR_SHAPE, "shapes %s and %s differ",
                           shape_text(&args->in[0]), shape_text(&args->in[i]));
    if (out.rank < 0)
        return 0;
    if (out.rank == SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    if (wrap_axis(args, ++out.rank, &axis) != 0)
        return ERR_SHAPE;
    for (int i = out.rank - 1; i > axis; i--)
        out.dim[i] = out.dim[i - 1];
    out.dim[axis] = args->n_in;
    args->out[0] = out;
    return 0;
}

GRAD(pack_grad)
{
    struct op_builder *b = op_begin(g, "Unpack", "unstack");
    struct operation *parts;

    op_input(b, grad_out[0]);
    op_attr_int(b, "num", operation_n_inputs(op));
    op_attr_int(b, "axis", attr_int(op, "axis"));
    parts = op_finish(b);
    for (int i = 0; i < operation_n_inputs(op); i++)
        grad_in[i] = (struct output){parts, i};
    return parts != NULL ? 0 : -1;
}

static int unpack_shape(const struct shape_args *args)
{
    int64_t axis = attr_int(args->op, "axis"), num = attr_int(args->op, "num");
    struct shape out = args->in[0];

    if (out.rank < 0)
        return 0;
    if (out.rank == 0)
        return err_set(args->err, ERR_SHAPE, "a scalar cannot be taken apart");
    if (wrap_axis(args, out.rank, &axis) != 0)
        return ERR_SHAPE;
    if (out.dim[axis] >= 0 && out.dim[axis] != num)
        return err_set(args->err, ERR_SHAPE, "%lld pieces of dimension %lld of %s",
                       (long long)num, (long long)axis, shape_text(&out));
    for (int i = (int)axis; i + 1 < out.rank; i++)
        out.dim[i] = out.dim[i + 1];
    out.rank--;
    for (int i = 0; i < operation_n_outputs(args->op); i++)
        args->out[i] = out;
    return 0;
}

/* An output that nothing depends on has gradient zero. */
static struct output grad_or_zeros(struct graph *g, struct operation *op, int i,
                                   const struct output *grad_out)
{
    return output_valid(grad_out[i]) ? grad_out[i]
                                     : zeros_like(g, output_of(op, i), NULL);
}

GRAD(unpack_grad)
{
    int n = operation_n_outputs(op);
    struct output *all = ARENA_ARRAY(&g->arena, struct output, n);
    struct op_builder *b;

    for (int i = 0; i < n; i++)
        all[i] = grad_or_zeros(g, op, i, grad_out);
    b = op_begin(g, "Pack", "stack");
    for (int i = 0; i < n; i++)
        op_input(b, all[i]);
    op_attr_int(b, "axis", attr_int(op, "axis"));
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

static int split_shape(const struct shape_args *args)
{
    int n = operation_n_outputs(args->op);
    struct shape out = args->in[1];
    int64_t axis;

    if (want_rank(args, 0, 0) != 0)
        return ERR_SHAPE;
    if (out.rank < 0 || n == 0)
        return 0;
    if (value_ints(args, 0, &axis, 1) != 1) {
        for (int i = 0; i < out.rank; i++)
            out.dim[i] = -1;
    } else if (axis < -out.rank || axis >= out.rank) {
        return err_set(args->err, ERR_SHAPE, "axis %lld of %s", (long long)axis,
                       shape_text(&out));
    } else {
        int64_t *d = &out.dim[axis < 0 ? axis + out.rank : axis];

        if (*d >= 0 && *d % n != 0)
            return err_set(args->err, ERR_SHAPE, "%s does not split into %d equal pieces",
                           shape_text(&args->in[1]), n);
        *d = *d >= 0 ? *d / n : -1;
    }
    for (int i = 0; i < n; i++)
        args->out[i] = out;
    return 0;
}

enum { MAX_PIECES = 256 };

/* Fills in the one size that may be -1: what the others leave of d (-1: not known). */
static int split_sizes(const struct shape_args *args, int64_t d, int64_t *sizes, int n)
{
    int64_t sum = 0;
    int rest = -1;

    for (int i = 0; i < n; i++) {
        if (sizes[i] == -1 && rest < 0)
            rest = i;
        else if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum))
            return err_set(args->err, ERR_SHAPE, "a piece of size %lld",
                           (long long)sizes[i]);
    }
    if (d >= 0 && (rest < 0 ? sum != d : sum > d))
        return err_set(args->err, ERR_SHAPE, "pieces of %lld in all do not make up %s",
                       (long long)sum, shape_text(&args->in[0]));
    if (rest >= 0)
        sizes[rest] = d >= 0 ? d - sum : -1;
    return 0;
}

static int split_v_shape(const struct shape_args *args)
{
    int n = operation_n_outputs(args->op), n_sizes;
    int64_t axis, sizes[MAX_PIECES];
    const struct shape *x = &args->in[0];
    int axis_known = value_ints(args, 2, &axis, 1) == 1;

    if (want_rank(args, 1, 1) != 0 || want_rank(args, 2, 0) != 0)
        return ERR_SHAPE;
    if (x->rank < 0)
        return 0;
    n_sizes = value_ints(args, 1, sizes, MAX_PIECES);
    if (n_sizes >= 0 && n_sizes != n)
        return err_set(args->err, ERR_SHAPE, "%d sizes for %d pieces", n_sizes, n);
    if (axis_known && wrap_axis(args, x->rank, &axis) != 0)
        return ERR_SHAPE;
    if (axis_known && n_sizes >= 0 &&
        split_sizes(args, x->dim[axis], sizes, n_sizes) != 0)
        return ERR_SHAPE;
    for (int i = 0; i < n; i++) {
        args->out[i] = *x;
        for (int k = 0; !axis_known && k < x->rank; k++)
            args->out[i].dim[k] = -1;
        if (axis_known)
            args->out[i].dim[axis] = n_sizes < 0 ? -1 : sizes[i];
    }
    return 0;
}

static struct output join_pieces(struct graph *g, struct operation *op,
                                 struct output axis, const struct output *grad_out)
{
    int n = operation_n_outputs(op);
    struct output *all = ARENA_ARRAY(&g->arena, struct output, n);
    struct op_builder *b;

    if (n == 1)
        return grad_out[0];
    for (int i = 0; i < n; i++)
        all[i] = grad_or_zeros(g, op, i, grad_out);
    b = op_begin(g, "ConcatV2", "concat");
    for (int i = 0; i < n; i++)
        op_input(b, all[i]);
    op_input(b, axis);
    return (struct output){op_finish(b), 0};
}

GRAD(split_grad)
{
    grad_in[1] = join_pieces(g, op, input_of(op, 0), grad_out);
    return grad_done(grad_in + 1, 1);
}

GRAD(split_v_grad)
{
    grad_in[0] = join_pieces(g, op, input_of(op, 2), grad_out);
    return grad_done(grad_in, 1);
}

/* ---- slices ---- */

static int slice_shape(const struct shape_args *args)
{
    int64_t begin[SHAPE_MAX_RANK], size[SHAPE_MAX_RANK];
    int n_begin = value_ints(args, 1, begin, SHAPE_MAX_RANK);
    int n_size = value_ints(args, 2, size, SHAPE_MAX_RANK);
    struct shape sizes, out = args->in[0];

    if (value_shape(args, 2, &sizes) != 0)
        return ERR_SHAPE;
    if (out.rank < 0) {
        args->out[0].rank = sizes.rank;
        for (int i = 0; i < sizes.rank; i++)
            args->out[0].dim[i] = sizes.dim[i] >= 0 ? sizes.dim[i] : -1;
        return 0;
    }
    if ((n_begin >= 0 && n_begin != out.rank) || (n_size >= 0 && n_size != out.rank))
        return err_set(args->err, ERR_SHAPE, "begin has %d, size has %d entries for %s",
                       n_begin, n_size, shape_text(&out));
    for (int i = 0; i < out.rank; i++) {
        int64_t d = out.dim[i], from = n_begin >= 0 ? begin[i] : -1;
        int64_t take = n_size >= 0 ? size[i] : sizes.rank == out.rank ? sizes.dim[i] : -1;

        if (n_begin >= 0 && d >= 0 && (from < 0 || from > d || take > d - from))
            return err_set(args->err, ERR_SHAPE,
                           "begin %lld, size %lld are outside of dimension %d of %s",
                           (long long)from, (long long)take, i, shape_text(&args->in[0]));
        out.dim[i] = take >= 0                               ? take
                     : n_size >= 0 && n_begin >= 0 && d >= 0 ? d - from
                                                             : -1;
    }
    args->out[0] = out;
    return 0;
}

static struct op_builder *begin_strided(struct graph *g, const char *type,
                                        const char *name,
                                        const struct operation *masks_of)
{
    static const char *const masks[] = {"begin_mask", "end_mask", "ellipsis_mask",
                                        "new_axis_mask", "shrink_axis_mask"};
    struct op_builder *b = op_begin(g, type, name);

    for (size_t i = 0; i < sizeof(masks) / sizeof(masks[0]); i++)
        op_attr_int(b, masks[i], attr_int(masks_of, masks[i]));
    return b;
}

/* [rank of x, 1] */
static struct output column_shape(struct graph *g, struct output x)
{
    struct output rank = rank_of(g, x), one = constant_i32(g, 1, "stack/1");
    struct op_builder *b = op_begin(g, "Pack", "stack");

    op_input(b, rank);
    op_input(b, one);
    return (struct output){op_finish(b), 0};
}

/* The gradient put back where the slice was taken, zeros elsewhere. */
GRAD(slice_grad)
{
    struct output x = input_of(op, 0), begin = input_of(op, 1), after, columns[2];
    struct output column = column_shape(g, x);
    struct output size = shape_of(g, output_of(op, 0), NULL);

    columns[0] = binary(g, "Reshape", begin, column, NULL);
    after = binary(g, "Sub", shape_of(g, x, NULL), size, "sub");
    if (output_dtype(begin) != DT_INT32)
        after = cast(g, after, output_dtype(begin), NULL);
    after = binary(g, "Sub", after, begin, "sub");
    columns[1] = binary(g, "Reshape", after, column, NULL);
    grad_in[0] = binary(g, "Pad", grad_out[0], concat(g, columns, 2, 1, NULL), NULL);
    return grad_done(grad_in, 1);
}

/* paddings (rank, 2): zeros before and after, in each dimension */
static int pad_shape(const struct shape_args *args)
{
    int64_t pads[2 * SHAPE_MAX_RANK];
    int n = value_ints(args, 1, pads, 2 * SHAPE_MAX_RANK);
    struct shape out = args->in[0];

    if (want_rank(args, 1, 2) != 0)
        return ERR_SHAPE;
    if (out.rank < 0)
        return 0;
    if (n >= 0 && n != 2 * out.rank)
        return err_set(args->err, ERR_SHAPE, "paddings %s for %s",
                       shape_text(&args->in[1]), shape_text(&out));
    for (int i = 0; i < out.rank; i++) {
        int64_t *d = &out.dim[i];

        if (n >= 0 && (pads[2 * i] < 0 || pads[2 * i + 1] < 0))
            return err_set(args->err, ERR_ARG, "paddings must not be negative");
        if (n < 0 || *d < 0)
            *d = -1;
        else if (__builtin_add_overflow(*d, pads[2 * i], d) ||
                 __builtin_add_overflow(*d, pads[2 * i + 1], d))
            return err_set(args->err, ERR_LIMIT, "paddings are too large");
    }
    args->out[0] = out;
    return 0;
}

GRAD(pad_grad)
{
    struct output x = input_of(op, 0), before, begin, zero;
    struct shape flat = SHAPE(-1);
    enum dtype index = output_dtype(input_of(op, 1));

    zero = constant_i32s(g, (const int32_t[]){0, 0}, 2, "Slice/begin");
    before = ternary(g, "Slice", input_of(op, 1), zero, column_shape(g, x), NULL);
    begin = reshape(g, before, &flat, NULL);
    grad_in[0] = ternary(g, "Slice", grad_out[0], begin,
                         cast(g, shape_of(g, x, NULL), index, NULL), NULL);
    return grad_done(grad_in, 1);
}

/* How many elements begin:end:stride takes of d (NumPy's rules for negatives). */
static int64_t slice_length(int64_t d, int64_t begin, int64_t end, int64_t stride,
                            int from_start, int to_end)
{
    int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? d : d - 1;

    if (d < 0)
        return -1;
    begin += begin < 0 ? d : 0;
    end += end < 0 ? d : 0;
    begin = begin < low ? low : begin > high ? high : begin;
    end = end < low ? low : end > high ? high : end;
    if (from_start)
        begin = stride > 0 ? 0 : d - 1;
    if (to_end)
        end = stride > 0 ? d : -1;
    return (int64_t)range_length(begin, end, stride);
}

struct strided {
    int n; /* entries of the specification */
    int64_t begin[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK], stride[SHAPE_MAX_RANK];
    int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
};

/* One entry that takes from dimension `axis`; appends what is left of it. */
static int strided_entry(const struct shape_args *args, const struct shape *x,
                         const struct strided *s, int i, int axis, struct shape *out)
{
    int64_t bit = (int64_t)1 << i, d, at = s->begin[i];

    if (axis >= x->rank)
        return err_set(args->err, ERR_SHAPE, "%d indices for %s", s->n, shape_text(x));
    d = x->dim[axis];
    if (s->stride[i] == 0)
        return err_set(args->err, ERR_ARG, "strides[%d] must not be 0", i);
    if ((s->shrink_axis_mask & bit) != 0) {
        if (d >= 0 && (at < -d || at >= d))
            return err_set(args->err, ERR_SHAPE,
                           "index %lld is outside of dimension %d of %s", (long long)at,
                           axis, shape_text(x));
        return 0;
    }
    out->dim[out->rank++] =
        slice_length(d, at, s->end[i], s->stride[i], (s->begin_mask & bit) != 0,
                     (s->end_mask & bit) != 0);
    return 0;
}

/* The shape of the slice of x. */
static int strided_result(const struct shape_args *args, const struct shape *x,
                          const struct strided *s, struct shape *ret)
{
    struct shape out = {0};
    int used = 0, axis = 0, open = 1;

    for (int i = 0; i < s->n; i++)
        used += ((s->new_axis_mask | s->ellipsis_mask) >> i & 1) == 0;
    for (int i = 0; i <= s->n; i++) {
        int64_t bit = (int64_t)1 << i;
        int rest = (i == s->n && open) || (i < s->n && (s->ellipsis_mask & bit) != 0);

        if (rest && open) {
            open = 0;
            for (int k = x->rank - used; k > 0 && out.rank < SHAPE_MAX_RANK; k--)
                out.dim[out.rank++] = x->dim[axis++];
        }
        if (rest || i == s->n)
            continue;
        if (out.rank == SHAPE_MAX_RANK)
            return err_set(args->err, ERR_SHAPE, "more than %d dimensions",
                           SHAPE_MAX_RANK);
        if ((s->new_axis_mask & bit) != 0)
            out.dim[out.rank++] = 1;
        else if (strided_entry(args, x, s, i, axis++, &out) != 0)
            return ERR_SHAPE;
    }
    *ret = out;
    return 0;
}

/* Inputs first, first + 1, first + 2: begin, end, strides. Leaves *ret unknown where they
 * are. */
static int strided_shape(const struct shape_args *args, const struct shape *x, int first,
                         struct shape *ret)
{
    struct strided s = {
        .begin_mask = attr_int(args->op, "begin_mask"),
        .end_mask = attr_int(args->op, "end_mask"),
        .ellipsis_mask = attr_int(args->op, "ellipsis_mask"),
        .new_axis_mask = attr_int(args->op, "new_axis_mask"),
        .shrink_axis_mask = attr_int(args->op, "shrink_axis_mask"),
    };

    s.n = value_ints(args, first, s.begin, SHAPE_MAX_RANK);
    if (x->rank < 0 || s.n < 0 ||
        value_ints(args, first + 1, s.end, SHAPE_MAX_RANK) != s.n ||
        value_ints(args, first + 2, s.stride, SHAPE_MAX_RANK) != s.n)
        return 0;
    return strided_result(args, x, &s, ret);
}

static int strided_slice_shape(const struct shape_args *args)
{
    return strided_shape(args, &args->in[0], 1, &args->out[0]);
}

GRAD(strided_slice_grad)
{
    struct output shape;
    struct op_builder *b;

    shape =
        cast(g, shape_of(g, input_of(op, 0), NULL), output_dtype(input_of(op, 1)), NULL);
    b = begin_strided(g, "StridedSliceGrad", NULL, op);
    op_input(b, shape);
    for (int i = 1; i < 4; i++)
        op_input(b, input_of(op, i));
    op_input(b, grad_out[0]);
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

static int strided_slice_grad_shape(const struct shape_args *args)
{
    struct shape slice = SHAPE_UNKNOWN;

    if (value_sizes(args, 0, &args->out[0]) != 0 ||
        strided_shape(args, &args->out[0], 1, &slice) != 0)
        return ERR_SHAPE;
    if (shape_compatible(&slice, &args->in[4]))
        return 0;
    return err_set(args->err, ERR_SHAPE, "a gradient of shape %s for a slice of shape %s",
                   shape_text(&args->in[4]), shape_text(&slice));
}

GRAD(strided_slice_grad_grad)
{
    struct op_builder *b = begin_strided(g, "StridedSlice", "strided_slice", op);

    op_input(b, grad_out[0]);
    for (int i = 1; i < 4; i++)
        op_input(b, input_of(op, i));
    grad_in[4] = (struct output){op_finish(b), 0};
    return grad_done(grad_in + 4, 1);
}

/* ---- indices ---- */

/* params with dimension `axis` replaced by the dimensions of indices. */
static int gathered_shape(const struct shape_args *args, int64_t axis)
{
    const struct shape *x = &args->in[0], *at = &args->in[1];
    struct shape out = {0};

    if (x->rank < 0 || at->rank < 0)
        return 0;
    if (x->rank == 0 || wrap_axis(args, x->rank, &axis) != 0)
        return err_set(args->err, ERR_SHAPE, "axis %lld of %s", (long long)axis,
                       shape_text(x));
    if (x->rank + at->rank - 1 > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    for (int i = 0; i < x->rank; i++) {
        if (i != axis)
            out.dim[out.rank++] = x->dim[i];
        for (int k = 0; i == axis && k < at->rank; k++)
            out.dim[out.rank++] = at->dim[k];
    }
    args->out[0] = out;
    return 0;
}

static int gather_shape(const struct shape_args *args)
{
    return gathered_shape(args, 0);
}

static int gather_v2_shape(const struct shape_args *args)
{
    int64_t axis;

    if (value_ints(args, 2, &axis, 1) != 1)
        return 0;
    return gathered_shape(args, axis);
}

static struct output dim_value(struct graph *g, struct output x, int32_t axis)
{
    const int32_t begin[] = {axis}, end[] = {axis + 1}, one[] = {1};
    struct output shape = shape_of(g, x, NULL), from, to, by;
    struct op_builder *b;

    name_scope_enter(g, "strided_slice");
    from = constant_i32s(g, begin, 1, "stack");
    to = constant_i32s(g, end, 1, "stack_1");
    by = constant_i32s(g, one, 1, "stack_2");
    b = op_begin(g, "StridedSlice", graph_name_scope(g));
    op_input(b, shape);
    op_input(b, from);
    op_input(b, to);
    op_input(b, by);
    op_attr_int(b, "shrink_axis_mask", 1);
    name_scope_leave(g);
    return (struct output){op_finish(b), 0};
}

GRAD(gather_grad)
{
    struct output rows = dim_value(g, input_of(op, 0), 0);

    grad_in[0] =
        ternary(g, "UnsortedSegmentSum", grad_out[0], input_of(op, 1), rows, NULL);
    return grad_done(grad_in, 1);
}

static struct output permuted(struct graph *g, struct output x, const int32_t *perm,
                              int n)
{
    struct output p = constant_i32s(g, perm, (size_t)n, "transpose/perm");

    return binary(g, "Transpose", x, p, "transpose");
}

/* Along another axis: the gathered dimensions first, summed, and moved back. */
GRAD(gather_v2_grad)
{
    const struct tensor *axis_value = output_constant(input_of(op, 2));
    int rank = output_shape(input_of(op, 0)).rank;
    int at = output_shape(input_of(op, 1)).rank, n = 0;
    int32_t axis, there[SHAPE_MAX_RANK], back[SHAPE_MAX_RANK];
    struct output d;

    if (axis_value == NULL || axis_value->dtype != DT_INT32 || rank < 1 || at < 0)
        return graph_fail(g, ERR_UNSUPPORTED,
                          "%s: the gradient needs a constant axis and known ranks",
                          operation_name(op));
    axis = *(const int32_t *)axis_value->data;
    axis += axis < 0 ? rank : 0;
    if (axis == 0)
        return gather_grad(g, op, grad_out, grad_in);
    for (int i = 0; i < at; i++)
        there[n++] = axis + i;
    for (int i = 0; i < rank + at - 1; i++)
        if (i < axis || i >= axis + at)
            there[n++] = i;
    for (int i = 0; i < rank; i++)
        back[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    d = permuted(g, grad_out[0], there, n);
    d = ternary(g, "UnsortedSegmentSum", d, input_of(op, 1),
                dim_value(g, input_of(op, 0), axis), NULL);
    grad_in[0] = permuted(g, d, back, rank);
    return grad_done(grad_in, 1);
}

/* Rows of data whose id is k are summed into row k; ids may have several dimensions. */
static int segment_sum_shape(const struct shape_args *args)
{
    const struct shape *data = &args->in[0], *ids = &args->in[1];
    struct shape out = {.rank = 1};
    int64_t n = -1;

    if (want_rank(args, 2, 0) != 0)
        return ERR_SHAPE;
    if (data->rank < 0 || ids->rank < 0)
        return 0;
    for (int i = 0; i < ids->rank; i++)
        if (i >= data->rank ||
            (data->dim[i] >= 0 && ids->dim[i] >= 0 && data->dim[i] != ids->dim[i]))
            return err_set(args->err, ERR_SHAPE, "data %s does not begin with ids %s",
                           shape_text(data), shape_text(ids));
    if (value_ints(args, 2, &n, 1) == 1 && n < 0)
        return err_set(args->err, ERR_SHAPE, "%lld segments", (long long)n);
    out.dim[0] = n;
    for (int i = ids->rank; i < data->rank; i++)
        out.dim[out.rank++] = data->dim[i];
    args->out[0] = out;
    return 0;
}

/* Each row gets the gradient of the sum it went to; rows with a negative id nothing. */
GRAD(segment_sum_grad)
{
    struct output ids = input_of(op, 1), rows, there, shape;
    int extra = output_shape(input_of(op, 0)).rank - output_shape(ids).rank;
    enum dtype dtype = output_dtype(grad_out[0]);

    if (output_shape(input_of(op, 0)).rank < 0 || output_shape(ids).rank < 0)
        return graph_fail(g, ERR_UNSUPPORTED, "%s: the gradient needs known ranks",
                          operation_name(op));
    rows = binary(g, "Maximum", ids, zeros_like(g, ids, NULL), NULL);
    rows = binary(g, "Gather", grad_out[0], rows, NULL);
    there =
        cast(g, with_scalar(g, "GreaterEqual", ids, 0.0, "GreaterEqual"), dtype, NULL);
    if (extra > 0) {
        struct output sizes[2];

        sizes[0] = shape_of(g, ids, NULL);
        sizes[1] = ones(g, DT_INT32, &(struct shape){1, {extra}}, NULL);
        shape = concat(g, sizes, 2, 0, NULL);
        there = binary(g, "Reshape", there, shape, NULL);
    }
    grad_in[0] = binary(g, "Mul", rows, there, "mul");
    return grad_done(grad_in, 1);
}

static int one_hot_shape(const struct shape_args *args)
{
    int64_t axis = attr_int(args->op, "axis"), depth = -1;
    struct shape out = args->in[0];

    for (int i = 1; i < 4; i++)
        if (want_rank(args, i, 0) != 0)
            return ERR_SHAPE;
    if (out.rank < 0)
        return 0;
    if (out.rank == SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    if (value_ints(args, 1, &depth, 1) == 1 && depth < 0)
        return err_set(args->err, ERR_SHAPE, "a depth of %lld", (long long)depth);
    if (wrap_axis(args, ++out.rank, &axis) != 0)
        return ERR_SHAPE;
    for (int i = out.rank - 1; i > axis; i--)
        out.dim[i] = out.dim[i - 1];
    out.dim[axis] = depth;
    args->out[0] = out;
    return 0;
}

/* (number of true elements, rank); how many is known only when it runs */
static int where_shape(const struct shape_args *args)
{
    args->out[0] = SHAPE(-1, args->in[0].rank);
    return 0;
}

/* ---- the rows ---- */

#define STRIDED_MASKS                                                                    \
    "begin_mask:int=0, end_mask:int=0, ellipsis_mask:int=0, new_axis_mask:int=0, "       \
    "shrink_axis_mask:int=0"

static const struct op_def rows[] = {
    {"ConcatV2", 0, concat_shape, concat_grad,
     "values:N*T, axis:Tidx -> output:T; N:int, T:type, Tidx:index_type=int32"},
    {"Concat", 0, old_concat_shape, old_concat_grad,
     "concat_dim:int32, values:N*T -> output:T; N:int, T:type"},
    {"Pack", 0, pack_shape, pack_grad,
     "values:N*T -> output:T; N:int, T:type, axis:int=0"},
    {"Unpack", 0, unpack_shape, unpack_grad,
     "value:T -> output:num*T; num:int, T:type, axis:int=0"},
    {"Split", 0, split_shape, split_grad,
     "split_dim:int32, value:T -> output:num_split*T; num_split:int, T:type"},
    {"SplitV", 0, split_v_shape, split_v_grad,
     "value:T, size_splits:Tlen, split_dim:int32 -> output:num_split*T; num_split:int, "
     "T:type, Tlen:index_type=int64"},
    {"Slice", 0, slice_shape, slice_grad,
     "input:T, begin:Index, size:Index -> output:T; T:type, Index:index_type"},
    {"Pad", 0, pad_shape, pad_grad,
     "input:T, paddings:Tpaddings -> output:T; T:type, Tpaddings:index_type=int32"},
    {"StridedSlice", 0, strided_slice_shape, strided_slice_grad,
     "input:T, begin:Index, end:Index, strides:Index -> output:T; T:type, "
     "Index:index_type, " STRIDED_MASKS},
    {"StridedSliceGrad", 0, strided_slice_grad_shape, strided_slice_grad_grad,
     "shape:Index, begin:Index, end:Index, strides:Index, dy:T -> output:T; T:type, "
     "Index:index_type, " STRIDED_MASKS},
    {"Gather", 0, gather_shape, gather_grad,
     "params:Tparams, indices:Tindices -> output:Tparams; validate_indices:bool=true, "
     "Tparams:type, Tindices:index_type"},
    {"GatherV2", 0, gather_v2_shape, gather_v2_grad,
     "params:Tparams, indices:Tindices, axis:Taxis -> output:Tparams; Tparams:type, "
     "Tindices:index_type, Taxis:index_type"},
    {"UnsortedSegmentSum", 0, segment_sum_shape, segment_sum_grad,
     "data:T, segment_ids:Tindices, num_segments:Tnumsegments -> output:T; "
     "T:number_type, "
     "Tindices:index_type, Tnumsegments:index_type=int32"},
    {"OneHot", OP_NO_GRADIENT, one_hot_shape, NULL,
     "indices:TI, depth:int32, on_value:T, off_value:T -> output:T; axis:int=-1, T:type, "
     "TI:type=int64"},
    {"Where", OP_NO_GRADIENT, where_shape, NULL, "input:T -> index:int64; T:type=bool"},
};

const struct op_family ops_of_pieces = OP_FAMILY(rows);
