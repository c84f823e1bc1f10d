/* frame.h - splits a stream of bytes into whole messages; no I/O.
 *
 * Between supervisor and agent each message is a frame: a 4-byte little-endian length,
 * then that many bytes of msgpack. The reader checks the length, and returns a frame only
 * when it is complete. Its buffer grows with the bytes received, never by the length that
 * a header declares. The buffer is halved after FRAME_SHRINK_AFTER messages in a row that
 * were shorter than a quarter of it.
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
    size_t len, cap;  /* private: bytes held, capacity */
    size_t start;     /* private: first byte not yet returned */
    unsigned n_small; /* private: messages since one of a quarter of cap or more */
    size_t max_bytes; /* longest message accepted */
};

void frame_reader_init(struct frame_reader *r, size_t max_bytes);
void frame_reader_done(struct frame_reader *r);

/* Returns where to read into, with room for at least 1 byte; the buffer grows by at most
 * 1 MiB. After reading, call frame_reader_filled with the number of bytes read.
 * ERR_NOMEM. */
int frame_reader_room(struct frame_reader *r, uint8_t **ret, size_t *ret_size,
                      struct err *err);
void frame_reader_filled(struct frame_reader *r, size_t n);

/* Returns 1 and a message, valid until the next frame_reader call; 0: it is not complete
 * yet. ERR_LIMIT: a length over max_bytes; ERR_FORMAT: a length of 0. */
int frame_reader_next(struct frame_reader *r, const uint8_t **ret, size_t *ret_len,
                      struct err *err);
/* Bytes held that were not returned; if any are left at end of file, that is an error. */
size_t frame_reader_pending(const struct frame_reader *r);

#endif
