/* array_strings.h - tensors of strings from text, and from and to NumPy's arrays of them.
 *
 * Text     without a bracket in front, all of it is one string. Otherwise strings in quotes,
 *          "..." or '...', in nested brackets, separated by commas; \n, \t, \r, \\, a quote and
 *          \xHH are escapes.
 * NumPy    |S (bytes: zeros at the end are not a part) is read and written, <U (unicode, to
 *          UTF-8) is read.
 * Errors   ERR_ARG: malformed text. ERR_FORMAT: malformed data. ERR_LIMIT.
 */
#ifndef SUPERVISOR_CLI_ARRAY_STRINGS_H
#define SUPERVISOR_CLI_ARRAY_STRINGS_H

#include "common/err/err.h"
#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

#include <stddef.h>

/* ret owns its strings. */
int array_strings_parse(struct tensor *ret, const char *text, size_t len,
                        struct err *err);
/* A scalar of these bytes. */
int array_strings_one(struct tensor *ret, const void *bytes, size_t len, struct err *err);

/* Elements of NumPy's type `descr`, "|S5" or "<U5", one after another. ERR_UNSUPPORTED: another
 * type. */
int array_strings_from_npy(struct tensor *ret, const char *descr,
                           const struct shape *shape, struct cursor data,
                           struct err *err);
/* The bytes of each element of an array that NumPy has of these strings: at least 1. */
size_t array_strings_width(const struct tensor *t);
/* Appends the array's elements. */
void array_strings_put_npy(struct wbuf *b, const struct tensor *t);

#endif
