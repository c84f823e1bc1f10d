#include "common/wire/cursor.h"

#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WBUF_FIRST_BYTES = 256 };

struct cursor cursor_of(const void *data, size_t len_bytes)
{
    const uint8_t *p = data;

    return (struct cursor){.p = p, .end = len_bytes > 0 ? p + len_bytes : p};
}

size_t cursor_left(const struct cursor *c)
{
    return (size_t)(c->end - c->p);
}

const uint8_t *cursor_bytes(struct cursor *c, size_t n)
{
    const uint8_t *at = c->p;

    if (c->failed || cursor_left(c) < n) {
        c->failed = 1;
        c->p = c->end;
        return NULL;
    }
    if (n > 0)
        c->p += n;
    return at;
}

uint8_t cursor_u8(struct cursor *c)
{
    const uint8_t *p = cursor_bytes(c, 1);

    return p != NULL ? *p : 0;
}

uint32_t cursor_u32(struct cursor *c)
{
    const uint8_t *p = cursor_bytes(c, 4);
    uint32_t v = 0;

    if (p != NULL)
        memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

uint64_t cursor_u64(struct cursor *c)
{
    const uint8_t *p = cursor_bytes(c, 8);
    uint64_t v = 0;

    if (p != NULL)
        memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

uint64_t cursor_varint64(struct cursor *c)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = cursor_u8(c);

        /* the tenth byte of a varint has only one bit */
        if (c->failed || (shift == 63 && byte > 1))
            break;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return v;
    }
    c->failed = 1;
    c->p = c->end;
    return 0;
}

uint32_t cursor_varint32(struct cursor *c)
{
    uint64_t v = cursor_varint64(c);

    if (v > UINT32_MAX) {
        c->failed = 1;
        c->p = c->end;
        return 0;
    }
    return (uint32_t)v;
}

void wbuf_done(struct wbuf *b)
{
    free(b->data);
    *b = (struct wbuf){0};
}

void wbuf_clear(struct wbuf *b)
{
    b->len = 0;
}

void wbuf_reserve(struct wbuf *b, size_t more)
{
    size_t cap = b->cap > 0 ? b->cap : WBUF_FIRST_BYTES;

    if (b->cap - b->len >= more)
        return;
    while (cap - b->len < more)
        cap *= 2;
    b->data = xrealloc(b->data, cap);
    b->cap = cap;
}

void wbuf_bytes(struct wbuf *b, const void *data, size_t n)
{
    if (n == 0)
        return;
    wbuf_reserve(b, n);
    memcpy(b->data + b->len, data, n);
    b->len += n;
}

void wbuf_u8(struct wbuf *b, uint8_t v)
{
    wbuf_bytes(b, &v, sizeof(v));
}

void wbuf_u32(struct wbuf *b, uint32_t v)
{
    v = htole32(v);
    wbuf_bytes(b, &v, sizeof(v));
}

void wbuf_u64(struct wbuf *b, uint64_t v)
{
    v = htole64(v);
    wbuf_bytes(b, &v, sizeof(v));
}

void wbuf_varint(struct wbuf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        wbuf_u8(b, (uint8_t)(v | 0x80));
    wbuf_u8(b, (uint8_t)v);
}

int wbuf_read_file(struct wbuf *b, const char *path, size_t max, struct err *err)
{
    const size_t begin = b->len;
    FILE *f = beneath_fopen(path, "rbe");
    size_t n;
    int rc = 0;

    if (f == NULL)
        return err_errno(err, "%s", path);
    do {
        wbuf_reserve(b, 1u << 16);
        n = fread(b->data + b->len, 1, 1u << 16, f);
        b->len += n;
    } while (n > 0 && b->len - begin <= max);
    if (ferror(f))
        rc = err_errno(err, "%s: read", path);
    else if (b->len - begin > max)
        rc =
            err_set(err, ERR_LIMIT, "%s: more than %zu %s", path,
                    max >> 20 > 0 ? max >> 20 : max >> 10, max >> 20 > 0 ? "MiB" : "KiB");
    (void)fclose(f);
    return rc;
}
