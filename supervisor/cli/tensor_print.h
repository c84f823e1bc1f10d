/* tensor_print.h - finds tensors by the name that a person typed, and prints them.
 *
 * Text    a line as tensorflow.python.tools.inspect_checkpoint prints it. Values are lists in
 *         brackets, as JSON and Python write them. Numbers are the shortest decimals that read
 *         back as the same value; of half precision, as the same float32. Strings are in double
 *         quotes, with array_read.h's escapes. A row stands on its own line and is broken after
 *         100 columns. Of more than 1000 elements, the first and last three of each dimension
 *         are printed. Complex numbers are not supported.
 * JSON    one object per line.
 */
#ifndef SUPERVISOR_CLI_TENSOR_PRINT_H
#define SUPERVISOR_CLI_TENSOR_PRINT_H

#include "common/ckpt/bundle.h"
#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"
#include "supervisor/metrics/json.h"

/* ERR_NOT_FOUND: the message is TensorFlow's, followed by the most similar name. */
int checkpoint_find_tensor(struct bundle_reader *r, const char *name,
                           const struct bundle_entry **ret, struct err *err);
/* "name (DT_FLOAT) [2,3]" */
void tensor_print_line(const char *name, enum dtype dtype, const struct shape *shape);
/* "tensor: name (float32) [2, 3]", then the array */
void tensor_print_value(const char *name, const struct tensor *value);
/* Puts the pairs "name", "dtype", "shape" and, unless value is NULL, "values" in
 * row-major order into an open object. name NULL: without it. */
void tensor_put_json(struct json *j, const char *name, enum dtype dtype,
                     const struct shape *shape, const struct tensor *value);
/* Prints an object of these pairs. */
void tensor_print_json(const char *name, enum dtype dtype, const struct shape *shape,
                       const struct tensor *value);

/* Appends the text, without a newline. */
void array_text_put(struct wbuf *b, const struct tensor *t);

/* Element i in row-major order; the dtype must be of the kind in the comment. */
double array_f64(const struct tensor *t, int64_t i);   /* floating */
int64_t array_i64(const struct tensor *t, int64_t i);  /* signed integers */
uint64_t array_u64(const struct tensor *t, int64_t i); /* unsigned integers and bool */
int array_is_signed(enum dtype dtype);

#endif
