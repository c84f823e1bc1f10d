/* json_unpack.h - JSON as msgpack, so that what reads requests knows one form of them.
 *
 * RFC 8259, without NaN and infinities; the text must be one value and nothing else. Numbers are
 * integers where they are written so and fit, otherwise doubles. Bounds: msg_unpack's, which reads the
 * result.
 */
#ifndef SUPERVISOR_SERVE_JSON_UNPACK_H
#define SUPERVISOR_SERVE_JSON_UNPACK_H

#include "common/err/err.h"

#include <msgpack.h>
#include <stddef.h>

/* Appends the value. text[len] must be 0. ERR_FORMAT: where it is malformed; ERR_LIMIT: too deep;
 * ERR_NOMEM. */
int json_unpack(msgpack_sbuffer *ret, const char *text, size_t len, struct err *err);

#endif
