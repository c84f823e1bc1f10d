/* slice.c - slices of tensors, writes to them, and padding by zeros, by a value, or by the tensor
 * mirrored.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* ---- kernels ---- */

/* The number of elements that begin:end:stride (stride not 0) selects from a dimension d
 * by NumPy's rules, and the first of them; from_start, to_end: that limit is omitted. -1
 * if d is unknown. */
static int64_t slice_range(int64_t d, int64_t begin, int64_t end, int64_t stride,
                           int from_start, int to_end, int64_t *ret_first)
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
    *ret_first = begin;
    return (int64_t)range_length(begin, end, stride);
}

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

/* Pads with zeros, or with the value of input 2. */
static int kern_pad(const struct kernel_args *a)
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
    if (a->n_in == 3) {
        const struct copy_plan fill = {1, {tensor_elements(y)}, {0}, {(int64_t)elem}};

        copy_strided(y->data, a->in[2]->data, &fill, elem);
    } else {
        clear(y);
    }
    copy_strided(dst, x->data, &c, elem);
    return 0;
}

/* Element i of the padded tensor: the element of the other one that it repeats. */
static int64_t mirrored(const struct kernel_args *a, const struct shape *padded,
                        const struct shape *inside, int64_t i)
{
    const int edge = operation_attr(a->op, "mode")->s[0] == 'S'; /* repeats the edge */
    int64_t stride = 1, at = 0;

    for (int d = padded->rank - 1; d >= 0; d--) {
        const int64_t n = inside->dim[d];
        int64_t k = i % padded->dim[d] - tensor_int(a->in[1], 2 * d);

        k = k < 0 ? -k - edge : k >= n ? 2 * n - 2 + edge - k : k;
        at += k * stride;
        i /= padded->dim[d];
        stride *= n;
    }
    return at;
}

static int kern_mirror_pad(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];
    const size_t elem = elem_size(x);

    for (int64_t i = 0; i < tensor_elements(y); i++)
        memcpy((char *)y->data + (size_t)i * elem,
               (const char *)x->data +
                   (size_t)mirrored(a, &y->shape, &x->shape, i) * elem,
               elem);
    return 0;
}

#define SUM_MIRRORED(T, U)                                                               \
    for (int64_t i = 0; i < tensor_elements(d); i++) {                                   \
        T *to = (T *)y->data + mirrored(a, &d->shape, &y->shape, i);                     \
                                                                                         \
        *to = (T)((U)*to + (U)((const T *)d->data)[i]);                                  \
    }                                                                                    \
    return 0;

static int kern_mirror_pad_grad(const struct kernel_args *a)
{
    const struct tensor *d = a->in[0], *y = a->out[0];

    clear(y);
    switch (d->dtype) {
    case DT_FLOAT:
        SUM_MIRRORED(float, float)
    case DT_DOUBLE:
        SUM_MIRRORED(double, double)
    case DT_INT32:
        SUM_MIRRORED(int32_t, uint32_t)
    case DT_INT64:
        SUM_MIRRORED(int64_t, uint64_t)
    default:
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no MirrorPadGrad of %s",
                       operation_name(a->op), dtype_name(d->dtype));
    }
}

/* A strided slice: begin, end and step of each entry, and masks with one bit for each
 * entry. */
struct strided_copy {
    const struct operation *op;
    const struct tensor *begin, *end, *step;
    int n;
    int64_t begin_mask, end_mask, ellipsis_mask, new_mask, shrink_mask;
};

static int strided_init(struct strided_copy *s, const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->in[1]);

    if (n > SHAPE_MAX_RANK || tensor_elements(a->in[2]) != n ||
        tensor_elements(a->in[3]) != n)
        return err_set(a->err, ERR_SHAPE, "%s: begin, end and strides are %s, %s, %s",
                       operation_name(a->op), shape_text(&a->in[1]->shape),
                       shape_text(&a->in[2]->shape), shape_text(&a->in[3]->shape));
    *s = (struct strided_copy){.op = a->op,
                               .begin = a->in[1],
                               .end = a->in[2],
                               .step = a->in[3],
                               .n = (int)n,
                               .begin_mask = attr_int(a->op, "begin_mask"),
                               .end_mask = attr_int(a->op, "end_mask"),
                               .ellipsis_mask = attr_int(a->op, "ellipsis_mask"),
                               .new_mask = attr_int(a->op, "new_axis_mask"),
                               .shrink_mask = attr_int(a->op, "shrink_axis_mask")};
    return 0;
}

/* Plans the copy for entry i of the slice, which selects from dimension d; that
 * dimension has `size` elements `stride` bytes apart. */
static int strided_copy_entry(const struct strided_copy *s, int i, int d, int64_t size,
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

/* The dimensions of a slice, in order: those of the source, or -1 for an added one. */
struct sliced {
    int rank, dim[SHAPE_MAX_RANK];
};

static void keep_dim(struct sliced *s, int d)
{
    if (s->rank < SHAPE_MAX_RANK) /* the shape rule refuses more */
        s->dim[s->rank++] = d;
}

/* Plans the source side of a strided slice: c gets one dimension for each dimension of
 * the source, whose shape is `whole`. Axes that the slice removes or adds do not affect
 * the copied bytes. */
static int strided_source(const struct kernel_args *a, const struct shape *whole,
                          size_t elem, struct copy_plan *c, int64_t *ret_start,
                          struct sliced *ret)
{
    int64_t strides[SHAPE_MAX_RANK], start = 0;
    struct strided_copy s = {0};
    int rc = strided_init(&s, a), named = 0, d = 0, seen_ellipsis = 0;

    ret->rank = 0;
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
            keep_dim(ret, d);
        }
        if (i >= s.n || is_ellipsis)
            continue;
        if (s.new_mask >> i & 1) {
            keep_dim(ret, -1);
            continue;
        }
        if (d == whole->rank)
            return err_set(a->err, ERR_SHAPE, "%s: %d indices for %s",
                           operation_name(a->op), s.n, shape_text(whole));
        rc = strided_copy_entry(&s, i, d, whole->dim[d], strides[d], c, &start, a->err);
        if (rc < 0)
            return rc;
        if (!(s.shrink_mask >> i & 1))
            keep_dim(ret, d);
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

static int kern_strided_slice(const struct kernel_args *a)
{
    size_t elem = elem_size(a->in[0]);
    struct copy_plan c;
    struct sliced slice;
    int64_t start;
    int rc = strided_source(a, &a->in[0]->shape, elem, &c, &start, &slice);

    if (rc == 0)
        rc = strided_dense(a, &c, a->out[0], elem, c.dst_stride);
    if (rc == 0)
        copy_strided(a->out[0]->data, (char *)a->in[0]->data + start, &c, elem);
    return rc;
}

static int kern_strided_slice_grad(const struct kernel_args *a)
{
    struct tensor *whole = a->out[0];
    size_t elem = elem_size(whole);
    struct copy_plan c;
    struct sliced slice;
    int64_t start;
    int rc = strided_source(a, &whole->shape, elem, &c, &start, &slice);

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

/* Sets the strides of a value that is broadcast to the slice. */
static int broadcast_strides(const struct kernel_args *a, struct copy_plan *c,
                             const struct sliced *slice, const struct tensor *value)
{
    int64_t strides[SHAPE_MAX_RANK];
    const int extra = value->shape.rank - slice->rank;

    dense_strides(&value->shape, elem_size(value), strides);
    memset(c->src_stride, 0, sizeof(c->src_stride));
    for (int i = 0; i < value->shape.rank; i++) {
        const int d = i >= extra ? slice->dim[i - extra] : -1;

        if (d >= 0 && value->shape.dim[i] == c->dim[d])
            c->src_stride[d] = strides[i];
        else if (value->shape.dim[i] != 1)
            return err_set(a->err, ERR_SHAPE,
                           "%s: a value of shape %s does not fit the slice",
                           operation_name(a->op), shape_text(&value->shape));
    }
    return 0;
}

/* in: begin, end, strides and the value from input 1 on; writes the value to a slice of
 * `whole` */
static int write_slice(const struct kernel_args *a, const struct tensor *whole)
{
    const struct tensor *value = a->in[4];
    struct copy_plan c;
    struct sliced slice;
    int64_t start;
    int rc = strided_source(a, &whole->shape, elem_size(whole), &c, &start, &slice);

    if (rc < 0)
        return rc;
    memcpy(c.dst_stride, c.src_stride, sizeof(c.dst_stride));
    rc = broadcast_strides(a, &c, &slice, value);
    if (rc == 0)
        copy_strided((char *)whole->data + start, value->data, &c, elem_size(whole));
    return rc;
}

static int has_nan(const struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    int ret = 0;

    for (int64_t i = 0; t->dtype == DT_FLOAT && i < n; i++)
        ret |= tensor_f32(t)[i] != tensor_f32(t)[i];
    for (int64_t i = 0; t->dtype == DT_DOUBLE && i < n; i++)
        ret |= ((const double *)t->data)[i] != ((const double *)t->data)[i];
    return ret;
}

static int kern_strided_slice_assign(const struct kernel_args *a)
{
    const int rc = write_slice(a, a->in[0]);

    if (rc == 0 && has_nan(a->in[4]))
        tensor_canonical_nans(a->in[0]);
    return rc;
}

static int kern_strided_slice_update(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *y = a->out[0];

    if (tensor_elements(x) > 0)
        memcpy(y->data, x->data, (size_t)tensor_elements(x) * elem_size(x));
    return write_slice(a, y);
}

/* ---- shapes and gradients ---- */

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
    /* n -1: unknown, or more entries than any rank */
    if ((args->value[1] != NULL && n_begin != out.rank) ||
        (args->value[2] != NULL && n_size != out.rank))
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

    return stacked(g, (struct output[]){rank, one}, 2, "stack");
}

/* The gradient at the place of the slice, zeros elsewhere. */
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

/* paddings (rank, 2): number of zeros before and after, for each dimension */
static int pad_shape(const struct shape_args *args)
{
    int64_t pads[2 * SHAPE_MAX_RANK];
    int n = value_ints(args, 1, pads, 2 * SHAPE_MAX_RANK);
    struct shape out = args->in[0];

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

/* By how much a dimension of n elements is padded may depend on n: mirrors have no more. */
static int check_mirror(const struct shape_args *args, int64_t n, const int64_t *pads)
{
    const struct attr *mode = operation_attr(args->op, "mode");
    const int64_t most = strcmp(mode->s, "SYMMETRIC") == 0 ? n : n - 1;

    if (strcmp(mode->s, "SYMMETRIC") != 0 && strcmp(mode->s, "REFLECT") != 0)
        return err_set(args->err, ERR_ARG, "mode %s, expected REFLECT or SYMMETRIC",
                       mode->s);
    if (n < 0 || (pads[0] <= most && pads[1] <= most))
        return 0;
    return err_set(args->err, ERR_ARG,
                   "paddings %lld and %lld of a dimension of %lld, at most %lld each",
                   (long long)pads[0], (long long)pads[1], (long long)n, (long long)most);
}

static int mirror_pad_shape(const struct shape_args *args)
{
    int64_t pads[2 * SHAPE_MAX_RANK];
    int n = value_ints(args, 1, pads, 2 * SHAPE_MAX_RANK), rc = pad_shape(args);

    for (int d = 0; rc == 0 && n >= 0 && d < args->in[0].rank; d++)
        rc = check_mirror(args, args->in[0].dim[d], pads + 2 * d);
    return rc;
}

static int mirror_pad_grad_shape(const struct shape_args *args)
{
    int64_t pads[2 * SHAPE_MAX_RANK];
    const int n = value_ints(args, 1, pads, 2 * SHAPE_MAX_RANK);
    struct shape out = args->in[0];
    int rc = 0;

    if (out.rank >= 0 && n >= 0 && n != 2 * out.rank)
        return err_set(args->err, ERR_SHAPE, "paddings %s for %s",
                       shape_text(&args->in[1]), shape_text(&out));
    for (int d = 0; rc == 0 && d < out.rank; d++) {
        int64_t *dim = &out.dim[d];

        if (n < 0 || *dim < 0) {
            *dim = -1;
            continue;
        }
        if (pads[2 * d] < 0 || pads[2 * d + 1] < 0 || pads[2 * d] > *dim ||
            pads[2 * d + 1] > *dim - pads[2 * d])
            return err_set(args->err, ERR_ARG, "paddings %lld and %lld of %lld elements",
                           (long long)pads[2 * d], (long long)pads[2 * d + 1],
                           (long long)*dim);
        *dim -= pads[2 * d] + pads[2 * d + 1];
        rc = check_mirror(args, *dim, pads + 2 * d);
    }
    args->out[0] = out;
    return rc;
}

/* MirrorPad and MirrorPadGrad are the gradients of each other. */
static int mirror_grad(struct graph *g, struct operation *op, const char *type,
                       struct output d, struct output *grad_in)
{
    struct op_builder *b = op_begin(g, type, NULL);

    op_input(b, d);
    op_input(b, input_of(op, 1));
    op_attr_string(b, "mode", operation_attr(op, "mode")->s);
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

GRAD(mirror_pad_grad)
{
    return mirror_grad(g, op, "MirrorPadGrad", grad_out[0], grad_in);
}

GRAD(mirror_pad_grad_grad)
{
    return mirror_grad(g, op, "MirrorPad", grad_out[0], grad_in);
}

struct strided {
    int n; /* entries of the specification */
    int64_t begin[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK], stride[SHAPE_MAX_RANK];
    int64_t begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask;
};

/* Applies one entry to dimension `axis`, and appends the result's dimension. */
static int strided_entry(const struct shape_args *args, const struct shape *x,
                         const struct strided *s, int i, int axis, struct shape *out)
{
    int64_t bit = (int64_t)1 << i, d, at = s->begin[i], first;

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
        slice_range(d, at, s->end[i], s->stride[i], (s->begin_mask & bit) != 0,
                    (s->end_mask & bit) != 0, &first);
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

/* Inputs first, first + 1 and first + 2 are begin, end and strides. *ret stays unknown if
 * they are. */
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

/* The value is broadcast to the slice. One that does not fit is an error of a run, as in
 * TensorFlow: files have such nodes that nobody runs. */
static int strided_slice_update_shape(const struct shape_args *args)
{
    const struct shape *value = &args->in[4];
    struct shape x, slice = SHAPE_UNKNOWN;

    if (variable_shape(args, 0, "T", &x) != 0)
        return ERR_DTYPE;
    if (operation_n_outputs(args->op) > 0)
        args->out[0] = x;
    if (strided_shape(args, &x, 1, &slice) != 0)
        return ERR_SHAPE;
    if (slice.rank < 0 || value->rank < 0 || !args->is_planning)
        return 0;
    for (int i = 0; i < value->rank; i++) {
        const int at = i + slice.rank - value->rank;
        const int64_t d = at < 0 ? 1 : slice.dim[at];

        if (value->dim[i] >= 0 && value->dim[i] != 1 && d >= 0 && value->dim[i] != d)
            return err_set(args->err, ERR_SHAPE,
                           "a value of shape %s for a slice of shape %s",
                           shape_text(value), shape_text(&slice));
    }
    return 0;
}

/* What the gradient of the slice is summed over if the value was broadcast. A value of a higher
 * rank than the slice has more dimensions of 1. */
static struct output unbroadcast_value(struct graph *g, struct output grad,
                                       struct output value)
{
    const int rank = output_shape(grad).rank;
    struct broadcast_args b;

    if (same_known_shape(grad, value))
        return grad;
    b = broadcast_args(g, value, grad);
    if (rank >= 0 && output_shape(value).rank > rank)
        return binary(g, "Reshape", grad, b.shape_x, NULL);
    return unbroadcast(g, grad, b.axes_x, b.shape_x);
}

GRAD(strided_slice_update_grad)
{
    struct op_builder *b = begin_strided(g, "StridedSlice", "strided_slice", op);
    struct output slice, zero;

    op_input(b, grad_out[0]);
    for (int i = 1; i < 4; i++)
        op_input(b, input_of(op, i));
    slice = (struct output){op_finish(b), 0};
    zero = zeros_like(g, slice, NULL);
    b = begin_strided(g, "TensorStridedSliceUpdate", NULL, op);
    op_input(b, grad_out[0]);
    for (int i = 1; i < 4; i++)
        op_input(b, input_of(op, i));
    op_input(b, zero);
    grad_in[0] = (struct output){op_finish(b), 0};
    grad_in[4] = unbroadcast_value(g, slice, input_of(op, 4));
    return output_valid(grad_in[0]) ? grad_done(grad_in + 4, 1) : -1;
}

/* ---- the rows ---- */

#define STRIDED_MASKS                                                                    \
    "begin_mask:int=0, end_mask:int=0, ellipsis_mask:int=0, new_axis_mask:int=0, "       \
    "shrink_axis_mask:int=0"

#define WRITES_PART OP_STATEFUL | OP_WRITES | OP_WRITES_PARTS | OP_NO_GRADIENT

static const struct op_def rows[] = {
    {"Slice", OP_SAME_IF_WHOLE, slice_shape, slice_grad, CALL(kern_slice),
     "input:T, begin:Index, size:Index -> output:T; T:type, Index:index_type"},
    {"Pad", 0, pad_shape, pad_grad, CALL(kern_pad),
     "input:T, paddings:Tpaddings -> output:T; T:type, Tpaddings:index_type=int32",
     .ranks = "?2"},
    {"PadV2", 0, pad_shape, pad_grad, CALL(kern_pad),
     "input:T, paddings:Tpaddings, constant_values:T -> output:T; T:type, "
     "Tpaddings:index_type=int32",
     .ranks = "?20"},
    {"MirrorPad", 0, mirror_pad_shape, mirror_pad_grad, CALL(kern_mirror_pad),
     "input:T, paddings:Tpaddings -> output:T; T:type, Tpaddings:index_type=int32, "
     "mode:string",
     .ranks = "?2"},
    {"MirrorPadGrad", 0, mirror_pad_grad_shape, mirror_pad_grad_grad,
     CALL(kern_mirror_pad_grad),
     "input:T, paddings:Tpaddings -> output:T; T:type, Tpaddings:index_type=int32, "
     "mode:string",
     .ranks = "?2"},
    {"StridedSlice", 0, strided_slice_shape, strided_slice_grad, CALL(kern_strided_slice),
     "input:T, begin:Index, end:Index, strides:Index -> output:T; T:type, "
     "Index:index_type, " STRIDED_MASKS},
    {"StridedSliceGrad", 0, strided_slice_grad_shape, strided_slice_grad_grad,
     CALL(kern_strided_slice_grad),
     "shape:Index, begin:Index, end:Index, strides:Index, dy:T -> output:T; T:type, "
     "Index:index_type, " STRIDED_MASKS},
    {"TensorStridedSliceUpdate", 0, strided_slice_update_shape, strided_slice_update_grad,
     CALL(kern_strided_slice_update),
     "input:T, begin:Index, end:Index, strides:Index, value:T -> output:T; T:type, "
     "Index:index_type, " STRIDED_MASKS},
    {"StridedSliceAssign", WRITES_PART, strided_slice_update_shape, NULL,
     CALL(kern_strided_slice_assign),
     "ref:&T, begin:Index, end:Index, strides:Index, value:T -> output_ref:&T; T:type, "
     "Index:index_type, " STRIDED_MASKS},
    {"ResourceStridedSliceAssign", WRITES_PART, strided_slice_update_shape, NULL,
     CALL(kern_strided_slice_assign),
     "ref:resource, begin:Index, end:Index, strides:Index, value:T ->; T:type, "
     "Index:index_type, " STRIDED_MASKS},
};

const struct op_family ops_of_slice = OP_FAMILY(rows);
