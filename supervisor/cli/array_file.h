/* array_file.h - a tensor from a file: NumPy's .npy, or text.
 *
 * .npy     versions 1 to 3, little-endian, C order. Values are converted to the requested
 *          dtype if it can hold them: float64 to float32 is rounded, but a fraction is
 *          refused for an integer dtype. Strings: |S (bytes: zeros at the end are not a part)
 *          and <U (unicode, to UTF-8).
 * Text     an array in brackets (array_parse.h), or rows of numbers as numpy.savetxt
 *          writes them: one row or one column is a vector, one number a scalar. For strings,
 *          all bytes of a file that is no .npy are one string.
 * Source   numpy/lib/format.py
 */
#ifndef SUPERVISOR_CLI_ARRAY_FILE_H
#define SUPERVISOR_CLI_ARRAY_FILE_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"

/* Reads the file as a tensor of that dtype; ret owns its data. ERR_FORMAT, ERR_ARG,
 * ERR_LIMIT, ERR_UNSUPPORTED, -errno; the message names the file. */
int array_file_read(struct tensor *ret, const char *path, enum dtype dtype,
                    struct err *err);

/* NumPy's name of the dtype, such as "<f4"; NULL if NumPy has no such type. */
const char *npy_descr(enum dtype dtype);

#endif
