/* array_text.h - tensors as text: lists in brackets, as JSON and Python write them.
 *
 * Numbers are the shortest decimals that read back as the same value; of half precision, as the
 * same float32. Strings are in double quotes, with array_parse.h's escapes. A row stands on its
 * own line and is broken after 100 columns. Of more than 1000 elements, the first and last three
 * of each dimension are printed. Complex numbers are not supported.
 */
#ifndef SUPERVISOR_CLI_ARRAY_TEXT_H
#define SUPERVISOR_CLI_ARRAY_TEXT_H

#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

/* Appends the text, without a newline. */
void array_text_put(struct wbuf *b, const struct tensor *t);

/* Element i in row-major order; the dtype must be of the kind in the comment. */
double array_f64(const struct tensor *t, int64_t i);   /* floating */
int64_t array_i64(const struct tensor *t, int64_t i);  /* signed integers */
uint64_t array_u64(const struct tensor *t, int64_t i); /* unsigned integers and bool */
int array_is_signed(enum dtype dtype);

#endif
