/* Kernels that join, cut and rearrange tensors. */
#include "agent/session/kernels/kern_array.h"

#include "agent/graph/op_rules.h"

#include <string.h>

/* ---- joining and cutting ---- */

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

int kern_split(const struct kernel_args *a)
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

int kern_pack(const struct kernel_args *a)
{
    int axis = positive_axis(int_attr(a->op, "axis", 0), a->out[0]->shape.rank);
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

int kern_unpack(const struct kernel_args *a)
{
    int axis = positive_axis(int_attr(a->op, "axis", 0), a->in[0]->shape.rank);

    for (int i = 0; i < a->n_out; i++) {
        struct tensor part = with_axis(a->out[i], axis);

        move_part(a->in[0], &part, 0, axis, i, 1);
    }
    return 0;
}

/* ---- slices ---- */

int kern_slice(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    size_t elem = elem_size(x);
    struct copy_plan c = {.rank = x->shape.rank};

    if (tensor_elements(a->in[1]) != c.rank)
        return err_set(a->err, ERR_SHAPE, "%s: begin is %s for %s", operation_name(a->op),
                       shape_text(&a->in[1]->shape), shape_text(&x->shape));
    dense_strides(&x->shape, elem, c.src_stride);
    dense_strides(&y->shape, elem, c.dst_stride);
    const char *src = x->data;
    for (int d = 0; d < c.rank; d++) {
        int64_t begin = tensor_int(a->in[1], d);

        c.dim[d] = y->shape.dim[d];
        if (begin < 0 || begin > x->shape.dim[d] - c.dim[d])
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
    clear(y);
    copy_strided(dst, x->data, &c, elem);
    return 0;
}

/* A strided slice: begin, end and step of each entry, and masks with one bit for each
 * entry. */
struct strided {
    const struct operation *op;
    const struct tensor *begin, *end, *step;
    int n;
    int64_t begin_mask, end_mask, ellipsis_mask, new_mask, shrink_mask;
};

static int strided_init(struct strided *s, const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[1]);

    if (n > SHAPE_MAX_RANK || tensor_elements(a->in[2]) != n ||
        tensor_elements(a->in[3]) != n)
        return err_set(a->err, ERR_SHAPE, "%s: begin, end and strides are %s, %s, %s",
                       operation_name(a->op), shape_text(&a->in[1]->shape),
                       shape_text(&a->in[2]->shape), shape_text(&a->in[3]->shape));
    *s = (struct strided){.op = a->op,
                          .begin = a->in[1],
                          .end = a->in[2],
                          .step = a->in[3],
                          .n = (int)n,
                          .begin_mask = int_attr(a->op, "begin_mask", 0),
                          .end_mask = int_attr(a->op, "end_mask", 0),
                          .ellipsis_mask = int_attr(a->op, "ellipsis_mask", 0),
                          .new_mask = int_attr(a->op, "new_axis_mask", 0),
                          .shrink_mask = int_attr(a->op, "shrink_axis_mask", 0)};
    return 0;
}

/* Plans the copy for entry i of the slice, which selects from dimension d; that
 * dimension has `size` elements `stride` bytes apart. */
static int strided_entry(const struct strided *s, int i, int d, int64_t size,
                         int64_t stride, struct copy_plan *c, int64_t *start,
                         struct err *err)
{
    int64_t at = tensor_int(s->begin, i), step = tensor_int(s->step, i), first;

    if (step == 0)
        return err_set(err, ERR_ARG, "%s: strides[%d] must not be 0",
                       operation_name(s->op), i);
    if (s->shrink_mask >> i & 1) {
        first = at < 0 ? at + size : at;
        if (first < 0 || first >= size)
            return err_set(err, ERR_SHAPE, "%s: index %lld is outside of dimension %d",
                           operation_name(s->op), (long long)at, d);
        c->dim[d] = 1;
    } else {
        c->dim[d] = slice_range(size, at, tensor_int(s->end, i), step,
                                (int)(s->begin_mask >> i & 1),
                                (int)(s->end_mask >> i & 1), &first);
    }
    c->src_stride[d] = c->dim[d] > 1 ? stride * step : 0;
    *start += c->dim[d] > 0 ? first * stride : 0;
    return 0;
}

/* Plans the source side of a strided slice: c gets one dimension for each dimension of
 * the source, whose shape is `whole`. Axes that the slice removes or adds do not affect
 * the copied bytes. */
static int strided_source(const struct kernel_args *a, const struct shape *whole,
                          size_t elem, struct copy_plan *c, int64_t *ret_start)
{
    int64_t strides[SHAPE_MAX_RANK], start = 0;
    struct strided s = {0};
    int rc = strided_init(&s, a), named = 0, d = 0, seen_ellipsis = 0;

    if (rc < 0)
        return rc;
    dense_strides(whole, elem, strides);
    for (int i = 0; i < s.n; i++)
        named += !((s.ellipsis_mask | s.new_mask) >> i & 1);
    c->rank = whole->rank;
    for (int i = 0; i < s.n || d < whole->rank; i++) {
        int is_ellipsis = i < s.n && (s.ellipsis_mask >> i & 1);
        int skip = i >= s.n                        ? whole->rank - d
                   : is_ellipsis && !seen_ellipsis ? whole->rank - named
                                                   : 0;

        seen_ellipsis |= is_ellipsis;
        for (; skip > 0 && d < whole->rank; skip--, d++) {
            c->dim[d] = whole->dim[d];
            c->src_stride[d] = strides[d];
        }
        if (i >= s.n || is_ellipsis || (s.new_mask >> i & 1))
            continue;
        if (d == whole->rank)
            return err_set(a->err, ERR_SHAPE, "%s: %d indices for %s",
                           operation_name(a->op), s.n, shape_text(whole));
        rc = strided_entry(&s, i, d, whole->dim[d], strides[d], c, &start, a->err);
        if (rc < 0)
            return rc;
        d++;
    }
    *ret_start = start;
    return 0;
}

/* Sets *ret_strides to the strides that the copied slice has if it is dense. ERR_SHAPE:
 * t has another number of elements than the slice. */
static int strided_dense(const struct kernel_args *a, const struct copy_plan *c,
                         const struct tensor *t, size_t elem, int64_t *ret_strides)
{
    struct shape slice = {.rank = c->rank};

    memcpy(slice.dim, c->dim, sizeof(slice.dim));
    dense_strides(&slice, elem, ret_strides);
    if (tensor_elements(t) == shape_elements(&slice))
        return 0;
    return err_set(a->err, ERR_SHAPE, "%s: %s for a slice of %lld elements",
                   operation_name(a->op), shape_text(&t->shape),
                   (long long)shape_elements(&slice));
}

int kern_strided_slice(const struct kernel_args *a)
{
    size_t elem = elem_size(a->in[0]);
    struct copy_plan c;
    int64_t start;
    int rc = strided_source(a, &a->in[0]->shape, elem, &c, &start);

    if (rc == 0)
        rc = strided_dense(a, &c, a->out[0], elem, c.dst_stride);
    if (rc == 0)
        copy_strided(a->out[0]->data, (char *)a->in[0]->data + start, &c, elem);
    return rc;
}

int kern_strided_slice_grad(const struct kernel_args *a)
{
    struct tensor *whole = a->out[0];
    size_t elem = elem_size(whole);
    struct copy_plan c;
    int64_t start;
    int rc = strided_source(a, &whole->shape, elem, &c, &start);

    if (rc < 0)
        return rc;
    memcpy(c.dst_stride, c.src_stride, sizeof(c.dst_stride));
    rc = strided_dense(a, &c, a->in[4], elem, c.src_stride);
    if (rc < 0)
        return rc;
    clear(whole);
    copy_strided((char *)whole->data + start, a->in[4]->data, &c, elem);
    return 0;
}

/* ---- rearranging elements ---- */

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
    /* Copies x once for each repetition, each time to another corner of y. */
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

/* Extracts the diagonal of a tensor whose shape is a list of dimensions repeated
 * twice. */
int kern_diag_part(const struct kernel_args *a)
{
    size_t elem = elem_size(a->in[0]);
    int64_t n = tensor_elements(a->out[0]);
    struct copy_plan c = {1, {n}, {(n + 1) * (int64_t)elem}, {(int64_t)elem}};

    copy_strided(a->out[0]->data, a->in[0]->data, &c, elem);
    return 0;
}
