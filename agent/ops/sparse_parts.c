/* sparse_parts.c - sparse tensors whose elements only move: reshaped, put in order, filled,
 * concatenated, sliced.
 *
 * Gradients after TensorFlow 1.13's python/ops/sparse_grad.py. */
#include "agent/ops/sparse.h"

#include <stdlib.h>
#include <string.h>

/* ---- the same elements: reshaped, in order ---- */

static int reshape_shape(const struct shape_args *args)
{
    int64_t n, rank;

    if (sparse_sizes(args, 0, -1, 1, &n, &rank) != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(n, dim_of(&args->in[2], 0));
    args->out[1] = SHAPE(dim_of(&args->in[2], 0));
    return 0;
}

/* Reads the new shape, of which one dimension may be -1. */
static int read_new_shape(const struct kernel_args *a, const struct shape *from,
                          struct shape *ret)
{
    const int64_t n = shape_elements(from);
    int64_t others = 1;
    int unknown = -1;

    *ret = SHAPE_SCALAR;
    if (tensor_elements(a->in[2]) > SHAPE_MAX_RANK)
        return err_set(a->err, ERR_LIMIT, "%s: %lld dimensions", operation_name(a->op),
                       (long long)tensor_elements(a->in[2]));
    for (; ret->rank < tensor_elements(a->in[2]); ret->rank++) {
        const int64_t size = ret->dim[ret->rank] = tensor_int(a->in[2], ret->rank);

        if (size == -1 && unknown < 0)
            unknown = ret->rank;
        else if (size < 0 || __builtin_mul_overflow(others, size, &others))
            return err_set(a->err, ERR_ARG, "%s: dimension %d of the new shape is %lld",
                           operation_name(a->op), ret->rank, (long long)size);
    }
    if (unknown >= 0 && others > 0)
        ret->dim[unknown] = n / others;
    if (unknown >= 0 ? others == 0 || n % others != 0 : n != others)
        return err_set(a->err, ERR_ARG,
                       "%s: Input to reshape is a tensor with %lld dense values, but the "
                       "requested shape has %s%lld",
                       operation_name(a->op), (long long)n,
                       unknown >= 0 ? "a multiple of " : "", (long long)others);
    return 0;
}

static int kern_reshape(const struct kernel_args *a)
{
    struct sparse x;
    struct shape to;
    int rc = sparse_read(a, 0, -1, 1, &x);

    if (rc == 0)
        rc = read_new_shape(a, &x.dense, &to);
    if (rc != 0)
        return rc;
    for (int d = 0; d < to.rank; d++)
        tensor_set_int(a->out[1], d, to.dim[d]);
    for (int64_t i = 0; i < x.n; i++) {
        int64_t at = sparse_place(&x, i);

        for (int d = to.rank - 1; d >= 0; d--) {
            tensor_set_int(a->out[0], i * to.rank + d, at % to.dim[d]);
            at /= to.dim[d];
        }
    }
    return 0;
}

static int reorder_shape(const struct shape_args *args)
{
    int64_t n, rank;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    args->out[0] = SHAPE(n, rank);
    args->out[1] = SHAPE(n);
    return 0;
}

static int kern_reorder(const struct kernel_args *a)
{
    struct placed *elements;
    struct sparse x;
    int rc = sparse_read(a, 0, 1, 2, &x);

    if (rc != 0)
        return rc;
    elements = placed_in_order(a, &x);
    if (elements == NULL)
        return ERR_NOMEM;
    for (int64_t i = 0; i < x.n; i++)
        placed_put(&elements[i], a->out[0], a->out[1], i);
    free(elements);
    return 0;
}

/* The numbers of the elements, put in the same order, say where each came from. */
GRAD(reorder_grad)
{
    struct output indices = input_of(op, 0), n, places;

    if (!output_valid(grad_out[1]))
        return 0;
    n = vector_slice(g, shape_of(g, indices, NULL), 0, 1, "shrink_axis_mask");
    places = ternary(g, "SparseReorder", indices, range_to(g, n), input_of(op, 2), NULL);
    places.index = 1;
    places = unary(g, "InvertPermutation", places, NULL);
    grad_in[1] = gather_rows(g, grad_out[1], places);
    return grad_done(grad_in + 1, 1);
}

/* ---- rows without elements ---- */

/* The number of elements of each row, [rows]. ERR_ARG, ERR_NOMEM. free(). */
static int count_rows(const struct tensor *indices, int64_t rows, int64_t **ret,
                      struct err *err)
{
    const int64_t rank = indices->shape.dim[1];
    int64_t *counts = calloc((size_t)rows + 1, sizeof(*counts));

    *ret = counts;
    if (counts == NULL)
        return err_set(err, ERR_NOMEM, "no memory for %lld rows", (long long)rows);
    for (int64_t i = 0; i < indices->shape.dim[0]; i++) {
        const int64_t row = tensor_int(indices, i * rank);

        if (row < 0 || row >= rows)
            return err_set(err, ERR_ARG, "indices(%lld, 0) is invalid: %lld >= %lld",
                           (long long)i, (long long)row, (long long)rows);
        counts[row]++;
    }
    return 0;
}

static int fill_shape(const struct shape_args *args)
{
    const int knows =
        args->is_planning && args->value[0] != NULL && args->value[2] != NULL;
    int64_t n, rank, rows = -1, all = -1, *counts = NULL;
    int rc = 0;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    if (rank == 0)
        return err_set(args->err, ERR_SHAPE, "a sparse tensor without rows");
    if (args->value[2] != NULL && tensor_elements(args->value[2]) > 0)
        rows = tensor_int(args->value[2], 0);
    if (rows < -1 || (rows == -1 && args->value[2] != NULL) || rows == INT64_MAX)
        return err_set(args->err, ERR_ARG, "%lld rows", (long long)rows);
    if (knows) {
        rc = count_rows(args->value[0], rows, &counts, args->err);
        all = n;
        for (int64_t i = 0; rc == 0 && i < rows; i++)
            all += counts[i] == 0;
        free(counts);
    }
    args->out[0] = SHAPE(all, rank);
    args->out[1] = SHAPE(all);
    args->out[2] = SHAPE(rows);
    args->out[3] = SHAPE(n);
    return rc;
}

/* in: a sparse tensor, default_value; out: its indices and values with an element in each row,
 * the first one of an empty row; which rows were empty; where each element went */
static int kern_fill_empty_rows(const struct kernel_args *a)
{
    const int64_t rows = a->out[2]->shape.dim[0];
    int64_t *next = NULL, to = 0; /* next: of each row, the place of its next element */
    struct sparse x;
    int rc = sparse_read(a, 0, 1, 2, &x);

    if (rc == 0)
        rc = count_rows(x.indices, rows, &next, a->err);
    for (int64_t row = 0; rc == 0 && row < rows; row++) {
        const int64_t count = next[row];

        ((uint8_t *)a->out[2]->data)[row] = count == 0;
        next[row] = to;
        if (count == 0) {
            const int64_t index[SHAPE_MAX_RANK] = {row};

            placed_put(&(struct placed){index, a->in[3]->data, 0, x.dense.rank},
                       a->out[0], a->out[1], to);
        }
        to += count > 0 ? count : 1;
    }
    for (int64_t i = 0; rc == 0 && i < x.n; i++) {
        const int64_t place = next[sparse_index(&x, i, 0)]++;
        const struct placed e = placed_at(&x, i);

        placed_put(&e, a->out[0], a->out[1], place);
        tensor_set_int(a->out[3], i, place);
    }
    free(next);
    return rc;
}

static int fill_grad_shape(const struct shape_args *args)
{
    args->out[0] = SHAPE(dim_of(&args->in[0], 0));
    args->out[1] = SHAPE_SCALAR;
    return 0;
}

/* in: reverse_index_map, grad_values; out: the gradients of the values that were there, and the
 * sum of the others */
static int kern_fill_grad(const struct kernel_args *a)
{
    const struct tensor *map = a->in[0], *grad = a->in[1];
    const int64_t n = tensor_elements(map), all = tensor_elements(grad);
    unsigned char *is_there;
    int rc = want_number(a);

    if (rc != 0)
        return rc;
    is_there = calloc((size_t)all + 1, 1);
    if (is_there == NULL)
        return err_set(a->err, ERR_NOMEM, "%s: no memory for %lld elements",
                       operation_name(a->op), (long long)all);
    clear(a->out[0]);
    clear(a->out[1]);
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        const int64_t from = tensor_int(map, i);

        if (from < 0 || from >= all) {
            rc = err_set(a->err, ERR_ARG,
                         "%s: Elements in reverse index must be in [0, %lld) but got "
                         "%lld",
                         operation_name(a->op), (long long)all, (long long)from);
            break;
        }
        sparse_add(a->out[0], i, grad, from);
        is_there[from] = 1;
    }
    for (int64_t i = 0; rc == 0 && i < all; i++)
        if (!is_there[i])
            sparse_add(a->out[1], 0, grad, i);
    free(is_there);
    return rc;
}

GRAD(fill_grad)
{
    struct output d;

    if (!output_valid(grad_out[1]))
        return 0;
    d = binary(g, "SparseFillEmptyRowsGrad", output_of(op, 3), grad_out[1], NULL);
    grad_in[1] = d;
    grad_in[3] = (struct output){d.op, 1};
    return output_valid(d) ? 0 : -1;
}

/* ---- several tensors, and parts of one ---- */

/* inputs: n indices, n values, n shapes */
static int concat_shape(const struct shape_args *args)
{
    const int n = args->n_in / 3;
    int64_t all = 0, rank = -1;

    for (int i = 0; i < n; i++) {
        int64_t elements, dims;

        if (want_rank(args, i, 2) != 0 || want_rank(args, n + i, 1) != 0 ||
            want_rank(args, 2 * n + i, 1) != 0 ||
            sparse_sizes(args, i, n + i, 2 * n + i, &elements, &dims) != 0)
            return ERR_SHAPE;
        if (rank >= 0 && dims >= 0 && dims != rank)
            return err_set(args->err, ERR_SHAPE,
                           "sparse tensors of %lld and %lld dimensions", (long long)rank,
                           (long long)dims);
        rank = rank < 0 ? dims : rank;
        all = all < 0 || elements < 0 ? -1 : all + elements;
    }
    args->out[0] = SHAPE(all, rank);
    args->out[1] = SHAPE(all);
    args->out[2] = SHAPE(rank);
    return 0;
}

/* Checks that x fits to `whole` but along the axis, where its size is added. */
static int add_part(const struct kernel_args *a, struct shape *whole,
                    const struct shape *x, int axis)
{
    for (int d = 0; d < x->rank; d++)
        if (d != axis && x->dim[d] != whole->dim[d])
            return err_set(a->err, ERR_ARG,
                           "%s: Concat dimensions must match: expected %lld but got %lld "
                           "for dimension %d",
                           operation_name(a->op), (long long)whole->dim[d],
                           (long long)x->dim[d], d);
    if (__builtin_add_overflow(whole->dim[axis], x->dim[axis], &whole->dim[axis]))
        return err_set(a->err, ERR_LIMIT, "%s: a dimension above 2^63",
                       operation_name(a->op));
    return 0;
}

static int kern_concat_sparse(const struct kernel_args *a)
{
    const int n = a->n_in / 3, rank = (int)tensor_elements(a->out[2]);
    const int64_t all = tensor_elements(a->out[1]);
    const int64_t concat_dim = attr_int(a->op, "concat_dim");
    const int axis = positive_axis(concat_dim, rank);
    int64_t *indices, to = 0; /* indices: those of all, moved */
    struct placed *elements;
    struct shape whole = {0};
    int rc = 0;

    if (axis < 0 || axis >= rank)
        return err_set(a->err, ERR_ARG,
                       "%s: Concat dimension must be in range [%d, %d), got %lld",
                       operation_name(a->op), -rank, rank, (long long)concat_dim);
    indices = calloc((size_t)(all * rank) + 1, sizeof(*indices));
    elements = placed_new(a, all);
    if (indices == NULL || elements == NULL)
        rc = err_set(a->err, ERR_NOMEM, "%s: no memory for %lld elements",
                     operation_name(a->op), (long long)all);
    for (int k = 0; rc == 0 && k < n; k++) {
        struct sparse x;

        rc = sparse_read(a, k, n + k, 2 * n + k, &x);
        if (rc == 0 && k == 0) {
            whole = x.dense;
            whole.dim[axis] = 0;
        }
        for (int64_t i = 0; rc == 0 && i < x.n; i++, to++) {
            int64_t *at = indices + to * rank;

            for (int d = 0; d < rank; d++)
                at[d] = sparse_index(&x, i, d) + (d == axis ? whole.dim[axis] : 0);
            elements[to] = (struct placed){
                at, (const char *)x.values->data + (size_t)i * elem_size(x.values), to,
                rank};
        }
        if (rc == 0)
            rc = add_part(a, &whole, &x.dense, axis);
    }
    if (rc == 0)
        placed_sort(elements, all);
    for (int64_t i = 0; rc == 0 && i < all; i++)
        placed_put(&elements[i], a->out[0], a->out[1], i);
    for (int d = 0; rc == 0 && d < rank; d++)
        tensor_set_int(a->out[2], d, whole.dim[d]);
    free(indices);
    free(elements);
    return rc;
}

/* Whether element i of the indices is in a slice. */
static int is_inside(const struct tensor *indices, int64_t i, const struct tensor *start,
                     const struct tensor *size)
{
    const int64_t rank = tensor_elements(start);

    for (int64_t d = 0; d < rank; d++) {
        const int64_t x = tensor_int(indices, i * rank + d), from = tensor_int(start, d);

        if (x < from || x - from >= tensor_int(size, d))
            return 0;
    }
    return 1;
}

static int slice_shape(const struct shape_args *args)
{
    const struct tensor *const *v = args->value;
    const int knows = args->is_planning && v[0] != NULL && v[3] != NULL && v[4] != NULL;
    int64_t n, rank, kept = knows ? 0 : -1;

    if (sparse_sizes(args, 0, 1, 2, &n, &rank) != 0)
        return ERR_SHAPE;
    for (int i = 3; i < 5; i++)
        if (rank >= 0 && dim_of(&args->in[i], 0) >= 0 && dim_of(&args->in[i], 0) != rank)
            return err_set(args->err, ERR_SHAPE, "a slice %s of %lld dimensions",
                           shape_text(&args->in[i]), (long long)rank);
    for (int i = 3; i < 5; i++)
        for (int64_t d = 0; v[i] != NULL && d < tensor_elements(v[i]); d++)
            if (tensor_int(v[i], d) < 0)
                return err_set(args->err, ERR_ARG, "a %s of %lld",
                               i == 3 ? "start" : "size", (long long)tensor_int(v[i], d));
    for (int64_t i = 0; knows && i < n; i++)
        kept += is_inside(v[0], i, v[3], v[4]);
    args->out[0] = SHAPE(kept, rank);
    args->out[1] = SHAPE(kept);
    args->out[2] = SHAPE(rank);
    return 0;
}

/* in: a sparse tensor, start, size; what lies beyond the tensor is cut off */
static int kern_slice_sparse(const struct kernel_args *a)
{
    const struct tensor *start = a->in[3], *size = a->in[4];
    const size_t bytes = elem_size(a->in[1]);
    struct sparse x;
    int64_t to = 0;
    int rc = sparse_read(a, 0, 1, 2, &x);

    if (rc != 0)
        return rc;
    for (int d = 0; d < x.dense.rank; d++) {
        const int64_t left = x.dense.dim[d] - tensor_int(start, d);
        const int64_t most = left > 0 ? left : 0, wanted = tensor_int(size, d);

        tensor_set_int(a->out[2], d, wanted < most ? wanted : most);
    }
    for (int64_t i = 0; i < x.n; i++) {
        if (!is_inside(x.indices, i, start, size))
            continue;
        for (int d = 0; d < x.dense.rank; d++)
            tensor_set_int(a->out[0], to * x.dense.rank + d,
                           sparse_index(&x, i, d) - tensor_int(start, d));
        memcpy((char *)a->out[1]->data + (size_t)to * bytes,
               (const char *)x.values->data + (size_t)i * bytes, bytes);
        to++;
    }
    return 0;
}

static int slice_grad_shape(const struct shape_args *args)
{
    const int64_t rank = dim_of(&args->in[1], 1), n = dim_of(&args->in[0], 0);

    if ((rank >= 0 && dim_of(&args->in[2], 0) >= 0 && rank != dim_of(&args->in[2], 0)) ||
        (rank >= 0 && dim_of(&args->in[3], 1) >= 0 && rank != dim_of(&args->in[3], 1)) ||
        (n >= 0 && dim_of(&args->in[3], 0) >= 0 && n != dim_of(&args->in[3], 0)))
        return err_set(args->err, ERR_SHAPE,
                       "gradients %s of a slice of indices %s, start %s, indices %s",
                       shape_text(&args->in[0]), shape_text(&args->in[1]),
                       shape_text(&args->in[2]), shape_text(&args->in[3]));
    args->out[0] = SHAPE(dim_of(&args->in[1], 0));
    return 0;
}

/* in: backprop_val_grad, input_indices, input_start, output_indices, which are some of the input
 * indices in the same order, moved */
static int kern_slice_grad(const struct kernel_args *a)
{
    const struct tensor *grad = a->in[0], *from = a->in[1], *start = a->in[2],
                        *to = a->in[3];
    const int64_t n = from->shape.dim[0], rank = from->shape.dim[1],
                  kept = tensor_elements(grad);
    int64_t k = 0;

    if (want_number(a) != 0)
        return ERR_UNSUPPORTED;
    clear(a->out[0]);
    for (int64_t i = 0; i < n && k < kept; i++) {
        int is_kept = 1;

        for (int64_t d = 0; d < rank; d++)
            is_kept &=
                (uint64_t)tensor_int(from, i * rank + d) ==
                (uint64_t)tensor_int(to, k * rank + d) + (uint64_t)tensor_int(start, d);
        if (is_kept)
            sparse_add(a->out[0], i, grad, k++);
    }
    if (k < kept)
        return err_set(a->err, ERR_ARG,
                       "%s: Elements of backprop_val_grad aren't all propagated",
                       operation_name(a->op));
    return 0;
}

GRAD(slice_grad)
{
    struct op_builder *b;

    if (!output_valid(grad_out[1]))
        return 0;
    b = op_begin(g, "SparseSliceGrad", NULL);
    op_input(b, grad_out[1]);
    op_input(b, input_of(op, 0));
    op_input(b, input_of(op, 3));
    op_input(b, output_of(op, 0));
    grad_in[1] = (struct output){op_finish(b), 0};
    return grad_done(grad_in + 1, 1);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"SparseReshape", OP_NO_GRADIENT, reshape_shape, NULL, CALL(kern_reshape),
     "input_indices:int64, input_shape:int64, new_shape:int64 -> output_indices:int64, "
     "output_shape:int64",
     .ranks = "211"},
    {"SparseReorder", 0, reorder_shape, reorder_grad, CALL(kern_reorder),
     "input_indices:int64, input_values:T, input_shape:int64 -> output_indices:int64, "
     "output_values:T; T:type",
     .ranks = "211"},
    {"SparseFillEmptyRows", 0, fill_shape, fill_grad, CALL(kern_fill_empty_rows),
     "indices:int64, values:T, dense_shape:int64, default_value:T -> "
     "output_indices:int64, output_values:T, empty_row_indicator:bool, "
     "reverse_index_map:int64; T:type",
     .ranks = "2110", .sized_by = "indices dense_shape"},
    {"SparseFillEmptyRowsGrad", OP_NO_GRADIENT, fill_grad_shape, NULL,
     CALL(kern_fill_grad),
     "reverse_index_map:int64, grad_values:T -> d_values:T, d_default_value:T; "
     "T:number_type",
     .ranks = "11"},
    {"SparseConcat", OP_NO_GRADIENT, concat_shape, NULL, CALL(kern_concat_sparse),
     "indices:N*int64, values:N*T, shapes:N*int64 -> output_indices:int64, "
     "output_values:T, output_shape:int64; concat_dim:int, N:int, T:type"},
    {"SparseSlice", 0, slice_shape, slice_grad, CALL(kern_slice_sparse),
     "indices:int64, values:T, shape:int64, start:int64, size:int64 -> "
     "output_indices:int64, output_values:T, output_shape:int64; T:type",
     .ranks = "21111", .sized_by = "indices start size"},
    {"SparseSliceGrad", OP_NO_GRADIENT, slice_grad_shape, NULL, CALL(kern_slice_grad),
     "backprop_val_grad:T, input_indices:int64, input_start:int64, "
     "output_indices:int64 -> val_grad:T; T:number_type",
     .ranks = "1212"},
};

const struct op_family ops_of_sparse_parts = OP_FAMILY(rows);
