/* Kernels that compute shapes, and kernels that fill a tensor. */
#include "agent/session/kernels/kern_array.h"

#include <string.h>

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
        if (value[i] == NULL)
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
