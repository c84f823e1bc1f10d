#include "common/ckpt/protowire.h"

#include <string.h>

static void put_tag(struct wbuf *b, uint32_t field, enum pw_type type)
{
    wbuf_varint(b, (uint64_t)field << 3 | (uint64_t)type);
}

void pw_put_varint(struct wbuf *b, uint32_t field, uint64_t v)
{
    put_tag(b, field, PW_VARINT);
    wbuf_varint(b, v);
}

void pw_put_varint_nonzero(struct wbuf *b, uint32_t field, uint64_t v)
{
    if (v != 0)
        pw_put_varint(b, field, v);
}

void pw_put_fixed32(struct wbuf *b, uint32_t field, uint32_t v)
{
    put_tag(b, field, PW_FIXED32);
    wbuf_u32(b, v);
}

void pw_put_fixed64(struct wbuf *b, uint32_t field, uint64_t v)
{
    put_tag(b, field, PW_FIXED64);
    wbuf_u64(b, v);
}

void pw_put_float(struct wbuf *b, uint32_t field, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    pw_put_fixed32(b, field, bits);
}

void pw_put_bytes(struct wbuf *b, uint32_t field, const void *data, size_t n)
{
    put_tag(b, field, PW_LEN);
    wbuf_varint(b, n);
    wbuf_bytes(b, data, n);
}

void pw_put_text(struct wbuf *b, uint32_t field, const char *s)
{
    pw_put_bytes(b, field, s, strlen(s));
}

size_t pw_begin(struct wbuf *b, uint32_t field)
{
    put_tag(b, field, PW_LEN);
    return b->len;
}

/* Moves the content to make room for its length, whose size is only known now. */
void pw_end(struct wbuf *b, size_t begun)
{
    size_t content = b->len - begun;
    size_t length;

    wbuf_varint(b, content);
    length = b->len - begun - content;
    if (content > 0) {
        uint8_t varint[10];

        memcpy(varint, b->data + b->len - length, length);
        memmove(b->data + begun + length, b->data + begun, content);
        memcpy(b->data + begun, varint, length);
    }
}

static int protowire_fail(struct cursor *c)
{
    c->failed = 1;
    return 0;
}

int pw_next(struct cursor *c, struct pw_field *ret)
{
    struct pw_field f = {0};
    uint32_t tag;

    if (c->failed || cursor_left(c) == 0)
        return 0;
    tag = cursor_varint32(c);
    f.number = tag >> 3;
    f.type = (enum pw_type)(tag & 7);
    if (f.number == 0)
        return protowire_fail(c);
    switch (f.type) {
    case PW_VARINT:
        f.value = cursor_varint64(c);
        break;
    case PW_FIXED64:
        f.value = cursor_u64(c);
        break;
    case PW_FIXED32:
        f.value = cursor_u32(c);
        break;
    case PW_LEN: {
        uint64_t n = cursor_varint64(c);
        const uint8_t *p = cursor_bytes(c, n);

        f.bytes = cursor_of(p, p != NULL ? n : 0);
        break;
    }
    default:
        return protowire_fail(c);
    }
    if (c->failed)
        return 0;
    *ret = f;
    return 1;
}

int pw_next_bytes(struct cursor *c, uint32_t number, struct cursor *ret)
{
    struct pw_field f;

    while (pw_next(c, &f))
        if (f.number == number && f.type == PW_LEN) {
            *ret = f.bytes;
            return 1;
        }
    return 0;
}

int pw_find_bytes(struct cursor message, uint32_t number, struct cursor *ret)
{
    return pw_next_bytes(&message, number, ret);
}

int pw_is_text(const struct cursor *bytes, const char *text)
{
    const size_t n = strlen(text);

    return cursor_left(bytes) == n && memcmp(bytes->p, text, n) == 0;
}
