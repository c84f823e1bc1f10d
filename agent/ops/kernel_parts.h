/* kernel_parts.h - small functions shared by the kernels. */
#ifndef AGENT_OPS_KERNEL_PARTS_H
#define AGENT_OPS_KERNEL_PARTS_H

#include "agent/ops/kernel.h"

#include <stdlib.h>
#include <string.h>

/* Strings are copied by reference (plan_lower.c keeps their bytes in constants). */
static inline size_t elem_size(const struct tensor *t)
{
    return t->dtype == DT_STRING ? sizeof(struct tensor_string) : dtype_size(t->dtype);
}

static inline void clear(const struct tensor *t)
{
    if (tensor_bytes(t) > 0)
        memset(t->data, 0, tensor_bytes(t));
}

/* Takes the memory of a string, and frees the one that an earlier run made. */
static inline void set_string(struct tensor *t, int64_t i, struct tensor_string s)
{
    struct tensor_string *to = (struct tensor_string *)t->data + i;

    free(to->bytes);
    *to = s;
}

/* Product of the dimensions first .. last-1. */
static inline int64_t span(const struct shape *s, int first, int last)
{
    int64_t n = 1;

    for (int d = first; d < last; d++)
        n *= s->dim[d];
    return n;
}

/* ERR_UNSUPPORTED for a kernel that has float32 only. */
static inline int want_f32(const struct kernel_args *a)
{
    return a->out[0]->dtype == DT_FLOAT
               ? 0
               : err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s",
                         operation_name(a->op), operation_type(a->op),
                         dtype_name(a->out[0]->dtype));
}

/* ERR_UNSUPPORTED for a kernel that has float32, float64, int32 and int64. */
static inline int want_number(const struct kernel_args *a)
{
    const enum dtype t = a->out[0]->dtype;

    if (t == DT_FLOAT || t == DT_DOUBLE || t == DT_INT32 || t == DT_INT64)
        return 0;
    return err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s", operation_name(a->op),
                   operation_type(a->op), dtype_name(t));
}

/* Which of the matrices of `s` is under matrix z of `result` (broadcasting). */
static inline int64_t matrix_under(const struct shape *s, const struct shape *result,
                                   int64_t z)
{
    int64_t at = 0, step = 1;

    for (int d = result->rank - 3; d >= 0; d--) {
        const int o = d - (result->rank - s->rank);

        if (o >= 0 && s->dim[o] > 1)
            at += z % result->dim[d] * step;
        step *= o >= 0 ? s->dim[o] : 1;
        z /= result->dim[d];
    }
    return at;
}

/* c (m, n) = a (m, k) b (k, n); ta, tb: that operand is stored transposed. float32 by dense.h,
 * other types with k innermost, in order (matrix.c). 0, or -1: no product of this type. */
struct matrix_product {
    int ta, tb;
    int64_t m, n, k;
};
int matrix_multiply(const struct matrix_product *p, enum dtype dtype, const void *a,
                    const void *b, void *c);

/* Element i of a tensor of numbers (float32, float64, int32, int64). */
static inline double tensor_number(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_FLOAT:
        return (double)((const float *)t->data)[i];
    case DT_DOUBLE:
        return ((const double *)t->data)[i];
    default:
        return (double)tensor_int(t, i);
    }
}

static inline int positive_axis(int64_t axis, int rank)
{
    return (int)(axis < 0 ? axis + rank : axis);
}

/* Bytes from one row of input i to the next; 0 if the input is dense. */
static inline size_t row_stride_bytes(const struct kernel_args *a, int i)
{
    return a->row_stride ? (size_t)a->row_stride[i] * elem_size(a->in[i]) : 0;
}

#endif
