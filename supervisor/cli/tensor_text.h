/* tensor_text.h - tensors as text: printed for a person or as JSON, and read from what a person
 * gives, as text or as a file.
 *
 * Text     lists in brackets, as YAML and JSON write them, each innermost one on its own line.
 *          Numbers are the shortest decimals that read back as the same value; of half
 *          precision, as the same float32. All else is written as JSON writes it. Of more
 *          than 1000 elements, the first and last three of each dimension are printed.
 * Reading  YAML: a number, or lists of equal lengths, "[[1, 2], [3, 4]]", within the bounds of
 *          yaml_tree.h. In a file also rows of numbers as numpy.savetxt writes them: one
 *          row or one column is a vector, one number a scalar.
 * Strings  a text without a bracket in front, and a whole file that is no .npy, are one string.
 * .npy     values are converted to the requested dtype if it can hold them: float64 to float32
 *          is rounded, but a fraction is refused for an integer dtype.
 */
#ifndef SUPERVISOR_CLI_TENSOR_TEXT_H
#define SUPERVISOR_CLI_TENSOR_TEXT_H

#include "common/ckpt/bundle.h"
#include "common/tensor/tensor.h"
#include "supervisor/metrics/json.h"

#include <stdio.h>

/* "name (DT_FLOAT) [2,3]", as tensorflow.python.tools.inspect_checkpoint prints it */
void tensor_print_line(const char *name, enum dtype dtype, const struct shape *shape);
/* "tensor: name (float32) [2, 3]", then the values */
void tensor_print_value(const char *name, const struct tensor *value);
/* Puts the pairs "name", "dtype", "shape" and, unless value is NULL, "values" in
 * row-major order into an open object. name NULL: without it. */
void tensor_put_json(struct json *j, const char *name, enum dtype dtype,
                     const struct shape *shape, const struct tensor *value);
/* Prints an object of these pairs. */
void tensor_print_json(const char *name, enum dtype dtype, const struct shape *shape,
                       const struct tensor *value);
/* Writes the values, without a newline. */
void tensor_text_write(const struct tensor *t, FILE *f);

/* Whether text of that dtype can be read. */
int tensor_text_has(enum dtype dtype);
/* ret owns its data. ERR_ARG: a value does not fit, or lists differ in their lengths; ERR_LIMIT;
 * ERR_CONFIG: no YAML. */
int tensor_text_read(struct tensor *ret, const char *text, size_t len, enum dtype dtype,
                     struct err *err);
/* Reads the file as a tensor of that dtype; ret owns its data. The same errors, ERR_FORMAT,
 * ERR_UNSUPPORTED, ERR_DTYPE, -errno; the message names the file. */
int tensor_file_read(struct tensor *ret, const char *path, enum dtype dtype,
                     struct err *err);

/* Finds a tensor by the name that a person typed. ERR_NOT_FOUND: the message is TensorFlow's,
 * followed by the most similar name. */
int checkpoint_find_tensor(struct bundle_reader *r, const char *name,
                           const struct bundle_entry **ret, struct err *err);

#endif
