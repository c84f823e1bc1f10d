/* stream.h - where messages end in a stream of bare msgpack, as on a control socket.
 *
 * Looks at heads only, each once, and allocates nothing; msg_parse judges the message when
 * it is whole. An object that promises more than max_bytes can hold is ERR_LIMIT.
 */
#ifndef COMMON_MSG_STREAM_H
#define COMMON_MSG_STREAM_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct stream_scan { /* private */
    size_t max_bytes, at;
    uint64_t promised; /* objects still to come */
};

void stream_scan_begin(struct stream_scan *s, size_t max_bytes);
/* data: all bytes since the message's first; more at every call. 1: it ends at *ret_len;
 * 0: it does not end yet. ERR_FORMAT, ERR_LIMIT. */
int stream_scan(struct stream_scan *s, const uint8_t *data, size_t len, size_t *ret_len,
                struct err *err);

#endif
