/* tensor.h - a dense, row-major array: a view of someone's memory, or its owner.
 *
 * A `struct tensor` is a value of a few words; copying it copies the view. Only tensors
 * from tensor_alloc own their data, and tensor_free frees exactly those.
 * DT_STRING elements are `struct tensor_string`; an owner owns their bytes too.
 */
#ifndef COMMON_TENSOR_TENSOR_H
#define COMMON_TENSOR_TENSOR_H

#include "common/err/err.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"

struct tensor {
    enum dtype dtype;
    struct shape shape; /* fully known */
    void *data;         /* 64-byte aligned when owned; may be NULL for 0 elements */
    int owned;
};

struct tensor_string {
    char *bytes; /* not terminated */
    size_t len_bytes;
};

#define TENSOR_NONE ((struct tensor){0})

/* A view; data is borrowed. */
static inline struct tensor tensor_view(enum dtype dtype, struct shape shape, void *data)
{
    return (struct tensor){.dtype = dtype, .shape = shape, .data = data};
}

/* A read-only view, for callees that promise to only read (feeds, writers). */
static inline struct tensor tensor_const_view(enum dtype dtype, struct shape shape,
                                              const void *data)
{
    /* The promise is the callee's; the struct has one pointer for both kinds of view. */
    return tensor_view(dtype, shape, (void *)(uintptr_t)data);
}

/* Views of one element: tensor_f32(&x). */
struct tensor tensor_scalar_f32(const float *x);
struct tensor tensor_scalar_i64(const int64_t *x);

/* Zeroed storage of its own. ERR_SHAPE (not fully known), ERR_NOMEM, ERR_DTYPE. */
int tensor_alloc(struct tensor *ret, enum dtype dtype, struct shape shape,
                 struct err *err);
/* A deep copy that owns its data. */
int tensor_copy(struct tensor *ret, const struct tensor *src, struct err *err);
void tensor_free(struct tensor *t); /* TENSOR_NONE and views are fine */

int64_t tensor_elements(const struct tensor *t);
size_t tensor_bytes(const struct tensor *t); /* 0 for strings */
/* Same dtype, shape and bytes. */
int tensor_equal(const struct tensor *a, const struct tensor *b);

/* Neither an infinity nor a NaN among them. */
int tensor_finite_f32(const float *x, size_t n);
/* Every NaN becomes the same one (positive, quiet, no payload): which of them an operation
 * gives differs between processors. float32 and float64; others stay. */
void tensor_settle_nans(const struct tensor *t);

static inline float *tensor_f32(const struct tensor *t)
{
    return t->data;
}

#endif
