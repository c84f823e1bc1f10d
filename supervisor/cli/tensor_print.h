/* tensor_print.h - prints tensors on stdout, for `brood inspect` and `brood graph`.
 *
 * Text    as tensorflow.python.tools.inspect_checkpoint prints it.
 * JSON    one object per line.
 */
#ifndef SUPERVISOR_CLI_TENSOR_PRINT_H
#define SUPERVISOR_CLI_TENSOR_PRINT_H

#include "common/tensor/tensor.h"
#include "supervisor/metrics/json.h"

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
