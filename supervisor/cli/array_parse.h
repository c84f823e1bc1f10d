/* array_parse.h - tensors from text: elements in nested brackets, as array_text.h, JSON, Python's
 * lists and NumPy print them ("[[1, 2], [3, 4]]", "[[1. 2.]\n [3. 4.]]", "0.5", "True").
 *
 * Strings  without a bracket in front, all of the text is one string. Otherwise each is in quotes,
 *          "..." or '...'; \n, \t, \r, \\, a quote and \xHH are escapes.
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
/* Appends one string of any bytes. */
void array_parse_string(struct wbuf *b, const void *bytes, size_t len);
/* Makes a tensor of that shape of the elements collected in b, whose number must match, unless rc
 * is an error; releases b. Returns rc, or the error. */
int array_parse_finish(struct tensor *ret, struct wbuf *b, enum dtype dtype,
                       const struct shape *shape, int rc, struct err *err);

#endif
