/* array.c - constants, placeholders, ops on shapes, and changes of shape.
 *
 * Gradients after TensorFlow 1.13's python/ops/array_grad.py. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/mem/copy_short.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- kernels: copies, checks ---- */

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

/* The error message consists of those inputs that are strings. */
static int kern_assert(const struct kernel_args *a)
{
    char text[256] = "";
    size_t len = 0;

    if (tensor_elements(a->in[0]) != 1)
        return err_set(a->err, ERR_SHAPE, "%s: assertion of %s, not of a scalar",
                       operation_name(a->op), shape_text(&a->in[0]->shape));
    if (*(const uint8_t *)a->in[0]->data)
        return 0;
    for (int i = 1; i < a->n_in && len < sizeof(text) - 1; i++) {
        const struct tensor_string *s = a->in[i]->data;

        if (a->in[i]->dtype == DT_STRING && tensor_elements(a->in[i]) == 1)
            len += (size_t)snprintf(text + len, sizeof(text) - len, " %.*s",
                                    (int)(s->len_bytes < 100 ? s->len_bytes : 100),
                                    s->bytes != NULL ? s->bytes : "");
    }
    return err_set(a->err, ERR_ARG, "%s: assertion failed:%s", operation_name(a->op),
                   text);
}

static int kern_check_numerics(const struct kernel_args *a)
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

/* The bytes of the elements as elements of another type. */
static int kern_bitcast(const struct kernel_args *a)
{
    const size_t bytes = tensor_bytes(a->out[0]);

    if (bytes > 0)
        memcpy(a->out[0]->data, a->in[0]->data, bytes);
    return 0;
}

/* ---- kernels: shapes as values, filling ---- */

static int kern_shape(const struct kernel_args *a)
{
    for (int i = 0; i < a->n_out; i++)
        for (int d = 0; d < a->in[i]->shape.rank; d++)
            tensor_set_int(a->out[i], d, a->in[i]->shape.dim[d]);
    return 0;
}

static int kern_size(const struct kernel_args *a)
{
    tensor_set_int(a->out[0], 0, tensor_elements(a->in[0]));
    return 0;
}

static int kern_rank(const struct kernel_args *a)
{
    tensor_set_int(a->out[0], 0, a->in[0]->shape.rank);
    return 0;
}

static int kern_concat_offset(const struct kernel_args *a)
{
    int64_t rank = tensor_elements(a->in[1]), offset = 0;
    int64_t wanted = tensor_int(a->in[0], 0);
    int axis = positive_axis(wanted, (int)rank);

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

/* Lists the axes along which the operand of shape `own` is broadcast to match `other`:
 * those where it has at most one element. None if the shapes are equal. Returns their
 * number. */
static int64_t repeated_axes(const struct tensor *own, const struct tensor *other,
                             const struct tensor *ret)
{
    int64_t n = tensor_elements(own), m = tensor_elements(other), found = 0;
    int64_t rank = n > m ? n : m;

    if (n == m && (n == 0 || memcmp(own->data, other->data, tensor_bytes(own)) == 0))
        return 0;
    for (int64_t d = 0; d < rank; d++) {
        int64_t at = d - (rank - n);

        if (at >= 0 && tensor_int(own, at) != 1)
            continue;
        if (ret != NULL)
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

static int kern_broadcast_gradient_args(const struct kernel_args *a)
{
    if (!sizes_broadcast(a->in[0], a->in[1]))
        return err_set(a->err, ERR_SHAPE, "%s: the shapes do not broadcast",
                       operation_name(a->op));
    (void)repeated_axes(a->in[0], a->in[1], a->out[0]);
    (void)repeated_axes(a->in[1], a->in[0], a->out[1]);
    return 0;
}

static int kern_broadcast_args(const struct kernel_args *a)
{
    const int64_t n = tensor_elements(a->in[0]), m = tensor_elements(a->in[1]);
    const int64_t rank = n > m ? n : m;

    if (!sizes_broadcast(a->in[0], a->in[1]))
        return err_set(a->err, ERR_SHAPE, "%s: the shapes do not broadcast",
                       operation_name(a->op));
    for (int64_t k = 1; k <= rank; k++) {
        const int64_t x = k <= n ? tensor_int(a->in[0], n - k) : 1;
        const int64_t y = k <= m ? tensor_int(a->in[1], m - k) : 1;

        tensor_set_int(a->out[0], rank - k, x == 1 ? y : x);
    }
    return 0;
}

/* tf.empty: zeros, though TensorFlow promises that only for `init`. */
static int kern_empty(const struct kernel_args *a)
{
    clear(a->out[0]);
    return 0;
}

static int kern_fill(const struct kernel_args *a)
{
    size_t elem = elem_size(a->out[0]);
    struct copy_plan c = {1, {tensor_elements(a->out[0])}, {0}, {(int64_t)elem}};

    copy_strided(a->out[0]->data, a->in[1]->data, &c, elem);
    return 0;
}

/* tf.linspace: num numbers, of which the last is stop. */
static int kern_lin_space(const struct kernel_args *a)
{
    const int64_t n = tensor_elements(a->out[0]);

    for (int64_t i = 0; i < n; i++) {
        if (a->out[0]->dtype == DT_FLOAT) {
            const float start = *tensor_f32(a->in[0]), stop = *tensor_f32(a->in[1]);

            tensor_f32(a->out[0])[i] =
                i > 0 && i == n - 1 ? stop
                                    : start + (stop - start) / (float)(n - 1) * (float)i;
        } else {
            const double start = *(double *)a->in[0]->data;
            const double stop = *(double *)a->in[1]->data;

            ((double *)a->out[0]->data)[i] =
                i > 0 && i == n - 1
                    ? stop
                    : start + (stop - start) / (double)(n - 1) * (double)i;
        }
    }
    if (n == 1)
        memcpy(a->out[0]->data, a->in[0]->data, elem_size(a->in[0]));
    return 0;
}

static int kern_range(const struct kernel_args *a)
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

/* ---- kernels: rearranging elements ---- */

static int kern_transpose(const struct kernel_args *a)
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

/* ---- shapes and gradients: constants, pass-through ---- */

static int const_shape(const struct shape_args *args)
{
    const struct tensor *value = &operation_attr(args->op, "value")->tensor;

    if (value->dtype != (enum dtype)attr_int(args->op, "dtype"))
        return err_set(args->err, ERR_DTYPE, "a value of type %s in a Const of type %s",
                       dtype_name(value->dtype),
                       dtype_name((enum dtype)attr_int(args->op, "dtype")));
    args->out[0] = value->shape;
    return 0;
}

static int placeholder_with_default_shape(const struct shape_args *args)
{
    const struct shape *shape = attr_shape(args->op, "shape");

    if (!shape_compatible(&args->in[0], shape))
        return err_set(args->err, ERR_SHAPE, "a default of shape %s for shape %s",
                       shape_text(&args->in[0]), shape_text(shape));
    args->out[0] = *shape;
    return 0;
}

GRAD(identity_grad)
{
    grad_in[0] = grad_out[0];
    return 0;
}

GRAD(check_numerics_grad)
{
    struct op_builder *b = op_begin(g, operation_type(op), NULL);

    op_input(b, grad_out[0]);
    op_attr_string(b, "message",
                   "Not a number (NaN) or infinity (Inf) values detected in gradient.");
    grad_in[0] = (struct output){op_finish(b), 0};
    return grad_done(grad_in, 1);
}

/* ---- shapes and gradients: shapes as values ---- */

static int shape_of_shape(const struct shape_args *args)
{
    for (int i = 0; i < args->n_in; i++)
        args->out[i] = SHAPE(args->in[i].rank);
    return 0;
}

static int shape_of_variable(const struct shape_args *args)
{
    struct shape x;

    (void)variable_shape(args, 0, NULL, &x);
    args->out[0] = SHAPE(x.rank);
    return 0;
}

/* The lengths are known only when a plan is made: TensorFlow's graphs do not have them. */
static int broadcast_gradient_args_shape(const struct shape_args *args)
{
    const struct tensor *x = args->value[0], *y = args->value[1];
    const int known = args->is_planning && x != NULL && y != NULL;

    args->out[0] = SHAPE(known ? repeated_axes(x, y, NULL) : -1);
    args->out[1] = SHAPE(known ? repeated_axes(y, x, NULL) : -1);
    return 0;
}

static int broadcast_args_shape(const struct shape_args *args)
{
    const int64_t n = dim_of(&args->in[0], 0), m = dim_of(&args->in[1], 0);

    args->out[0] = SHAPE(n < 0 || m < 0 ? -1 : n > m ? n : m);
    return 0;
}

/* ConcatOffset: the shapes are vectors of one length, and so are the outputs. */
static int concat_offset_shape(const struct shape_args *args)
{
    for (int i = 1; i < args->n_in; i++) {
        if (want_rank(args, i, 1) != 0)
            return ERR_SHAPE;
        if (!shape_compatible(&args->in[1], &args->in[i]))
            return err_set(args->err, ERR_SHAPE, "shapes of ranks %s and %s differ",
                           shape_text(&args->in[1]), shape_text(&args->in[i]));
        args->out[i - 1] = args->in[i].rank < 0 ? SHAPE(-1) : args->in[i];
    }
    return want_rank(args, 0, 0);
}

/* The value of a known floating-point scalar. */
static int value_real(const struct shape_args *args, int i, double *ret)
{
    const struct tensor *t = args->value[i];

    if (t == NULL || (t->dtype != DT_FLOAT && t->dtype != DT_DOUBLE))
        return 0;
    *ret =
        t->dtype == DT_FLOAT ? (double)*(const float *)t->data : *(const double *)t->data;
    return 1;
}

static int real_range_shape(const struct shape_args *args)
{
    double start, limit, delta, n;

    if (!value_real(args, 0, &start) || !value_real(args, 1, &limit) ||
        !value_real(args, 2, &delta))
        return 0;
    if (delta == 0)
        return err_set(args->err, ERR_ARG, "delta must not be 0");
    /* in the elements' type, as TensorFlow's kernel does */
    n = args->value[0]->dtype == DT_FLOAT
            ? (double)ceilf(((float)limit - (float)start) / (float)delta)
            : ceil((limit - start) / delta);
    if (!(n < 0x1p53))
        return err_set(args->err, ERR_LIMIT, "a range of %g elements", n);
    args->out[0].dim[0] = n > 0 ? (int64_t)n : 0;
    return 0;
}

static int range_shape(const struct shape_args *args)
{
    int64_t start, limit, delta;
    uint64_t n;

    args->out[0] = SHAPE(-1);
    if (value_ints(args, 0, &start, 1) != 1 || value_ints(args, 1, &limit, 1) != 1 ||
        value_ints(args, 2, &delta, 1) != 1)
        return real_range_shape(args);
    if (delta == 0)
        return err_set(args->err, ERR_ARG, "delta must not be 0");
    n = range_length(start, limit, delta);
    if (n > INT64_MAX)
        return err_set(args->err, ERR_LIMIT, "a range of %llu elements",
                       (unsigned long long)n);
    args->out[0].dim[0] = (int64_t)n;
    return 0;
}

static int lin_space_shape(const struct shape_args *args)
{
    int64_t num = -1;

    if (value_ints(args, 2, &num, 1) == 1 && num <= 0)
        return err_set(args->err, ERR_ARG, "num must be 1 or more, not %lld",
                       (long long)num);
    args->out[0] = SHAPE(num);
    return 0;
}

GRAD(fill_grad)
{
    grad_in[1] = reduce(g, "Sum", grad_out[0], NULL, 0, 0, NULL);
    return grad_done(grad_in + 1, 1);
}

static int broadcast_to_shape(const struct shape_args *args)
{
    struct shape to, both;

    if (value_sizes(args, 1, &to) != 0)
        return ERR_SHAPE;
    args->out[0] = to;
    if (to.rank < 0)
        return 0;
    if (shape_broadcast(&args->in[0], &to, &both) != 0 || !shape_compatible(&both, &to))
        return err_set(args->err, ERR_SHAPE, "%s does not broadcast to %s",
                       shape_text(&args->in[0]), shape_text(&to));
    return 0;
}

/* Sums over the axes along which the input was repeated. */
GRAD(broadcast_to_grad)
{
    struct output to = input_of(op, 1);
    struct output from =
        cast(g, shape_of(g, input_of(op, 0), NULL), output_dtype(to), NULL);
    struct output axes = binary(g, "BroadcastGradientArgs", to, from, NULL);
    struct op_builder *b = op_begin(g, "Sum", NULL);

    op_input(b, grad_out[0]);
    op_input(b, (struct output){axes.op, 1});
    op_attr_bool(b, "keep_dims", 1);
    grad_in[0] = binary(g, "Reshape", (struct output){op_finish(b), 0}, from, NULL);
    return grad_done(grad_in, 1);
}

/* ---- shapes and gradients: changing the shape ---- */

static int reshape_shape(const struct shape_args *args)
{
    int64_t have = shape_elements(&args->in[0]), known = 1;
    struct shape out;
    int hole = -1;

    if (value_shape(args, 1, &out) != 0)
        return ERR_SHAPE;
    for (int i = 0; i < out.rank; i++) {
        if (out.dim[i] < -1)
            return err_set(args->err, ERR_SHAPE, "a dimension of %lld",
                           (long long)out.dim[i]);
        if (out.dim[i] >= 0 && __builtin_mul_overflow(known, out.dim[i], &known))
            return err_set(args->err, ERR_LIMIT, "%s has too many elements",
                           shape_text(&out));
        if (out.dim[i] >= 0)
            continue;
        if (args->value[1] != NULL && hole >= 0)
            return err_set(args->err, ERR_SHAPE, "more than one unknown dimension");
        hole = hole < 0 ? i : SHAPE_MAX_RANK;
    }
    args->out[0] = out;
    if (out.rank < 0 || have < 0 || hole == SHAPE_MAX_RANK)
        return 0;
    if (hole < 0 ? known != have : known == 0 ? have != 0 : have % known != 0)
        return err_set(args->err, ERR_SHAPE, "cannot reshape %s to %s",
                       shape_text(&args->in[0]), shape_text(&out));
    if (hole >= 0)
        args->out[0].dim[hole] = known == 0 ? 0 : have / known;
    return 0;
}

GRAD(reshape_grad)
{
    grad_in[0] =
        binary(g, "Reshape", grad_out[0], shape_of(g, input_of(op, 0), NULL), NULL);
    return grad_done(grad_in, 1);
}

/* Elements of a smaller type are those of one more dimension. Kernels get halves as float32, of
 * which the bytes are others. */
static int bitcast_shape(const struct shape_args *args)
{
    const enum dtype from = (enum dtype)attr_int(args->op, "T");
    const enum dtype to = (enum dtype)attr_int(args->op, "type");
    const size_t size = dtype_size(from), new_size = dtype_size(to);
    struct shape x = args->in[0];

    if (size == 0 || new_size == 0 || element_bytes(args->op) != size || to == DT_HALF ||
        to == DT_BFLOAT16)
        return err_set(args->err, ERR_UNSUPPORTED, "no Bitcast of %s to %s",
                       dtype_name(from), dtype_name(to));
    if (x.rank < 0)
        return 0;
    if (size < new_size) {
        const int64_t last = x.rank > 0 ? x.dim[x.rank - 1] : 1;

        if (last >= 0 && (size_t)last != new_size / size)
            return err_set(args->err, ERR_SHAPE, "Cannot bitcast from %s to %s: shape %s",
                           dtype_name(from), dtype_name(to), shape_text(&x));
        x.rank--;
    } else if (size > new_size) {
        if (x.rank == SHAPE_MAX_RANK)
            return err_set(args->err, ERR_SHAPE, "more than %d dimensions",
                           SHAPE_MAX_RANK);
        x.dim[x.rank++] = (int64_t)(size / new_size);
    }
    args->out[0] = x;
    return 0;
}

static int expand_dims_shape(const struct shape_args *args)
{
    int64_t axis;

    return insert_axis(args, &args->in[0],
                       value_ints(args, 1, &axis, 1) == 1 ? &axis : NULL, 1);
}

static int squeeze_shape(const struct shape_args *args)
{
    const struct attr *dims = operation_attr(args->op, "squeeze_dims");
    const struct shape *x = &args->in[0];
    int gone[SHAPE_MAX_RANK] = {0};
    struct shape out = {0};

    if (x->rank < 0)
        return 0;
    for (size_t i = 0; i < dims->n; i++) {
        int64_t axis = dims->list_i[i];

        if (wrap_axis(args, x->rank, &axis) != 0)
            return ERR_SHAPE;
        if (x->dim[axis] > 1 || x->dim[axis] == 0)
            return err_set(args->err, ERR_SHAPE, "cannot squeeze dimension %lld of %s",
                           (long long)axis, shape_text(x));
        gone[axis] = 1;
    }
    for (int i = 0; i < x->rank; i++) {
        if (dims->n == 0 && x->dim[i] < 0)
            return 0; /* cannot be checked yet */
        if (dims->n == 0 ? x->dim[i] != 1 : !gone[i])
            out.dim[out.rank++] = x->dim[i];
    }
    args->out[0] = out;
    return 0;
}

static int transpose_shape(const struct shape_args *args)
{
    int64_t perm[SHAPE_MAX_RANK];
    const struct shape *x = &args->in[0];
    struct shape out = *x;
    int n = value_ints(args, 1, perm, SHAPE_MAX_RANK), seen[SHAPE_MAX_RANK] = {0};

    if (x->rank < 0)
        return 0;
    if (args->value[1] != NULL && n != x->rank) /* -1: of more than any rank */
        return err_set(args->err, ERR_SHAPE, "a permutation of %d dimensions for %s", n,
                       shape_text(x));
    for (int i = 0; i < x->rank; i++) {
        if (n < 0) {
            out.dim[i] = -1;
            continue;
        }
        if (perm[i] < 0 || perm[i] >= n || seen[perm[i]]++)
            return err_set(args->err, ERR_ARG, "not a permutation of %d dimensions", n);
        out.dim[i] = x->dim[perm[i]];
    }
    args->out[0] = out;
    return 0;
}

GRAD(transpose_grad)
{
    struct output back = unary(g, "InvertPermutation", input_of(op, 1), NULL);

    grad_in[0] = binary(g, "Transpose", grad_out[0], back, "transpose");
    return grad_done(grad_in, 1);
}

static int tile_shape(const struct shape_args *args)
{
    int64_t times[SHAPE_MAX_RANK];
    int n = value_ints(args, 1, times, SHAPE_MAX_RANK);
    struct shape out = args->in[0];

    if (out.rank < 0)
        return 0;
    if (n >= 0 && n != out.rank)
        return err_set(args->err, ERR_SHAPE, "%d multiples for %s", n, shape_text(&out));
    for (int i = 0; i < out.rank; i++) {
        if (n >= 0 && times[i] < 0)
            return err_set(args->err, ERR_ARG, "a multiple of %lld", (long long)times[i]);
        if (n < 0 || out.dim[i] < 0)
            out.dim[i] = -1;
        else if (__builtin_mul_overflow(out.dim[i], times[i], &out.dim[i]))
            return err_set(args->err, ERR_LIMIT, "too many copies of %s",
                           shape_text(&args->in[0]));
    }
    args->out[0] = out;
    return 0;
}

/* Reshapes the gradient to (multiple 0, dim 0, multiple 1, ...) and sums over the
 * multiples. */
GRAD(tile_grad)
{
    struct output x = input_of(op, 0), start, delta, axes, split, r;
    struct shape flat = SHAPE(-1), known = output_shape(x);
    const int32_t swap[] = {1, 0};

    split = cast(g, input_of(op, 1), DT_INT32, NULL);
    split = stacked(g, (struct output[]){split, shape_of(g, x, NULL)}, 2, "stack");
    split = binary(g, "Transpose", split, constant_i32s(g, swap, 2, "transpose/perm"),
                   "transpose");
    split = reshape(g, split, &flat, NULL);
    start = constant_i32(g, 0, "range/start");
    delta = constant_i32(g, 2, "range/delta");
    axes = ternary(g, "Range", start, unary(g, "Size", split, NULL), delta, "range");
    r = binary(g, "Sum", binary(g, "Reshape", grad_out[0], split, NULL), axes, NULL);
    if (!output_valid(r))
        return -1;
    grad_in[0] = r;
    return output_set_shape(r, &known);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"Placeholder", OP_NO_GRADIENT, shape_declared, NULL, PLANNED,
     "-> output:dtype; dtype:type, shape:shape=unknown"},
    {"PlaceholderWithDefault", 0, placeholder_with_default_shape, identity_grad, ALIAS,
     "input:dtype -> output:dtype; dtype:type, shape:shape"},
    {"Const", OP_NO_GRADIENT, const_shape, NULL, PLANNED,
     "-> output:dtype; value:tensor, dtype:type"},
    {"Identity", 0, shape_same, identity_grad, ALIAS, "input:T -> output:T; T:type"},
    {"StopGradient", OP_NO_GRADIENT, shape_same, NULL, ALIAS,
     "input:T -> output:T; T:type"},
    {"Assert", OP_AWAITED | OP_NO_GRADIENT, shape_none, NULL, CALL(kern_assert),
     "condition:bool, data:T ->; T:list(type), summarize:int=3"},
    {"CheckNumerics", OP_AWAITED, shape_same, check_numerics_grad,
     CALL(kern_check_numerics), "tensor:T -> output:T; T:float_type, message:string"},
    {"CheckNumericsV2", OP_AWAITED, shape_same, check_numerics_grad,
     CALL(kern_check_numerics), "tensor:T -> output:T; T:float_type, message:string"},
    {"NoOp", OP_NO_GRADIENT, shape_none, NULL, PLANNED, "->"},
    {"ZerosLike", OP_NO_GRADIENT | OP_SHAPES_ONLY, shape_same, NULL, LOOP,
     "x:T -> y:T; T:type"},
    {"OnesLike", OP_NO_GRADIENT | OP_SHAPES_ONLY, shape_same, NULL, LOOP,
     "x:T -> y:T; T:type"},
    {"Shape", OP_NO_GRADIENT | OP_SHAPES_ONLY, shape_of_shape, NULL, CALL(kern_shape),
     "input:T -> output:out_type; T:type, out_type:index_type=int32"},
    {"ShapeN", OP_NO_GRADIENT | OP_SHAPES_ONLY, shape_of_shape, NULL, CALL(kern_shape),
     "input:N*T -> output:N*out_type; N:int, T:type, out_type:index_type=int32"},
    {"VariableShape", OP_NO_GRADIENT | OP_SHAPES_ONLY, shape_of_variable, NULL,
     CALL(kern_shape), "input:resource -> output:out_type; out_type:index_type=int32"},
    {"Size", OP_NO_GRADIENT | OP_SHAPES_ONLY, shape_scalar, NULL, CALL(kern_size),
     "input:T -> output:out_type; T:type, out_type:index_type=int32"},
    {"Rank", OP_NO_GRADIENT | OP_SHAPES_ONLY, shape_scalar, NULL, CALL(kern_rank),
     "input:T -> output:int32; T:type"},
    {"BroadcastGradientArgs", OP_NO_GRADIENT, broadcast_gradient_args_shape, NULL,
     CALL(kern_broadcast_gradient_args), "s0:T, s1:T -> r0:T, r1:T; T:index_type=int32"},
    {"BroadcastArgs", OP_NO_GRADIENT, broadcast_args_shape, NULL,
     CALL(kern_broadcast_args), "s0:T, s1:T -> r0:T; T:index_type=int32", .ranks = "11"},
    {"BroadcastTo", OP_SAME_IF_WHOLE, broadcast_to_shape, broadcast_to_grad,
     CALL(kern_broadcast_to),
     "input:T, shape:Tidx -> output:T; T:type, Tidx:index_type=int32"},
    {"ConcatOffset", OP_NO_GRADIENT, concat_offset_shape, NULL, CALL(kern_concat_offset),
     "concat_dim:int32, shape:N*int32 -> offset:N*int32; N:int"},
    {"Range", OP_NO_GRADIENT, range_shape, NULL, CALL(kern_range),
     "start:Tidx, limit:Tidx, delta:Tidx -> output:Tidx; Tidx:number_type=int32",
     .ranks = "000"},
    {"LinSpace", OP_NO_GRADIENT, lin_space_shape, NULL, CALL(kern_lin_space),
     "start:T, stop:T, num:Tidx -> output:T; T:float_type, Tidx:index_type=int32",
     .ranks = "000"},
    {"Fill", 0, shape_of_value, fill_grad, CALL(kern_fill),
     "dims:index_type, value:T -> output:T; T:type, index_type:index_type=int32",
     .ranks = "?0"},
    {"Empty", OP_NO_GRADIENT, shape_of_value, NULL, CALL(kern_empty),
     "shape:int32 -> output:dtype; dtype:type, init:bool=false"},
    {"Reshape", 0, reshape_shape, reshape_grad, ALIAS,
     "tensor:T, shape:Tshape -> output:T; T:type, Tshape:index_type=int32"},
    {"Bitcast", OP_NO_GRADIENT, bitcast_shape, NULL, CALL(kern_bitcast),
     "input:T -> output:type; T:type, type:type"},
    {"ExpandDims", 0, expand_dims_shape, reshape_grad, ALIAS,
     "input:T, dim:Tdim -> output:T; T:type, Tdim:index_type=int32"},
    {"Squeeze", 0, squeeze_shape, reshape_grad, ALIAS,
     "input:T -> output:T; T:type, squeeze_dims:list(int)=[]"},
    {"Transpose", 0, transpose_shape, transpose_grad, CALL(kern_transpose),
     "x:T, perm:Tperm -> y:T; T:type, Tperm:index_type=int32"},
    {"Tile", OP_SAME_IF_WHOLE, tile_shape, tile_grad, CALL(kern_tile),
     "input:T, multiples:Tmultiples -> output:T; T:type, Tmultiples:index_type=int32"},
};

const struct op_family ops_of_array = OP_FAMILY(rows);
