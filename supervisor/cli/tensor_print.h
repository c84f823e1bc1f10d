/* tensor_print.h - finds tensors by the name that a person typed, and prints them on stdout.
 *
 * Text    a line as tensorflow.python.tools.inspect_checkpoint prints it; values as array_text.h.
 * JSON    one object per line.
 */
#ifndef SUPERVISOR_CLI_TENSOR_PRINT_H
#define SUPERVISOR_CLI_TENSOR_PRINT_H

#include "common/ckpt/bundle.h"
#include "common/tensor/tensor.h"
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

#endif
