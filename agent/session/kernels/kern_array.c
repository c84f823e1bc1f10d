#include "agent/session/kernels/kernel.h"
#include "common/mem/copy.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <string.h>

/* ---- strided copies: slices, transposes, tiles and pads are all one of these ---- */

void dense_strides(const struct shape *s, size_t elem, int64_t *ret)
{
    int64_t stride = (int64_t)elem;
    for (int d = s->rank - 1; d >= 0; d--) {
        ret[d] = stride;
        stride *= s->dim[d];
    }
}

/* Drops dimensions of one element and joins those that are contiguous on both sides. */
static void simplify(struct copy_plan *c)
{
    int rank = 0;
    for (int d = 0; d < c->rank; d++) {
        if (c->dim[d] == 1)
            continue;
        if (rank > 0 && c->src_stride[rank - 1] == c->src_stride[d] * c->dim[d] &&
            c->dst_stride[rank - 1] == c->dst_stride[d] * c->dim[d]) {
            rank--;
            c->dim[rank] *= c->dim[d];
        } else {
            c->dim[rank] = c->dim[d];
        }
        c->src_stride[rank] = c->src_stride[d];
        c->dst_stride[rank] = c->dst_stride[d];
        rank++;
    }
    c->rank = rank;
}

static void copy_line(char *dst, const char *src, int64_t n, int64_t ds, int64_t ss,
                      size_t elem)
{
    if (ds == (int64_t)elem && ss == (int64_t)elem) {
        copy_short(dst, src, (size_t)n * elem);
        return;
    }
    for (int64_t i = 0; i < n; i++, dst += ds, src += ss) {
        if (elem == 4)
            memcpy(dst, src, 4);
        else
            memcpy(dst, src, elem);
    }
}

static void copy_dims(char *dst, const char *src, const struct copy_plan *c, int d,
                      size_t elem)
{
    int last = c->rank - 1;
    if (d == last - 1 && c->dst_stride[last] == (int64_t)elem &&
        c->src_stride[last] == (int64_t)elem) {
        copy_rows(dst, (size_t)c->dst_stride[d], src, (size_t)c->src_stride[d],
                  (size_t)c->dim[d], (size_t)c->dim[last] * elem);
        return;
    }
    if (d == last) {
        copy_line(dst, src, c->dim[d], c->dst_stride[d], c->src_stride[d], elem);
        return;
    }
    for (int64_t i = 0; i < c->dim[d]; i++)
        copy_dims(dst + i * c->dst_stride[d], src + i * c->src_stride[d], c, d + 1, elem);
}

void copy_strided(void *dst, const void *src, const struct copy_plan *plan, size_t elem)
{
    struct copy_plan c = *plan;
    for (int d = 0; d < c.rank; d++)
        if (c.dim[d] == 0)
            return;
    simplify(&c);
    if (c.rank == 0)
        memcpy(dst, src, elem);
    else
        copy_dims(dst, src, &c, 0, elem);
}

/* ---- small access helpers ---- */

int64_t tensor_int(const struct tensor *t, int64_t i)
{
    return t->dtype == DT_INT64 ? ((const int64_t *)t->data)[i]
                                : ((const int32_t *)t->data)[i];
}

void tensor_set_int(const struct tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == DT_INT64)
        ((int64_t *)t->data)[i] = v;
    else
        ((int32_t *)t->data)[i] = (int32_t)v;
}

int64_t int_attr(const struct operation *op, const char *name, int64_t otherwise)
{
    const struct attr *a = operation_attr(op, name);
    return a ? a->i : otherwise;
}

float float_attr(const struct operation *op, const char *name, float otherwise)
{
    const struct attr *a = operation_attr(op, name);
    return a ? a->f : otherwise;
}

int channel_axis(const struct operation *op, int rank)
{
    const struct attr *a = operation_attr(op, "data_format");
    return a && a->s_len > 1 && a->s[1] == 'C' ? 1 : rank - 1;
}

/* Strings are moved by reference (plan_lower.c gives them bytes of their own). */
static size_t elem_size(const struct tensor *t)
{
    return t->dtype == DT_STRING ? sizeof(struct tensor_string) : dtype_size(t->dtype);
}

static void clear(const struct tensor *t)
{
    if (tensor_bytes(t) > 0)
        memset(t->data, 0, tensor_bytes(t));
}

/* Product of the dimensions first .. last-1. */
static int64_t span(const struct shape *s, int first, int last)
{
    int64_t n = 1;
    for (int d = first; d < last; d++)
        n *= s->dim[d];
    return n;
}

static int wrap_axis(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

static size_t row_stride_bytes(const struct kernel_args *a, int i)
{
    return a->row_stride ? (size_t)a->row_stride[i] * elem_size(a->in[i]) : 0;
}

int kern_copy(const struct kernel_args *a)
{
    size_t apart = row_stride_bytes(a, 0);
    if (apart > 0) {
        const struct shape *s = &a->out[0]->shape;
        size_t bytes = (size_t)s->dim[1] * elem_size(a->out[0]);
        copy_rows(a->out[0]->data, bytes, a->in[0]->data, apart, (size_t)s->dim[0],
                  bytes);
        return 0;
    }
    if (tensor_bytes(a->out[0]) > 0)
        memcpy(a->out[0]->data, a->in[0]->data, tensor_bytes(a->out[0]));
    return 0;
}

/* ---- shapes as values ---- */

int kern_shape(const struct kernel_args *a)
{
    for (int i = 0; i < a->n_out; i++)
        for (int d = 0; d < a->in[i]->shape.rank; d++)
            tensor_set_int(a->out[i], d, a->in[i]->shape.dim[d]);
    return 0;
}

int kern_size(const struct kernel_args *a)
{
    tensor_set_int(a->out[0], 0, tensor_elements(a->in[0]));
    return 0;
}

int kern_rank(const struct kernel_args *a)
{
    tensor_set_int(a->out[0], 0, a->in[0]->shape.rank);
    return 0;
}

int kern_concat_offset(const struct kernel_args *a)
{
    int64_t rank = tensor_elements(a->in[1]), offset = 0;
    int64_t wanted = tensor_int(a->in[0], 0);
    int axis = wrap_axis(wanted, (int)rank);
    if (wanted < -rank || wanted >= rank)
        return err_set(a->err, ERR_ARG, "%s: axis %lld of %lld dimensions",
                       operation_name(a->op), (long long)wanted, (long long)rank);
    for (int i = 0; i < a->n_out; i++) {
        for (int64_t d = 0; d < rank; d++)
            tensor_set_int(a->out[i], d, d == axis ? offset : 0);
        offset += tensor_int(a->in[i + 1], axis);
    }
    return 0;
}

/* The axes over which the operand of shape `own` was repeated against the other one: all
 * where it has one element or none, unless the shapes are equal. Returns how many. */
static int64_t repeated_axes(const struct tensor *own, const struct tensor *other,
                             const struct tensor *ret)
{
    int64_t n = tensor_elements(own), m = tensor_elements(other), found = 0;
    int64_t rank = n > m ? n : m;
    if (n == m && memcmp(own->data, other->data, tensor_bytes(own)) == 0)
        return 0;
    for (int64_t d = 0; d < rank; d++) {
        int64_t at = d - (rank - n);
        if (at >= 0 && tensor_int(own, at) != 1)
            continue;
        if (ret)
            tensor_set_int(ret, found, d);
        found++;
    }
    return found;
}

static int sizes_broadcast(const struct tensor *x, const struct tensor *y)
{
    int64_t n = tensor_elements(x), m = tensor_elements(y);
    for (int64_t k = 1; k <= n && k <= m; k++) {
        int64_t p = tensor_int(x, n - k), q = tensor_int(y, m - k);
        if (p != q && p != 1 && q != 1)
            return 0;
    }
    return 1;
}

int kern_broadcast_gradient_args(const struct kernel_args *a)
{
    if (!sizes_broadcast(a->in[0], a->in[1]))
        return err_set(a->err, ERR_SHAPE, "%s: the shapes do not broadcast",
                       operation_name(a->op));
    (void)repeated_axes(a->in[0], a->in[1], a->out[0]);
    (void)repeated_axes(a->in[1], a->in[0], a->out[1]);
    return 0;
}

static int64_t count_true(const struct tensor *t)
{
    int64_t n = 0;
    for (int64_t i = 0; i < tensor_elements(t); i++)
        n += ((const uint8_t *)t->data)[i] != 0;
    return n;
}

int kernel_sizes(const struct operation *op, const struct tensor *const *value,
                 struct shape *out, struct err *err)
{
    const char *type = operation_type(op);
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (!value[i])
            return 0;
    if (strcmp(type, "BroadcastGradientArgs") == 0) {
        out[0] = SHAPE(repeated_axes(value[0], value[1], NULL));
        out[1] = SHAPE(repeated_axes(value[1], value[0], NULL));
    } else if (strcmp(type, "Where") == 0) {
        out[0] = SHAPE(count_true(value[0]), value[0]->shape.rank);
    } else if (strcmp(type, "RestoreV2") == 0) {
        return restored_shapes(op, value, out, err);
    }
    return 0;
}

/* The index of each true element, a row each. */
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

/* ---- filling ---- */

int kern_fill(const struct kernel_args *a)
{
    size_t elem = elem_size(a->out[0]);
    struct copy_plan c = {1, {tensor_elements(a->out[0])}, {0}, {(int64_t)elem}};
    copy_strided(a->out[0]->data, a->in[1]->data, &c, elem);
    return 0;
}

int kern_range(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->out[0]);
    for (int64_t i = 0; i < n; i++) {
        switch (a->out[0]->dtype) {
        case DT_FLOAT:
            tensor_f32(a->out[0])[i] =
                tensor_f32(a->in[0])[0] + (float)i * tensor_f32(a->in[2])[0];
            break;
        case DT_DOUBLE:
            ((double *)a->out[0]->data)[i] =
                *(double *)a->in[0]->data + (double)i * *(double *)a->in[2]->data;
            break;
        default:
            tensor_set_int(a->out[0], i,
                           tensor_int(a->in[0], 0) + i * tensor_int(a->in[2], 0));
        }
    }
    return 0;
}

int kern_one_hot(const struct kernel_args *a)
{
    const struct tensor *indices = a->in[0], *out = a->out[0];
    size_t elem = elem_size(out);
    int axis = wrap_axis(int_attr(a->op, "axis", -1), out->shape.rank);
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
        int64_t at = ((i / inner) * depth + hot) * inner + i % inner;
        if (hot >= 0 && hot < depth)
            memcpy((char *)out->data + (size_t)at * elem, a->in[2]->data, elem);
    }
    return 0;
}

/* ---- joining and cutting ---- */

/* One part of `whole` along an axis, starting at `begin`; into the part or out of it.
 * row_bytes: from row to row of a part that is a matrix; 0: it is dense. */
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
    int old = strcmp(operation_type(a->op), "Concat") == 0; /* the axis comes first */
    int64_t at = tensor_int(a->in[old ? 0 : a->n_in - 1], 0), begin = 0;
    int axis = wrap_axis(at, a->out[0]->shape.rank);
    for (int i = 0; i < a->n_in - 1; i++) {
        struct tensor *part = a->in[i + old];
        move_part(a->out[0], part, row_stride_bytes(a, i + old), axis, begin, 0);
        begin += part->shape.dim[axis];
    }
    return 0;
}

int kern_split(const struct kernel_args *a)
{
    int sized = strcmp(operation_type(a->op), "SplitV") == 0;
    struct tensor *whole = a->in[sized ? 0 : 1];
    int axis = wrap_axis(tensor_int(a->in[sized ? 2 : 0], 0), whole->shape.rank);
    int64_t begin = 0;
    for (int i = 0; i < a->n_out; i++) {
        move_part(whole, a->out[i], 0, axis, begin, 1);
        begin += a->out[i]->shape.dim[axis];
    }
    return 0;
}

/* Pack and Unpack: the same with an axis of one element per part. */
static struct tensor with_axis(const struct tensor *t, int axis)
{
    struct tensor v = *t;
    v.shape.rank++;
    memmove(&v.shape.dim[axis + 1], &t->shape.dim[axis],
            sizeof(int64_t) * (size_t)(t->shape.rank - axis));
    v.shape.dim[axis] = 1;
    return v;
}

int kern_pack(const struct kernel_args *a)
{
    int axis = wrap_axis(int_attr(a->op, "axis", 0), a->out[0]->shape.rank);
    for (int i = 0; i < a->n_in; i++) {
        struct tensor part = with_axis(a->in[i], axis);
        move_part(a->out[0], &part, 0, axis, i, 0);
    }
    return 0;
}

int kern_unpack(const struct kernel_args *a)
{
    int axis = wrap_axis(int_attr(a->op, "axis", 0), a->in[0]->shape.rank);
    for (int i = 0; i < a->n_out; i++) {
        struct tensor part = with_axis(a->out[i], axis);
        move_part(a->in[0], &part, 0, axis, i, 1);
    }
    return 0;
}

int kern_slice(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    size_t elem = elem_size(x);
    struct copy_plan c = {.rank = x->shape.rank};
    dense_strides(&x->shape, elem, c.src_stride);
    dense_strides(&y->shape, elem, c.dst_stride);
    const char *src = x->data;
    for (int d = 0; d < c.rank; d++) {
        int64_t begin = tensor_int(a->in[1], d);
        c.dim[d] = y->shape.dim[d];
        if (begin < 0 || begin + c.dim[d] > x->shape.dim[d])
            return err_set(a->err, ERR_SHAPE, "%s: slice %lld+%lld of %lld",
                           operation_name(a->op), (long long)begin, (long long)c.dim[d],
                           (long long)x->shape.dim[d]);
        src += begin * c.src_stride[d];
    }
    copy_strided(y->data, src, &c, elem);
    return 0;
}

int kern_pad(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    size_t elem = elem_size(x);
    struct copy_plan c = {.rank = x->shape.rank};
    memcpy(c.dim, x->shape.dim, sizeof(c.dim));
    dense_strides(&x->shape, elem, c.src_stride);
    dense_strides(&y->shape, elem, c.dst_stride);
    char *dst = y->data;
    for (int d = 0; d < c.rank; d++)
        dst += tensor_int(a->in[1], 2 * d) * c.dst_stride[d];
    memset(y->data, 0, tensor_bytes(y));
    copy_strided(dst, x->data, &c, elem);
    return 0;
}

/* The source side of a strided slice of a tensor of shape `whole`, one dimension of the
 * slice per dimension of the source (shrunk and new ones do not move any byte). */
static int64_t strided_source(const struct kernel_args *a, const struct shape *whole,
                              int first_input, size_t elem, struct copy_plan *c)
{
    int64_t begin_mask = int_attr(a->op, "begin_mask", 0);
    int64_t end_mask = int_attr(a->op, "end_mask", 0);
    int64_t ellipsis_mask = int_attr(a->op, "ellipsis_mask", 0);
    int64_t new_mask = int_attr(a->op, "new_axis_mask", 0);
    int64_t shrink_mask = int_attr(a->op, "shrink_axis_mask", 0);
    const struct tensor *begin = a->in[first_input], *end = a->in[first_input + 1];
    const struct tensor *step = a->in[first_input + 2];
    int64_t n = tensor_elements(begin), named = 0, start = 0;
    int64_t strides[SHAPE_MAX_RANK];
    dense_strides(whole, elem, strides);
    for (int64_t i = 0; i < n; i++)
        named += !((ellipsis_mask | new_mask) >> i & 1);
    int d = 0;
    int seen_ellipsis = 0;
    c->rank = whole->rank;
    for (int64_t i = 0; i < n || d < whole->rank; i++) {
        int skip = i >= n                                       ? whole->rank - d
                   : (ellipsis_mask >> i & 1) && !seen_ellipsis ? whole->rank - (int)named
                                                                : 0;
        if (i < n && (ellipsis_mask >> i & 1))
            seen_ellipsis = 1;
        for (; skip > 0; skip--, d++) {
            c->dim[d] = whole->dim[d];
            c->src_stride[d] = strides[d];
        }
        if (i >= n || (ellipsis_mask >> i & 1) || (new_mask >> i & 1))
            continue;
        int64_t size = whole->dim[d], s = tensor_int(step, i);
        int64_t low = s > 0 ? 0 : -1, high = s > 0 ? size : size - 1;
        int64_t b = tensor_int(begin, i), e = tensor_int(end, i);
        b = b < 0 ? b + size : b;
        e = e < 0 ? e + size : e;
        b = begin_mask >> i & 1 ? (s > 0 ? low : high)
            : b < low           ? low
            : b > high          ? high
                                : b;
        e = end_mask >> i & 1 ? (s > 0 ? high : low)
            : e < low         ? low
            : e > high        ? high
                              : e;
        int64_t count = s > 0 ? (e - b + s - 1) / s : (b - e - s - 1) / -s;
        if (shrink_mask >> i & 1)
            count = 1;
        c->dim[d] = count > 0 ? count : 0;
        c->src_stride[d] = strides[d] * s;
        start += b * strides[d];
        d++;
    }
    return start;
}

int kern_strided_slice(const struct kernel_args *a)
{
    size_t elem = elem_size(a->in[0]);
    struct copy_plan c;
    int64_t start = strided_source(a, &a->in[0]->shape, 1, elem, &c);
    struct shape slice = {.rank = c.rank};
    memcpy(slice.dim, c.dim, sizeof(slice.dim));
    dense_strides(&slice, elem, c.dst_stride);
    if (tensor_elements(a->out[0]) != shape_elements(&slice))
        return err_set(a->err, ERR_SHAPE, "%s: index out of range",
                       operation_name(a->op));
    copy_strided(a->out[0]->data, (char *)a->in[0]->data + start, &c, elem);
    return 0;
}

int kern_strided_slice_grad(const struct kernel_args *a)
{
    struct tensor *whole = a->out[0];
    size_t elem = elem_size(whole);
    struct copy_plan c;
    int64_t start = strided_source(a, &whole->shape, 1, elem, &c);
    struct shape slice = {.rank = c.rank};
    memcpy(slice.dim, c.dim, sizeof(slice.dim));
    memcpy(c.dst_stride, c.src_stride, sizeof(c.dst_stride));
    dense_strides(&slice, elem, c.src_stride);
    clear(whole);
    copy_strided((char *)whole->data + start, a->in[4]->data, &c, elem);
    return 0;
}

/* ---- moving elements about ---- */

int kern_transpose(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    size_t elem = elem_size(x);
    int64_t strides[SHAPE_MAX_RANK];
    struct copy_plan c = {.rank = x->shape.rank};
    dense_strides(&x->shape, elem, strides);
    dense_strides(&y->shape, elem, c.dst_stride);
    for (int d = 0; d < c.rank; d++) {
        c.dim[d] = y->shape.dim[d];
        c.src_stride[d] = strides[tensor_int(a->in[1], d)];
    }
    copy_strided(y->data, x->data, &c, elem);
    return 0;
}

int kern_tile(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    size_t elem = elem_size(x);
    int64_t x_strides[SHAPE_MAX_RANK], y_strides[SHAPE_MAX_RANK];
    dense_strides(&x->shape, elem, x_strides);
    dense_strides(&y->shape, elem, y_strides);
    /* Each repetition of the whole of x lands at its own corner of y. */
    struct copy_plan c = {.rank = x->shape.rank};
    memcpy(c.dim, x->shape.dim, sizeof(c.dim));
    memcpy(c.src_stride, x_strides, sizeof(c.src_stride));
    memcpy(c.dst_stride, y_strides, sizeof(c.dst_stride));
    int64_t corners = 1;
    for (int d = 0; d < c.rank; d++)
        corners *= tensor_int(a->in[1], d);
    for (int64_t corner = 0; corner < corners; corner++) {
        int64_t rest = corner, offset = 0;
        for (int d = c.rank - 1; d >= 0; d--) {
            int64_t repeats = tensor_int(a->in[1], d);
            offset += rest % repeats * x->shape.dim[d] * y_strides[d];
            rest /= repeats;
        }
        copy_strided((char *)y->data + offset, x->data, &c, elem);
    }
    return 0;
}

int kern_broadcast_to(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    size_t elem = elem_size(x);
    int64_t strides[SHAPE_MAX_RANK];
    struct copy_plan c = {.rank = y->shape.rank};
    dense_strides(&x->shape, elem, strides);
    dense_strides(&y->shape, elem, c.dst_stride);
    int lead = y->shape.rank - x->shape.rank;
    for (int d = 0; d < c.rank; d++) {
        c.dim[d] = y->shape.dim[d];
        int repeated = d < lead || x->shape.dim[d - lead] == 1;
        c.src_stride[d] = repeated ? 0 : strides[d - lead];
    }
    copy_strided(y->data, x->data, &c, elem);
    return 0;
}

int kern_gather(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *indices = a->in[1];
    int axis = a->n_in > 2 ? wrap_axis(tensor_int(a->in[2], 0), x->shape.rank) : 0;
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

/* The gradient of Gather: row ids[i] of the output is the sum of the rows i of x
 * (UnsortedSegmentSum). Negative ids are dropped. */
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
        for (int64_t j = 0; j < width; j++) {
            int64_t to = row * width + j, from = i * width + j;
            if (x->dtype == DT_FLOAT)
                tensor_f32(y)[to] += tensor_f32(x)[from];
            else if (x->dtype == DT_DOUBLE)
                ((double *)y->data)[to] += ((const double *)x->data)[from];
            else
                tensor_set_int(y, to, tensor_int(y, to) + tensor_int(x, from));
        }
    }
    return 0;
}

/* The diagonal of a tensor whose dimensions come twice. */
int kern_diag_part(const struct kernel_args *a)
{
    size_t elem = elem_size(a->in[0]);
    int64_t n = tensor_elements(a->out[0]);
    struct copy_plan c = {1, {n}, {(n + 1) * (int64_t)elem}, {(int64_t)elem}};
    copy_strided(a->out[0]->data, a->in[0]->data, &c, elem);
    return 0;
}

/* in: n indices, then n data; row indices[i][k] of the result is row k of data i. Rows
 * nobody names are zero. */
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

int kern_check_numerics(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0];
    const struct attr *message = operation_attr(a->op, "message");
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        double v = x->dtype == DT_FLOAT ? (double)tensor_f32(x)[i]
                                        : ((const double *)x->data)[i];
        if (!isfinite(v))
            return err_set(a->err, ERR_NONFINITE, "%s: %.*s : Tensor had %s values",
                           operation_name(a->op), (int)message->s_len, message->s,
                           isnan(v) ? "NaN" : "Inf");
    }
    return kern_copy(a);
}
