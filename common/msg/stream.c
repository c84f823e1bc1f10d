#include "common/msg/stream.h"

void stream_scan_begin(struct stream_scan *s, size_t max_bytes)
{
    *s = (struct stream_scan){.max_bytes = max_bytes, .promised = 1};
}

/* What an object's first byte says: `size` bytes of a count follow, then `extra` bytes and
 * as many as the count says, or that many times `elements` objects. */
struct head {
    unsigned size, extra, elements;
    uint64_t count;
};

static int head_of(uint8_t b, struct head *h)
{
    static const uint8_t fixed[] = {4, 8, 1, 2, 4, 8, 1, 2, 4, 8}; /* 0xca .. 0xd3 */

    *h = (struct head){0};
    if (b <= 0x7f || b >= 0xe0 || b == 0xc0 || b == 0xc2 || b == 0xc3)
        return 1;
    if (b <= 0x9f)
        *h = (struct head){.elements = b <= 0x8f ? 2 : 1, .count = b & 0x0f};
    else if (b <= 0xbf)
        h->count = b & 0x1f;
    else if (b >= 0xc4 && b <= 0xc6)
        h->size = 1u << (b - 0xc4);
    else if (b >= 0xc7 && b <= 0xc9)
        *h = (struct head){.size = 1u << (b - 0xc7), .extra = 1};
    else if (b >= 0xca && b <= 0xd3)
        h->count = fixed[b - 0xca];
    else if (b >= 0xd4 && b <= 0xd8)
        *h = (struct head){.extra = 1, .count = 1u << (b - 0xd4)};
    else if (b >= 0xd9 && b <= 0xdb)
        h->size = 1u << (b - 0xd9);
    else if (b >= 0xdc)
        *h = (struct head){.size = b & 1 ? 4 : 2, .elements = b >= 0xde ? 2 : 1};
    else
        return 0;
    return 1;
}

static int too_long(const struct stream_scan *s, struct err *err)
{
    return err_set(err, ERR_LIMIT, "a message of more than %zu bytes", s->max_bytes);
}

/* Steps over one head and, unless it is a container, what it heads. 0: not all of the head
 * is there. */
static int step(struct stream_scan *s, const uint8_t *data, size_t len, struct err *err)
{
    struct head h;
    size_t left;

    if (s->at >= len)
        return s->at > s->max_bytes ? too_long(s, err) : 0;
    if (!head_of(data[s->at], &h))
        return err_set(err, ERR_FORMAT, "byte %zu is no msgpack", s->at);
    if (len - s->at <= h.size)
        return 0;
    for (unsigned i = 1; i <= h.size; i++)
        h.count = h.count << 8 | data[s->at + i];
    s->at += 1 + h.size + h.extra;
    s->promised--;
    if (s->at > s->max_bytes)
        return too_long(s, err);
    left = s->max_bytes - s->at;
    if (h.elements > 0)
        s->promised += h.count * h.elements;
    else if (h.count <= left)
        s->at += (size_t)h.count;
    else
        return too_long(s, err);
    return s->promised > s->max_bytes - s->at ? too_long(s, err) : 1;
}

int stream_scan(struct stream_scan *s, const uint8_t *data, size_t len, size_t *ret_len,
                struct err *err)
{
    int rc = 1;

    while (rc > 0 && s->promised > 0)
        rc = step(s, data, len, err);
    *ret_len = s->at;
    return rc > 0 ? s->at <= len : rc;
}
