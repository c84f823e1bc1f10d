#include "common/ckpt/snappy.h"

#include "common/wire/cursor.h"

#include <string.h>

/* an element of 3 bytes yields at most 64 bytes */
enum { MAX_EXPANSION = 22 };

int snappy_size(const uint8_t *data, size_t len_bytes, size_t *ret)
{
    struct cursor c = cursor_of(data, len_bytes);
    const uint32_t size = cursor_varint32(&c);

    *ret = size;
    return c.failed || size / MAX_EXPANSION > len_bytes ? -1 : 0;
}

/* Reads an n-byte little-endian number. */
static uint32_t little(struct cursor *c, int n)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++)
        v |= (uint32_t)cursor_u8(c) << 8 * i;
    return v;
}

struct output {
    uint8_t *data;
    size_t at, size;
};

static int put_literal(struct output *out, struct cursor *c, size_t n)
{
    const uint8_t *from = cursor_bytes(c, n);

    if (from == NULL || n > out->size - out->at)
        return -1;
    memcpy(out->data + out->at, from, n);
    out->at += n;
    return 0;
}

/* Copies n bytes from `offset` bytes back; if n is larger than the offset, they
 * repeat. */
static int put_copy(struct output *out, size_t offset, size_t n)
{
    if (offset == 0 || offset > out->at || n > out->size - out->at)
        return -1;
    for (; n > 0; n--, out->at++)
        out->data[out->at] = out->data[out->at - offset];
    return 0;
}

static int put_element(struct output *out, struct cursor *c)
{
    const uint8_t tag = cursor_u8(c);
    size_t n = (tag >> 2) + 1u, offset;

    switch (tag & 3) {
    case 0:
        if (n > 60)
            n = (size_t)little(c, (int)n - 60) + 1;
        return put_literal(out, c, n);
    case 1:
        offset = (size_t)(tag >> 5) << 8 | cursor_u8(c);
        n = (tag >> 2 & 7) + 4u;
        break;
    case 2:
        offset = little(c, 2);
        break;
    default:
        offset = little(c, 4);
    }
    return c->failed ? -1 : put_copy(out, offset, n);
}

int snappy_decode(const uint8_t *data, size_t len_bytes, uint8_t *dst, size_t size)
{
    struct cursor c = cursor_of(data, len_bytes);
    struct output out = {dst, 0, size};

    (void)cursor_varint32(&c);
    while (cursor_left(&c) > 0)
        if (put_element(&out, &c) < 0)
            return -1;
    return c.failed || out.at != size ? -1 : 0;
}
