/* scatter.c - ops that write, add and so on values at places that indices name: in variables, in
 * copies of tensors, in zeros.
 *
 * The values of one place are applied in their order. No place changes if an index is out of
 * range. Gradients after TensorFlow 2's python/ops/array_grad.py. */
#include "agent/kernels/loops.h"
#include "agent/ops/index.h"
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- kernels ---- */

/* Values for pieces of y; all pieces have `width` elements. */
struct scatter {
    const struct kernel_args *a;
    const struct tensor *y, *indices, *updates;
    int k; /* indices of a piece: see index.h */
    int64_t n, width;
    loop_fn combine; /* NULL: copies the value */
};

/* Combines n elements with values, or replaces them. */
static void scatter_put(const struct scatter *s, char *to, const char *from, int64_t n)
{
    if (s->combine != NULL)
        s->combine(to, to, from, NULL, (size_t)n, 0);
    else
        memmove(to, from, (size_t)n * elem_size(s->y));
}

/* Changes piece i, or only checks its index. */
static int put_piece(const struct scatter *s, int64_t i, int only_checks)
{
    const int64_t at = piece_at(s->a, s->indices, s->k, i, &s->y->shape);
    const size_t elem = elem_size(s->y);
    struct tensor piece;

    if (at < 0)
        return ERR_ARG;
    if (only_checks || s->width == 0)
        return 0;
    piece = tensor_view(s->y->dtype, SHAPE(s->width),
                        (char *)s->y->data + (size_t)(at * s->width) * elem);
    if (s->updates->shape.rank > 0)
        scatter_put(s, piece.data,
                    (const char *)s->updates->data + (size_t)(i * s->width) * elem,
                    s->width);
    else /* one value for all elements */
        for (int64_t j = 0; j < s->width; j++)
            scatter_put(s, (char *)piece.data + (size_t)j * elem, s->updates->data, 1);
    if (s->y == s->a->in[0]) /* a variable */
        tensor_canonical_nans(&piece);
    return 0;
}

/* type: of a loop (loops.h); NULL: the values replace what is there. */
static int scatter(struct scatter *s, const char *type)
{
    const struct loop_row *row = type != NULL ? kern_loop_find(type, s->y->dtype) : NULL;

    if (type != NULL && row == NULL)
        return err_set(s->a->err, ERR_UNSUPPORTED, "%s: no %s of %s",
                       operation_name(s->a->op), operation_type(s->a->op),
                       dtype_name(s->y->dtype));
    s->combine = row != NULL ? row->fn : NULL;
    s->width = span(&s->y->shape, s->k, s->y->shape.rank);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < s->n; i++)
            if (put_piece(s, i, pass == 0) != 0)
                return ERR_ARG;
    return 0;
}

/* in: y, indices, updates; each index names a row of y. */
static int scatter_rows(const struct kernel_args *a, const char *type)
{
    struct scatter s = {
        .a = a, .y = a->in[0], .indices = a->in[1], .updates = a->in[2], .k = 1};

    s.n = tensor_elements(s.indices);
    return scatter(&s, type);
}

static int scatter_pieces(const struct kernel_args *a, const struct tensor *y,
                          const struct tensor *indices, const struct tensor *updates,
                          const char *type)
{
    const int last = indices->shape.rank - 1;
    struct scatter s = {.a = a,
                        .y = y,
                        .indices = indices,
                        .updates = updates,
                        .k = (int)indices->shape.dim[last],
                        .n = span(&indices->shape, 0, last)};

    return scatter(&s, type);
}

/* in: indices, updates, shape */
static int kern_scatter_nd(const struct kernel_args *a)
{
    clear(a->out[0]);
    return scatter_pieces(a, a->out[0], a->in[0], a->in[1], "Add");
}

/* in: x, indices, updates; the result is a changed copy of x */
static int scatter_copy(const struct kernel_args *a, const char *type)
{
    if (tensor_bytes(a->out[0]) > 0)
        memcpy(a->out[0]->data, a->in[0]->data,
               (size_t)tensor_elements(a->in[0]) * elem_size(a->in[0]));
    return scatter_pieces(a, a->out[0], a->in[1], a->in[2], type);
}

#define KERNELS(name, type)                                                              \
    static int rows_##name(const struct kernel_args *a)                                  \
    {                                                                                    \
        return scatter_rows(a, type);                                                    \
    }                                                                                    \
    PIECES(name, type)
#define PIECES(name, type)                                                               \
    static int pieces_##name(const struct kernel_args *a)                                \
    {                                                                                    \
        return scatter_pieces(a, a->in[0], a->in[1], a->in[2], type);                    \
    }                                                                                    \
    static int copy_##name(const struct kernel_args *a)                                  \
    {                                                                                    \
        return scatter_copy(a, type);                                                    \
    }
KERNELS(update, NULL)
KERNELS(add, "Add")
KERNELS(sub, "Sub")
KERNELS(min, "Minimum")
KERNELS(max, "Maximum")

static int rows_mul(const struct kernel_args *a)
{
    return scatter_rows(a, "Mul");
}

static int rows_div(const struct kernel_args *a)
{
    return scatter_rows(a, "Div");
}

/* ---- shapes ---- */

static int fits(const struct shape_args *args, const struct shape *updates,
                const struct shape *want)
{
    if (shape_compatible(updates, want))
        return 0;
    return err_set(args->err, ERR_SHAPE, "updates %s, expected %s", shape_text(updates),
                   shape_text(want));
}

/* Handles are called `resource` in one family of ops and `ref` in the other; the attribute of
 * their type is `dtype` or `T`. */
static int written_shape(const struct shape_args *args, struct shape *ret)
{
    const char *type = operation_attr(args->op, "T") != NULL ? "T" : "dtype";

    if (variable_shape(args, 0, type, ret) != 0)
        return ERR_DTYPE;
    if (operation_n_outputs(args->op) > 0)
        args->out[0] = *ret;
    return 0;
}

/* updates: a scalar, or a row for each index */
static int rows_shape(const struct shape_args *args)
{
    const struct shape *indices = &args->in[1], *updates = &args->in[2];
    struct shape x, each = *indices, want;
    const int rc = written_shape(args, &x);

    if (rc != 0)
        return rc;
    if (x.rank == 0)
        return err_set(args->err, ERR_SHAPE, "the variable is a scalar, without rows");
    if (updates->rank == 0 || each.rank < 0)
        return 0;
    if (each.rank == SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    each.dim[each.rank++] = 1;
    if (indexed_shape(args, &each, &x, &want) != 0)
        return ERR_SHAPE;
    return fits(args, updates, &want);
}

static int pieces_shape(const struct shape_args *args)
{
    struct shape x, want;
    const int rc = written_shape(args, &x);

    if (rc != 0)
        return rc;
    if (indexed_shape(args, &args->in[1], &x, &want) != 0)
        return ERR_SHAPE;
    return fits(args, &args->in[2], &want);
}

static int scatter_nd_shape(const struct shape_args *args)
{
    struct shape want;

    if (value_sizes(args, 2, &args->out[0]) != 0 ||
        indexed_shape(args, &args->in[0], &args->out[0], &want) != 0)
        return ERR_SHAPE;
    return fits(args, &args->in[1], &want);
}

/* ---- gradients ---- */

GRAD(scatter_nd_grad)
{
    grad_in[1] = binary(g, "GatherNd", grad_out[0], input_of(op, 0), NULL);
    return grad_done(grad_in + 1, 1);
}

/* Elements that were replaced get no gradient. */
GRAD(copy_update_grad)
{
    grad_in[0] = ternary(g, "TensorScatterUpdate", grad_out[0], input_of(op, 1),
                         zeros_like(g, input_of(op, 2), NULL), NULL);
    grad_in[2] = binary(g, "GatherNd", grad_out[0], input_of(op, 1), NULL);
    return output_valid(grad_in[0]) ? grad_done(grad_in + 2, 1) : -1;
}

GRAD(copy_add_grad)
{
    grad_in[0] = unary(g, "Identity", grad_out[0], NULL);
    grad_in[2] = binary(g, "GatherNd", grad_out[0], input_of(op, 1), NULL);
    return output_valid(grad_in[0]) ? grad_done(grad_in + 2, 1) : -1;
}

GRAD(copy_sub_grad)
{
    if (copy_add_grad(g, op, grad_out, grad_in) != 0)
        return -1;
    grad_in[2] = unary(g, "Neg", grad_in[2], NULL);
    return grad_done(grad_in + 2, 1);
}

/* The values that are equal to the result share its gradient. */
GRAD(copy_extreme_grad)
{
    struct output x = input_of(op, 0), indices = input_of(op, 1), y = input_of(op, 2);
    struct output result = output_of(op, 0), is_x, is_y, there, count;
    const enum dtype dtype = output_dtype(grad_out[0]);

    is_x = cast(g, binary(g, "Equal", x, result, NULL), dtype, NULL);
    there = binary(g, "GatherNd", result, indices, NULL);
    is_y = cast(g, binary(g, "Equal", y, there, NULL), dtype, NULL);
    count = ternary(g, "ScatterNd", indices, is_y, shape_as(g, x, indices), "ScatterNd");
    count = binary(g, "Add", is_x, count, "add");
    grad_in[0] = binary(g, "RealDiv", binary(g, "Mul", grad_out[0], is_x, "mul"), count,
                        "truediv");
    grad_in[2] =
        binary(g, "Mul",
               binary(g, "GatherNd", binary(g, "RealDiv", grad_out[0], count, "truediv"),
                      indices, NULL),
               is_y, "mul");
    return output_valid(grad_in[0]) ? grad_done(grad_in + 2, 1) : -1;
}

/* ---- the rows ---- */

#define WRITES_PARTS OP_STATEFUL | OP_WRITES | OP_WRITES_PARTS | OP_NO_GRADIENT

/* Rows of a variable given by reference, or by a handle. TensorFlow's locking, which no run
 * here needs, is on by default only where values are replaced. */
#define ROWS(name, kernel, type, locking)                                                \
    {"Scatter" name,                                                                     \
     WRITES_PARTS,                                                                       \
     rows_shape,                                                                         \
     NULL,                                                                               \
     CALL(kernel),                                                                       \
     "ref:&T, indices:Tindices, updates:T -> output_ref:&T; T:" type                     \
     ", Tindices:index_type, use_locking:bool=" locking},                                \
    {                                                                                    \
        "ResourceScatter" name, WRITES_PARTS, rows_shape, NULL, CALL(kernel),            \
            "resource:resource, indices:Tindices, updates:dtype ->; dtype:" type         \
            ", Tindices:index_type"                                                      \
    }
#define PIECES_OF_VARIABLE(name, kernel, type, locking)                                  \
    {"ScatterNd" name,                                                                   \
     WRITES_PARTS,                                                                       \
     pieces_shape,                                                                       \
     NULL,                                                                               \
     CALL(kernel),                                                                       \
     "ref:&T, indices:Tindices, updates:T -> output_ref:&T; T:" type                     \
     ", Tindices:index_type, use_locking:bool=" locking},                                \
    {                                                                                    \
        "ResourceScatterNd" name, WRITES_PARTS, pieces_shape, NULL, CALL(kernel),        \
            "ref:resource, indices:Tindices, updates:T ->; T:" type                      \
            ", Tindices:index_type, use_locking:bool=true"                               \
    }
#define PIECES_OF_COPY(name, kernel, gradient, input, type)                              \
    {                                                                                    \
        name, 0, pieces_shape, gradient, CALL(kernel),                                   \
            input ":T, indices:Tindices, updates:T -> output:T; T:" type                 \
                  ", Tindices:index_type"                                                \
    }

static const struct op_def rows[] = {
    ROWS("Update", rows_update, "type", "true"),
    ROWS("Add", rows_add, "number_type", "false"),
    ROWS("Sub", rows_sub, "number_type", "false"),
    ROWS("Mul", rows_mul, "number_type", "false"),
    ROWS("Div", rows_div, "number_type", "false"),
    ROWS("Min", rows_min, "number_type", "false"),
    ROWS("Max", rows_max, "number_type", "false"),
    PIECES_OF_VARIABLE("Update", pieces_update, "type", "true"),
    PIECES_OF_VARIABLE("Add", pieces_add, "number_type", "false"),
    PIECES_OF_VARIABLE("Sub", pieces_sub, "number_type", "false"),
    PIECES_OF_VARIABLE("Min", pieces_min, "number_type", "false"),
    PIECES_OF_VARIABLE("Max", pieces_max, "number_type", "false"),
    {"ScatterNd", 0, scatter_nd_shape, scatter_nd_grad, CALL(kern_scatter_nd),
     "indices:Tindices, updates:T, shape:Tindices -> output:T; T:number_type, "
     "Tindices:index_type"},
    PIECES_OF_COPY("ScatterNdNonAliasingAdd", copy_add, copy_add_grad, "input",
                   "number_type"),
    PIECES_OF_COPY("TensorScatterUpdate", copy_update, copy_update_grad, "tensor",
                   "type"),
    PIECES_OF_COPY("TensorScatterAdd", copy_add, copy_add_grad, "tensor", "number_type"),
    PIECES_OF_COPY("TensorScatterSub", copy_sub, copy_sub_grad, "tensor", "number_type"),
    PIECES_OF_COPY("TensorScatterMin", copy_min, copy_extreme_grad, "tensor",
                   "number_type"),
    PIECES_OF_COPY("TensorScatterMax", copy_max, copy_extreme_grad, "tensor",
                   "number_type"),
};

const struct op_family ops_of_scatter = OP_FAMILY(rows);
