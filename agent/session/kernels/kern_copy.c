/* Strided copies, which carry out slices, transposes, tiles and pads. */
#include "agent/session/kernels/kern_array.h"
#include "common/mem/copy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void dense_strides(const struct shape *s, size_t elem, int64_t *ret)
{
    int64_t stride = (int64_t)elem;

    for (int d = s->rank - 1; d >= 0; d--) {
        ret[d] = stride;
        stride *= s->dim[d];
    }
}

/* Drops dimensions with one element, and merges dimensions that are contiguous on both
 * sides. */
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

/* ---- attributes of an operation ---- */

int64_t int_attr(const struct operation *op, const char *name, int64_t otherwise)
{
    const struct attr *a = operation_attr(op, name);

    return a != NULL ? a->i : otherwise;
}

float float_attr(const struct operation *op, const char *name, float otherwise)
{
    const struct attr *a = operation_attr(op, name);

    return a != NULL ? a->f : otherwise;
}

int channel_axis(const struct operation *op, int rank)
{
    const struct attr *a = operation_attr(op, "data_format");

    return a != NULL && a->s_len > 1 && a->s[1] == 'C' ? 1 : rank - 1;
}

/* ---- kernels ---- */

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
int kern_assert(const struct kernel_args *a)
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
