/* array_parse.h - tensors from text: numbers in nested brackets, as Python's lists or as
 * NumPy prints arrays ("[[1, 2], [3, 4]]", "[[1. 2.]\n [3. 4.]]", "0.5", "True").
 *
 * Dtypes   floating and whole numbers and bool; see array_parse_has. Strings: array_strings.h.
 * Errors   ERR_ARG: malformed text, quoted in the message. ERR_LIMIT: nested too deeply.
 */
#ifndef SUPERVISOR_CLI_ARRAY_PARSE_H
#define SUPERVISOR_CLI_ARRAY_PARSE_H

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

/* Appends the bytes of one number, e.g. "-1.5e3", "nan", "0x1.8p1", "7", "true". It must
 * fit the dtype: integers take no fractions. */
int array_parse_word(struct wbuf *b, enum dtype dtype, const char *word, struct err *err);
/* Makes a tensor of that shape from the bytes collected in b, whose number must match. */
int array_parse_finish(struct tensor *ret, const struct wbuf *b, enum dtype dtype,
                       const struct shape *shape, struct err *err);
/* Notes that a row of n elements ends, inside of `depth` brackets. shape: of what was read so
 * far, rank -1: no element yet, a dimension -1: no such row yet. what: "numbers". ERR_ARG: an
 * earlier row has another length. */
int array_parse_close_row(struct shape *shape, int depth, int64_t n, const char *what,
                          struct err *err);

#endif
