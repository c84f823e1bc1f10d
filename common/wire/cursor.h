/* cursor.h - bounded little-endian reading, and a growing buffer to write into.
 *
 * Reading past the end, or a varint that is too long, sets `failed` and yields zeros from
 * then on, so that a parser checks once per record.
 */
#ifndef COMMON_WIRE_CURSOR_H
#define COMMON_WIRE_CURSOR_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

struct cursor {
    const uint8_t *p, *end;
    int failed;
};

struct cursor cursor_of(const void *data, size_t len_bytes);
size_t cursor_left(const struct cursor *c);
uint8_t cursor_u8(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
uint32_t cursor_varint32(struct cursor *c);
uint64_t cursor_varint64(struct cursor *c);
/* The next n bytes, not copied. NULL, with `failed` set, if fewer are left. */
const uint8_t *cursor_bytes(struct cursor *c, size_t n);

/* An all-zero struct is an empty buffer. Running out of memory ends the process, so use
 * it only for data whose size the program decides. */
struct wbuf {
    uint8_t *data;
    size_t len, cap;
};

void wbuf_done(struct wbuf *b);
void wbuf_clear(struct wbuf *b); /* keeps the memory */
void wbuf_reserve(struct wbuf *b, size_t more);
void wbuf_bytes(struct wbuf *b, const void *data, size_t n);
void wbuf_u8(struct wbuf *b, uint8_t v);
void wbuf_u32(struct wbuf *b, uint32_t v);
void wbuf_u64(struct wbuf *b, uint64_t v);
void wbuf_varint(struct wbuf *b, uint64_t v);
/* Appends a whole file of at most max bytes. ERR_LIMIT, -errno; the bytes read before the
 * error stay in b. */
int wbuf_read_file(struct wbuf *b, const char *path, size_t max, struct err *err);

#endif
