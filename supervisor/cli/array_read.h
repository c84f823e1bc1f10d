/* array_read.h - tensors from text, and from files: NumPy's .npy, or text.
 *
 * Text     elements in nested brackets, as tensor_print.h, JSON, Python's lists and NumPy print
 *          them ("[[1, 2], [3, 4]]", "[[1. 2.]\n [3. 4.]]", "0.5", "True"). In a file also rows
 *          of numbers as numpy.savetxt writes them: one row or one column is a vector, one
 *          number a scalar.
 * Strings  without a bracket in front, all of the text is one string. Otherwise each is in quotes,
 *          "..." or '...'; \n, \t, \r, \\, a quote and \xHH are escapes. All bytes of a file that
 *          is no .npy are one string.
 * .npy     versions 1 to 3, little-endian, C order. Values are converted to the requested
 *          dtype if it can hold them: float64 to float32 is rounded, but a fraction is
 *          refused for an integer dtype. Strings: |S (bytes: zeros at the end are not a part)
 *          and <U (unicode, to UTF-8).
 * Errors   ERR_ARG: malformed text, quoted in the message. ERR_LIMIT: nested too deeply.
 * Source   numpy/lib/format.py
 */
#ifndef SUPERVISOR_CLI_ARRAY_READ_H
#define SUPERVISOR_CLI_ARRAY_READ_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

#include <stddef.h>

/* Whether text of that dtype can be parsed. */
int array_parse_has(enum dtype dtype);

/* Elements are separated by blanks, commas or both; all rows of a dimension must have the
 * same length. ret owns its data. */
int array_parse(struct tensor *ret, const char *text, size_t len, enum dtype dtype,
                struct err *err);

/* Reads the file as a tensor of that dtype; ret owns its data. ERR_FORMAT, ERR_ARG,
 * ERR_LIMIT, ERR_UNSUPPORTED, -errno; the message names the file. */
int array_file_read(struct tensor *ret, const char *path, enum dtype dtype,
                    struct err *err);

/* NumPy's name of the dtype, such as "<f4"; NULL if NumPy has no such type. */
const char *npy_descr(enum dtype dtype);

#endif
