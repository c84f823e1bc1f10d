/* protowire.h - protobuf's wire format, field by field, without generated code.
 *
 * For the few small messages of checkpoints and event files.
 *
 * Writing  appends to a wbuf. Zeros are written, too. proto3 leaves zero scalars out: for
 *          it there is the _nonzero form.
 * Reading  one field at a time; length-delimited fields are views of the input:
 *
 *     while (pw_next(&c, &f)) {
 *         if (f.number == 1 && f.type == PW_VARINT)
 *             dtype = f.value;
 *     }
 *     if (c.failed) ...
 *
 * Source   https://protobuf.dev/programming-guides/encoding
 */
#ifndef COMMON_CKPT_PROTOWIRE_H
#define COMMON_CKPT_PROTOWIRE_H

#include "common/wire/cursor.h"

#include <stddef.h>
#include <stdint.h>

enum pw_type { PW_VARINT = 0, PW_FIXED64 = 1, PW_LEN = 2, PW_FIXED32 = 5 };

/* Pass negative integers as (uint64_t)v: protobuf encodes them in ten bytes. */
void pw_put_varint(struct wbuf *b, uint32_t field, uint64_t v);
void pw_put_varint_nonzero(struct wbuf *b, uint32_t field, uint64_t v);
void pw_put_fixed32(struct wbuf *b, uint32_t field, uint32_t v);
void pw_put_fixed64(struct wbuf *b, uint32_t field, uint64_t v);
void pw_put_float(struct wbuf *b, uint32_t field, float v);
void pw_put_bytes(struct wbuf *b, uint32_t field, const void *data, size_t n);
void pw_put_text(struct wbuf *b, uint32_t field, const char *s);

/* An embedded message consists of everything put between begin and end. They nest.
 *     size_t m = pw_begin(b, 2); pw_put_text(b, 1, "x"); pw_end(b, m); */
size_t pw_begin(struct wbuf *b, uint32_t field);
void pw_end(struct wbuf *b, size_t begun);

struct pw_field {
    uint32_t number;     /* 1 .. 2^29 - 1 */
    enum pw_type type;   /* what was on the wire: callers check it */
    uint64_t value;      /* of PW_VARINT, PW_FIXED64, PW_FIXED32 */
    struct cursor bytes; /* of PW_LEN */
};

/* Returns 1 and the next field, or 0 at the end; c->failed is set if the input is malformed.
 * Groups (obsolete) count as malformed. */
int pw_next(struct cursor *c, struct pw_field *ret);
/* The next field of that number that holds a message or text; 0: there is none. */
int pw_next_bytes(struct cursor *c, uint32_t number, struct cursor *ret);
/* The first one of a message. */
int pw_find_bytes(struct cursor message, uint32_t number, struct cursor *ret);
int pw_is_text(const struct cursor *bytes, const char *text);

#endif
