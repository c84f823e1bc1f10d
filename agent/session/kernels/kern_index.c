/* Kernels that select or add rows by index, and kernels that compute indices. */
#include "agent/session/kernels/kern_array.h"

#include <string.h>

int kern_gather(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *indices = a->in[1];
    int axis = a->n_in > 2 ? positive_axis(tensor_int(a->in[2], 0), x->shape.rank) : 0;
    int64_t outer = span(&x->shape, 0, axis), rows = x->shape.dim[axis];
    size_t bytes = (size_t)span(&x->shape, axis + 1, x->shape.rank) * elem_size(x);
    int64_t n = tensor_elements(indices);
    char *dst = a->out[0]->data;

    for (int64_t o = 0; o < outer; o++) {
        for (int64_t i = 0; i < n; i++, dst += bytes) {
            int64_t row = tensor_int(indices, i);

            if (row < 0 || row >= rows)
                return err_set(a->err, ERR_ARG, "%s: index %lld is not in [0, %lld)",
                               operation_name(a->op), (long long)row, (long long)rows);
            memcpy(dst, (const char *)x->data + (size_t)(o * rows + row) * bytes, bytes);
        }
    }
    return 0;
}

static void add_elements(const struct tensor *y, int64_t to, const struct tensor *x,
                         int64_t from, int64_t n)
{
    for (int64_t i = 0; i < n; i++, to++, from++) {
        if (x->dtype == DT_FLOAT)
            tensor_f32(y)[to] += tensor_f32(x)[from];
        else if (x->dtype == DT_DOUBLE)
            ((double *)y->data)[to] += ((const double *)x->data)[from];
        else
            tensor_set_int(y, to, tensor_int(y, to) + tensor_int(x, from));
    }
}

/* The gradient of Gather (UnsortedSegmentSum): row r of the output is the sum of the rows
 * i of x with ids[i] = r. Rows with negative ids are ignored. */
int kern_segment_sum(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *ids = a->in[1], *y = a->out[0];
    int64_t n = tensor_elements(ids), rows = y->shape.dim[0];
    int64_t width = n > 0 ? tensor_elements(x) / n : 0;

    clear(y);
    for (int64_t i = 0; i < n; i++) {
        int64_t row = tensor_int(ids, i);

        if (row >= rows)
            return err_set(a->err, ERR_ARG, "%s: id %lld is not below %lld",
                           operation_name(a->op), (long long)row, (long long)rows);
        if (row < 0)
            continue;
        add_elements(y, row * width, x, i * width, width);
    }
    return 0;
}

/* Returns the number of the piece of x that row `row` of indices names: the row's K
 * indices are for the first K dimensions of x. -1 after an error. */
static int64_t piece_at(const struct kernel_args *a, const struct tensor *indices,
                        int64_t row, const struct shape *x)
{
    const int k = (int)indices->shape.dim[indices->shape.rank - 1];
    int64_t at = 0;

    for (int d = 0; d < k; d++) {
        const int64_t i = tensor_int(indices, row * k + d);

        if (i < 0 || i >= x->dim[d]) {
            (void)err_set(a->err, ERR_ARG,
                          "%s: index %lld of dimension %d is not in [0, %lld)",
                          operation_name(a->op), (long long)i, d, (long long)x->dim[d]);
            return -1;
        }
        at = at * x->dim[d] + i;
    }
    return at;
}

int kern_gather_nd(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *indices = a->in[1];
    const int last = indices->shape.rank - 1;
    const int64_t rows = span(&indices->shape, 0, last);
    const size_t bytes =
        (size_t)span(&x->shape, (int)indices->shape.dim[last], x->shape.rank) *
        elem_size(x);

    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = piece_at(a, indices, i, &x->shape);

        if (at < 0)
            return ERR_ARG;
        if (bytes > 0)
            memcpy((char *)a->out[0]->data + (size_t)i * bytes,
                   (const char *)x->data + (size_t)at * bytes, bytes);
    }
    return 0;
}

/* in: indices, updates, shape. Updates of the same place are added in their order. */
int kern_scatter_nd(const struct kernel_args *a)
{
    const struct tensor *indices = a->in[0], *y = a->out[0];
    const int last = indices->shape.rank - 1;
    const int64_t rows = span(&indices->shape, 0, last);
    const int64_t width = span(&y->shape, (int)indices->shape.dim[last], y->shape.rank);

    clear(y);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = piece_at(a, indices, i, &y->shape);

        if (at < 0)
            return ERR_ARG;
        add_elements(y, at * width, a->in[1], i * width, width);
    }
    return 0;
}

/* Writes the index of each true element as a row. */
int kern_where(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    int64_t *row = a->out[0]->data;

    if (x->dtype != DT_BOOL)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no Where of %s",
                       operation_name(a->op), dtype_name(x->dtype));
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        int64_t rest = i;

        if (!((const uint8_t *)x->data)[i])
            continue;
        for (int d = x->shape.rank - 1; d >= 0; d--) {
            row[d] = rest % x->shape.dim[d];
            rest /= x->shape.dim[d];
        }
        row += x->shape.rank;
    }
    return 0;
}

int kern_invert_permutation(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[0]);

    for (int64_t i = 0; i < n; i++)
        tensor_set_int(a->out[0], i, -1);
    for (int64_t i = 0; i < n; i++) {
        int64_t p = tensor_int(a->in[0], i);

        if (p < 0 || p >= n || tensor_int(a->out[0], p) >= 0)
            return err_set(a->err, ERR_ARG, "%s: %lld in a permutation of %lld, %s",
                           operation_name(a->op), (long long)p, (long long)n,
                           p < 0 || p >= n ? "not an index" : "twice");
        tensor_set_int(a->out[0], p, i);
    }
    return 0;
}

int kern_one_hot(const struct kernel_args *a)
{
    const struct tensor *indices = a->in[0], *out = a->out[0];
    size_t elem = elem_size(out);
    int axis = positive_axis(int_attr(a->op, "axis", -1), out->shape.rank);
    int64_t depth = out->shape.dim[axis];
    int64_t inner = span(&out->shape, axis + 1, out->shape.rank);
    int64_t n = tensor_elements(indices);
    struct copy_plan c = {1, {tensor_elements(out)}, {0}, {(int64_t)elem}};

    if (indices->dtype != DT_UINT8 && indices->dtype != DT_INT32 &&
        indices->dtype != DT_INT64)
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no OneHot of %s",
                       operation_name(a->op), dtype_name(indices->dtype));
    copy_strided(out->data, a->in[3]->data, &c, elem);
    for (int64_t i = 0; i < n; i++) {
        int64_t hot = indices->dtype == DT_UINT8 ? ((const uint8_t *)indices->data)[i]
                                                 : tensor_int(indices, i);

        if (hot < 0 || hot >= depth)
            continue;
        int64_t at = ((i / inner) * depth + hot) * inner + i % inner;
        memcpy((char *)out->data + (size_t)at * elem, a->in[2]->data, elem);
    }
    return 0;
}

/* in: n tensors of indices, then n of data. Row indices[i][k] of the result is row k of
 * data i. Rows that no index names are zero. */
int kern_dynamic_stitch(const struct kernel_args *a)
{
    const struct tensor *y = a->out[0];
    int64_t rows = y->shape.dim[0];
    size_t bytes = rows > 0 ? tensor_bytes(y) / (size_t)rows : 0;

    clear(y);
    for (int i = 0; i < a->n_in / 2; i++) {
        const struct tensor *indices = a->in[i], *data = a->in[a->n_in / 2 + i];

        for (int64_t k = 0; k < tensor_elements(indices); k++) {
            int64_t row = tensor_int(indices, k);

            if (row < 0 || row >= rows)
                return err_set(a->err, ERR_ARG, "%s: index %lld is not in [0, %lld)",
                               operation_name(a->op), (long long)row, (long long)rows);
            memcpy((char *)y->data + (size_t)row * bytes,
                   (const char *)data->data + (size_t)k * bytes, bytes);
        }
    }
    return 0;
}
