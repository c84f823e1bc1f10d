/* array_file.h - a tensor from a file: NumPy's .npy, or text.
 *
 * .npy     versions 1 to 3, little-endian, C order; values are converted where the dtype
 *          wanted holds them (float64 to float32 is rounded, fractions are no integers).
 * Text     an array in brackets (array_parse.h), or rows of numbers as numpy.savetxt
 *          writes them: one row or one column is a vector, one number a scalar.
 * Source   numpy/lib/format.py
 */
#ifndef SUPERVISOR_CLI_ARRAY_FILE_H
#define SUPERVISOR_CLI_ARRAY_FILE_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"

/* ERR_FORMAT, ERR_ARG, ERR_LIMIT, ERR_UNSUPPORTED, -errno, naming the file. ret owns its
 * data. */
int array_file_read(struct tensor *ret, const char *path, enum dtype dtype,
                    struct err *err);

/* "<f4" of a dtype that NumPy has; NULL: it has none. */
const char *npy_descr(enum dtype dtype);

#endif
