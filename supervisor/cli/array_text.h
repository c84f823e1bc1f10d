/* array_text.h - tensors as text, the way NumPy prints arrays.
 *
 * Eight digits after the point, 75 columns, and of more than 1000 elements only the first
 * and last three of each dimension; a scalar with as many digits as tell it from its
 * neighbours (a large whole one with all). Half precision is printed as float32, complex
 * numbers not at all.
 *
 * Source   numpy/core/arrayprint.py (1.14 and later), print options as they come
 */
#ifndef SUPERVISOR_CLI_ARRAY_TEXT_H
#define SUPERVISOR_CLI_ARRAY_TEXT_H

#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

/* Appends str(array), without a newline. */
void array_text_put(struct wbuf *b, const struct tensor *t);

/* Element i in row-major order, of a dtype of that kind. */
double array_f64(const struct tensor *t, int64_t i);   /* floating */
int64_t array_i64(const struct tensor *t, int64_t i);  /* signed integers */
uint64_t array_u64(const struct tensor *t, int64_t i); /* unsigned integers and bool */
int array_is_signed(enum dtype dtype);

#endif
