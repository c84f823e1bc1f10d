/* request.h - parses what the page sends: "7 set run=small-1&change=defaults.discount%3D0.9".
 *
 * A number, which the answer repeats; a method; pairs as in a URL's query (+ is a space).
 * Bounds   REQUEST_MAX_BYTES, REQUEST_MAX_PARAMS.
 */
#ifndef SUPERVISOR_WEB_REQUEST_H
#define SUPERVISOR_WEB_REQUEST_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

#define REQUEST_MAX_BYTES ((size_t)64 << 10)
enum { REQUEST_MAX_PARAMS = 256 };

struct request {
    uint32_t id;
    const char *method;
    size_t n;
    struct request_param {
        const char *key, *value;
    } param[REQUEST_MAX_PARAMS];
};

/* Parses in place: text[len] must be writable, and *ret points into the text. ERR_FORMAT,
 * ERR_LIMIT; ret->id is set if it could be read, otherwise 0. */
int request_parse(struct request *ret, char *text, size_t len, struct err *err);
/* Copies a request; free *ret_texts after the last use of the copy. */
void request_copy(struct request *ret, char **ret_texts, const struct request *from);
/* The first value of that key; NULL: there is none. */
const char *request_get(const struct request *r, const char *key);
/* The values of that key, in order: at most max; returns how many there are. */
size_t request_all(const struct request *r, const char *key, const char **ret,
                   size_t max);
/* Returns 1 and the number if the key is there and its value is a whole number. */
int request_u64(const struct request *r, const char *key, uint64_t *ret);

#endif
