/* tensor.h - a dense, row-major array: a view of borrowed memory, or its owner.
 *
 * A `struct tensor` is a value of a few words; copying it copies the view. Only tensors
 * from tensor_alloc and tensor_copy own their data, and tensor_free frees only owned
 * data. Elements of DT_STRING are `struct tensor_string`; an owner also owns their
 * bytes.
 */
#ifndef COMMON_TENSOR_TENSOR_H
#define COMMON_TENSOR_TENSOR_H

#include "common/err/err.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"

struct tensor {
    enum dtype dtype;
    struct shape shape; /* fully known */
    void *data;         /* 64-byte aligned if owned; may be NULL for 0 elements */
    int owned;
};

struct tensor_string {
    char *bytes; /* not NUL-terminated */
    size_t len_bytes;
};

#define TENSOR_NONE ((struct tensor){0})

/* A view; data is borrowed. */
static inline struct tensor tensor_view(enum dtype dtype, struct shape shape, void *data)
{
    return (struct tensor){.dtype = dtype, .shape = shape, .data = data};
}

/* A view for functions that only read (feeds, writers). */
static inline struct tensor tensor_const_view(enum dtype dtype, struct shape shape,
                                              const void *data)
{
    /* the callee promises not to write; struct tensor has one pointer for both kinds of
     * view */
    return tensor_view(dtype, shape, (void *)(uintptr_t)data);
}

/* A view of one element. */
struct tensor tensor_scalar_f32(const float *x);
struct tensor tensor_scalar_i64(const int64_t *x);

/* Zeroed memory of its own. ERR_SHAPE (not fully known), ERR_NOMEM, ERR_DTYPE. */
int tensor_alloc(struct tensor *ret, enum dtype dtype, struct shape shape,
                 struct err *err);
/* A deep copy that owns its data. */
int tensor_copy(struct tensor *ret, const struct tensor *src, struct err *err);
void tensor_free(struct tensor *t); /* does nothing for TENSOR_NONE and views */

int64_t tensor_elements(const struct tensor *t);
size_t tensor_bytes(const struct tensor *t); /* 0 for strings */
/* Same dtype, shape and bytes. */
int tensor_equal(const struct tensor *a, const struct tensor *b);

/* Whether all values are finite. */
int tensor_finite_f32(const float *x, size_t n);
/* ERR_NONFINITE: "<what>: nan at element 17" for float32; other types are finite. The data need not
 * be aligned. */
int tensor_expect_finite(const struct tensor *t, const char *what, struct err *err);
/* Replaces every NaN with the canonical one (positive, quiet, no payload), since
 * processors differ in which NaN an operation gives. Only changes float32 and float64. */
void tensor_canonical_nans(const struct tensor *t);

static inline float *tensor_f32(const struct tensor *t)
{
    return t->data;
}

#endif
