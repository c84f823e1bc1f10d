#include "common/tensor/tensor.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tensor tensor_scalar_f32(const float *x)
{
    return tensor_const_view(DT_FLOAT, SHAPE_SCALAR, x);
}

struct tensor tensor_scalar_i64(const int64_t *x)
{
    return tensor_const_view(DT_INT64, SHAPE_SCALAR, x);
}

int tensor_alloc(struct tensor *ret, enum dtype dtype, struct shape shape,
                 struct err *err)
{
    int64_t n = shape_elements(&shape);
    size_t size = dtype == DT_STRING ? sizeof(struct tensor_string) : dtype_size(dtype);
    size_t bytes;
    void *data = NULL;

    if (size == 0)
        return err_set(err, ERR_DTYPE, "a tensor cannot hold %s", dtype_name(dtype));
    if (n < 0 || !mem_mul((size_t)n, size, &bytes))
        return err_set(err, ERR_SHAPE, "no tensor can have shape %s", shape_text(&shape));
    if (bytes > 0) {
        data = mem_aligned(bytes);
        if (data == NULL)
            return err_set(err, ERR_NOMEM, "no memory for %s %s", dtype_name(dtype),
                           shape_text(&shape));
        memset(data, 0, bytes);
    }
    *ret = (struct tensor){.dtype = dtype, .shape = shape, .data = data, .owned = 1};
    return 0;
}

static int copy_strings(struct tensor *dst, const struct tensor *src, struct err *err)
{
    struct tensor_string *to = dst->data;
    const struct tensor_string *from = src->data;
    int64_t n = tensor_elements(src);

    for (int64_t i = 0; i < n; i++) {
        if (from[i].len_bytes == 0)
            continue;
        to[i].bytes = malloc(from[i].len_bytes);
        if (to[i].bytes == NULL)
            return err_set(err, ERR_NOMEM, "no memory for a string of %zu bytes",
                           from[i].len_bytes);
        memcpy(to[i].bytes, from[i].bytes, from[i].len_bytes);
        to[i].len_bytes = from[i].len_bytes;
    }
    return 0;
}

int tensor_copy(struct tensor *ret, const struct tensor *src, struct err *err)
{
    struct tensor copy;
    int rc = tensor_alloc(&copy, src->dtype, src->shape, err);

    if (rc != 0)
        return rc;
    if (src->dtype == DT_STRING)
        rc = copy_strings(&copy, src, err);
    else if (copy.data != NULL)
        memcpy(copy.data, src->data, tensor_bytes(src));
    if (rc != 0) {
        tensor_free(&copy);
        return rc;
    }
    *ret = copy;
    return 0;
}

void tensor_free(struct tensor *t)
{
    if (t->owned && t->dtype == DT_STRING) {
        struct tensor_string *s = t->data;
        int64_t n = tensor_elements(t);

        for (int64_t i = 0; i < n; i++)
            free(s[i].bytes);
    }
    if (t->owned)
        free(t->data);
    *t = TENSOR_NONE;
}

int64_t tensor_elements(const struct tensor *t)
{
    int64_t n = shape_elements(&t->shape);

    CHECK(n >= 0, "shape %s", shape_text(&t->shape));
    return n;
}

size_t tensor_bytes(const struct tensor *t)
{
    return (size_t)tensor_elements(t) * dtype_size(t->dtype);
}

int tensor_equal(const struct tensor *a, const struct tensor *b)
{
    const struct tensor_string *x = a->data, *y = b->data;
    size_t bytes;

    if (a->dtype != b->dtype || !shape_equal(&a->shape, &b->shape))
        return 0;
    if (a->dtype != DT_STRING) {
        bytes = tensor_bytes(a);
        return bytes == 0 || memcmp(a->data, b->data, bytes) == 0;
    }
    for (int64_t i = 0; i < tensor_elements(a); i++)
        if (x[i].len_bytes != y[i].len_bytes ||
            (x[i].len_bytes > 0 && memcmp(x[i].bytes, y[i].bytes, x[i].len_bytes) != 0))
            return 0;
    return 1;
}

/* The exponent of infinities and NaNs is all ones. The loop uses integers and has no
 * early exit, so that the compiler can vectorise it. */
int tensor_finite_f32(const float *x, size_t n)
{
    uint32_t carried = 0; /* carry out of an exponent that is all ones */

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, &x[i], sizeof(bits));
        carried |= (bits & 0x7f800000u) + 0x00800000u;
    }
    return carried >> 31 == 0;
}

int tensor_expect_finite(const struct tensor *t, const char *what, struct err *err)
{
    const size_t n = (size_t)tensor_elements(t);
    const float *x = tensor_f32(t);
    size_t i = 0;

    if (t->dtype != DT_FLOAT || tensor_finite_f32(x, n))
        return 0;
    while (isfinite(x[i]))
        i++;
    return err_set(err, ERR_NONFINITE, "%s: %g at element %zu", what, (double)x[i], i);
}

#define SETTLE(T, nan)                                                                   \
    {                                                                                    \
        T *x = t->data;                                                                  \
        for (size_t i = 0; i < n; i++)                                                   \
            x[i] = x[i] != x[i] ? (T)(nan) : x[i];                                       \
    }

void tensor_canonical_nans(const struct tensor *t)
{
    const size_t n = t->data != NULL ? (size_t)tensor_elements(t) : 0;

    if (t->dtype == DT_FLOAT)
        SETTLE(float, __builtin_nanf(""))
    else if (t->dtype == DT_DOUBLE)
        SETTLE(double, __builtin_nan(""))
}
