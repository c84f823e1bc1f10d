/* array_text.h - tensors as text, the way NumPy prints arrays.
 *
 * Arrays have eight digits after the point and lines of at most 75 columns. Of more than
 * 1000 elements, only the first and last three of each dimension are printed. A scalar has
 * as many digits as distinguish it from its neighbours (a large whole number has all).
 * Half precision is printed as float32; complex numbers are not supported.
 *
 * Source   numpy/core/arrayprint.py (1.14 and later), with its default print options
 */
#ifndef SUPERVISOR_CLI_ARRAY_TEXT_H
#define SUPERVISOR_CLI_ARRAY_TEXT_H

#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

/* Appends str(array), without a newline. */
void array_text_put(struct wbuf *b, const struct tensor *t);

/* Element i in row-major order; the dtype must be of the kind in the comment. */
double array_f64(const struct tensor *t, int64_t i);   /* floating */
int64_t array_i64(const struct tensor *t, int64_t i);  /* signed integers */
uint64_t array_u64(const struct tensor *t, int64_t i); /* unsigned integers and bool */
int array_is_signed(enum dtype dtype);

#endif
