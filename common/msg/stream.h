/* stream.h - finds the end of each message in a stream of msgpack without frames, as on a
 * control socket.
 *
 * It reads only the heads of objects, each once, and allocates nothing; msg_parse checks
 * the complete message. A head that declares more than fits into max_bytes is ERR_LIMIT.
 */
#ifndef COMMON_MSG_STREAM_H
#define COMMON_MSG_STREAM_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct stream_scan { /* private */
    size_t max_bytes, at;
    uint64_t promised; /* objects declared but not read yet */
};

void stream_scan_begin(struct stream_scan *s, size_t max_bytes);
/* data: all bytes received so far, from the message's first byte on. Returns 1 if the
 * message ends at *ret_len, 0 if it is not complete yet. ERR_FORMAT, ERR_LIMIT. */
int stream_scan(struct stream_scan *s, const uint8_t *data, size_t len, size_t *ret_len,
                struct err *err);

#endif
