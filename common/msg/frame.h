/* frame.h - bytes in, whole messages out; no I/O.
 *
 * Between supervisor and agent each message is a frame: a 4-byte little-endian length,
 * then that many bytes of msgpack. A frame is complete, and its size checked, before
 * msgpack-c sees a byte of it. The buffer grows with the bytes that have really come,
 * never by what a length promises, and shrinks again when FRAME_SHRINK_AFTER messages in a
 * row would have done with a quarter of it.
 */
#ifndef COMMON_MSG_FRAME_H
#define COMMON_MSG_FRAME_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_BYTES 4u
#define FRAME_SHRINK_AFTER 4096u
#define FRAME_MAX_BYTES    (64u << 20) /* the longest message either side accepts */

struct frame_reader {
    uint8_t *data;    /* private */
    size_t len, cap;  /* private: bytes held, room */
    size_t start;     /* private: first byte not yet handed out */
    unsigned n_small; /* private: messages since one that took a quarter of the room */
    size_t max_bytes; /* longest message accepted */
};

void frame_reader_init(struct frame_reader *r, size_t max_bytes);
void frame_reader_done(struct frame_reader *r);

/* Where to read into: at least 1 byte of room, at most a bounded step more than what has
 * arrived. Then say how many bytes came. ERR_NOMEM. */
int frame_reader_room(struct frame_reader *r, uint8_t **ret, size_t *ret_size,
                      struct err *err);
void frame_reader_filled(struct frame_reader *r, size_t n);

/* 1: a message, in place until the next frame_reader call; 0: not yet whole;
 * ERR_LIMIT: a length over max_bytes; ERR_FORMAT: a length of 0. */
int frame_reader_next(struct frame_reader *r, const uint8_t **ret, size_t *ret_len,
                      struct err *err);
/* Bytes of a frame that has begun but is not whole (end of file here is an error). */
size_t frame_reader_pending(const struct frame_reader *r);

#endif
