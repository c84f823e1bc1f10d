/* join.c - joining tensors and splitting them.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/mem/arena.h"

#include <string.h>

/* ---- kernels ---- */

/* Copies one part of `whole`, which starts at `begin` along `axis`, to `part` (into_part)
 * or from it. row_bytes: distance between the rows of a part that is a matrix; 0 if it is
 * dense. */
static void move_part(struct tensor *whole, struct tensor *part, size_t row_bytes,
                      int axis, int64_t begin, int into_part)
{
    size_t elem = elem_size(whole);
    struct copy_plan c = {.rank = part->shape.rank};
    int64_t strides[SHAPE_MAX_RANK], part_strides[SHAPE_MAX_RANK];

    dense_strides(&whole->shape, elem, strides);
    dense_strides(&part->shape, elem, part_strides);
    if (row_bytes > 0)
        part_strides[0] = (int64_t)row_bytes;
    memcpy(c.dim, part->shape.dim, sizeof(c.dim));
    memcpy(c.src_stride, into_part ? strides : part_strides, sizeof(strides));
    memcpy(c.dst_stride, into_part ? part_strides : strides, sizeof(strides));
    char *at = (char *)whole->data + begin * strides[axis];
    copy_strided(into_part ? part->data : at, into_part ? at : part->data, &c, elem);
}

int kern_concat(const struct kernel_args *a)
{
    /* the axis is the first input of Concat, and the last of ConcatV2 */
    int old = operation_is(a->op, "Concat");
    int64_t at = tensor_int(a->in[old ? 0 : a->n_in - 1], 0), begin = 0;
    int axis = positive_axis(at, a->out[0]->shape.rank);

    for (int i = 0; i < a->n_in - 1; i++) {
        struct tensor *part = a->in[i + old];

        move_part(a->out[0], part, row_stride_bytes(a, i + old), axis, begin, 0);
        begin += part->shape.dim[axis];
    }
    return 0;
}

static int kern_split(const struct kernel_args *a)
{
    int sized = operation_is(a->op, "SplitV");
    struct tensor *whole = a->in[sized ? 0 : 1];
    int axis = positive_axis(tensor_int(a->in[sized ? 2 : 0], 0), whole->shape.rank);
    int64_t begin = 0;

    for (int i = 0; i < a->n_out; i++) {
        move_part(whole, a->out[i], 0, axis, begin, 1);
        begin += a->out[i]->shape.dim[axis];
    }
    return 0;
}

/* For Pack and Unpack: a view of the part with one more axis, which has one element. */
static struct tensor with_axis(const struct tensor *t, int axis)
{
    struct tensor v = *t;

    shape_insert(&v.shape, axis, 1);
    return v;
}

static int kern_pack(const struct kernel_args *a)
{
    int axis = positive_axis(attr_int(a->op, "axis"), a->out[0]->shape.rank);
    const size_t elem = elem_size(a->out[0]);

    for (int i = 0; i < a->n_in; i++) {
        struct tensor part = with_axis(a->in[i], axis);

        if (part.shape.rank == 1) { /* the parts are scalars */
            memcpy((char *)a->out[0]->data + (size_t)i * elem, part.data, elem);
            continue;
        }
        move_part(a->out[0], &part, 0, axis, i, 0);
    }
    return 0;
}

static int kern_unpack(const struct kernel_args *a)
{
    int axis = positive_axis(attr_int(a->op, "axis"), a->in[0]->shape.rank);

    for (int i = 0; i < a->n_out; i++) {
        struct tensor part = with_axis(a->out[i], axis);

        move_part(a->in[0], &part, 0, axis, i, 1);
    }
    return 0;
}

/* ---- shapes and gradients ---- */

/* Joins inputs first .. first + n - 1 along the axis that is input `at`. */
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
    if (out.rank == 0)
        return err_set(args->err, ERR_SHAPE, "scalars cannot be joined");
    if (value_ints(args, at, &axis, 1) != 1) {
        args->out[0] = shape_of_rank(out.rank);
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

/* The op of TensorFlow 0.12, whose input 0 is the axis. */
static int old_concat_shape(const struct shape_args *args)
{
    return joined_shape(args, 1, 0);
}

/* The shapes of all values: Consts if all are known, otherwise one ShapeN. (TensorFlow
 * also leaves the unused Consts built before the first unknown one.) */
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

static int split_among(struct graph *g, struct operation *op, int first, int at,
                       const struct output *grad_out, struct output *grad_in)
{
    int n = operation_n_inputs(op) - 1;
    struct output *sizes = ARENA_ARRAY(graph_arena(g), struct output, n), axis;
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
    const int64_t axis = attr_int(args->op, "axis");

    for (int i = 1; i < args->n_in; i++)
        if (shape_merge(&out, &args->in[i], &out) != 0)
            return err_set(args->err, ERR_SHAPE, "shapes %s and %s differ",
                           shape_text(&args->in[0]), shape_text(&args->in[i]));
    return insert_axis(args, &out, &axis, args->n_in);
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
    shape_remove(&out, (int)axis);
    for (int i = 0; i < operation_n_outputs(args->op); i++)
        args->out[i] = out;
    return 0;
}

/* The gradient of an output that nothing depends on is zero. */
static struct output grad_or_zeros(struct graph *g, struct operation *op, int i,
                                   const struct output *grad_out)
{
    return output_valid(grad_out[i]) ? grad_out[i]
                                     : zeros_like(g, output_of(op, i), NULL);
}

GRAD(unpack_grad)
{
    int n = operation_n_outputs(op);
    struct output *all = ARENA_ARRAY(graph_arena(g), struct output, n);
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

    if (out.rank < 0 || n == 0)
        return 0;
    if (out.rank == 0)
        return err_set(args->err, ERR_SHAPE, "a scalar cannot be split");
    if (value_ints(args, 0, &axis, 1) != 1) {
        out = shape_of_rank(out.rank);
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

/* Fills in the only size that may be -1: the rest of d (-1 if d is unknown). */
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

    if (x->rank < 0)
        return 0;
    if (x->rank == 0)
        return err_set(args->err, ERR_SHAPE, "a scalar cannot be split");
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
    struct output *all = ARENA_ARRAY(graph_arena(g), struct output, n);
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

GRAD_ONE(split_v_grad, join_pieces(g, op, input_of(op, 2), grad_out))

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"ConcatV2", OP_ROWS_APART, concat_shape, concat_grad, CALL(kern_concat),
     "values:N*T, axis:Tidx -> output:T; N:int, T:type, Tidx:index_type=int32"},
    {"Concat", OP_ROWS_APART, old_concat_shape, old_concat_grad, CALL(kern_concat),
     "concat_dim:int32, values:N*T -> output:T; N:int, T:type"},
    {"Pack", 0, pack_shape, pack_grad, CALL(kern_pack),
     "values:N*T -> output:T; N:int, T:type, axis:int=0"},
    {"Unpack", 0, unpack_shape, unpack_grad, CALL(kern_unpack),
     "value:T -> output:num*T; num:int, T:type, axis:int=0"},
    {"Split", 0, split_shape, split_grad, CALL(kern_split),
     "split_dim:int32, value:T -> output:num_split*T; num_split:int, T:type",
     .ranks = "0"},
    {"SplitV", 0, split_v_shape, split_v_grad, CALL(kern_split),
     "value:T, size_splits:Tlen, split_dim:int32 -> output:num_split*T; num_split:int, "
     "T:type, Tlen:index_type=int64",
     .ranks = "?10"},
};

const struct op_family ops_of_join = OP_FAMILY(rows);
