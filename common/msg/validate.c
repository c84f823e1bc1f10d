#include "common/msg/validate.h"

#include <stdint.h>

/* What the first byte of an object says about the rest of it. */
struct lead {
    int valid;
    unsigned count_bytes; /* width of the big-endian count that follows; 0: `count` */
    uint32_t count;
    unsigned extra_bytes;   /* after the count: an extension's type */
    unsigned n_per_element; /* objects per count: 1 array, 2 map, 0: count is bytes */
};

static struct lead lead_of(uint8_t b)
{
    if (b <= 0x7f || b >= 0xe0) /* small integers */
        return (struct lead){.valid = 1};
    if (b <= 0x8f)
        return (struct lead){.valid = 1, .count = b & 0x0f, .n_per_element = 2};
    if (b <= 0x9f)
        return (struct lead){.valid = 1, .count = b & 0x0f, .n_per_element = 1};
    if (b <= 0xbf) /* short strings */
        return (struct lead){.valid = 1, .count = b & 0x1f};
    switch (b) {
    case 0xc0: /* nil */
    case 0xc2: /* false */
    case 0xc3: /* true */
        return (struct lead){.valid = 1};
    case 0xc4: /* bin */
    case 0xc5:
    case 0xc6:
        return (struct lead){.valid = 1, .count_bytes = 1u << (b - 0xc4)};
    case 0xc7: /* ext */
    case 0xc8:
    case 0xc9:
        return (struct lead){
            .valid = 1, .count_bytes = 1u << (b - 0xc7), .extra_bytes = 1};
    case 0xca: /* float32, float64 */
    case 0xcb:
        return (struct lead){.valid = 1, .count = 4u << (b - 0xca)};
    case 0xcc: /* uint8 .. uint64 */
    case 0xcd:
    case 0xce:
    case 0xcf:
        return (struct lead){.valid = 1, .count = 1u << (b - 0xcc)};
    case 0xd0: /* int8 .. int64 */
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return (struct lead){.valid = 1, .count = 1u << (b - 0xd0)};
    case 0xd4: /* fixext 1 .. 16 */
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return (struct lead){.valid = 1, .count = 1u << (b - 0xd4), .extra_bytes = 1};
    case 0xd9: /* str */
    case 0xda:
    case 0xdb:
        return (struct lead){.valid = 1, .count_bytes = 1u << (b - 0xd9)};
    case 0xdc: /* array */
    case 0xdd:
        return (struct lead){
            .valid = 1, .count_bytes = 2u << (b - 0xdc), .n_per_element = 1};
    case 0xde: /* map */
    case 0xdf:
        return (struct lead){
            .valid = 1, .count_bytes = 2u << (b - 0xde), .n_per_element = 2};
    default: /* 0xc1 is never used */
        return (struct lead){0};
    }
}

struct walk {
    const uint8_t *start, *p, *end;
    uint64_t promised;            /* objects still to come, in all open containers */
    uint64_t objects;             /* seen or promised */
    uint64_t open[MSG_MAX_DEPTH]; /* objects still to come, in each */
    unsigned depth;
};

static size_t bytes_left(const struct walk *w)
{
    return (size_t)(w->end - w->p);
}

static int cut_off(const struct walk *w, struct err *err)
{
    return err_set(err, ERR_FORMAT, "msgpack is cut off at byte %zu",
                   (size_t)(w->p - w->start));
}

static int enter_container(struct walk *w, uint64_t n, struct err *err)
{
    if (n == 0)
        return 0;
    if (w->depth == MSG_MAX_DEPTH)
        return err_set(err, ERR_LIMIT, "msgpack is nested deeper than %d", MSG_MAX_DEPTH);
    w->promised += n;
    w->objects += n;
    if (w->promised > bytes_left(w)) /* no object is shorter than a byte */
        return err_set(err, ERR_FORMAT,
                       "a msgpack container before byte %zu promises more than there is",
                       (size_t)(w->p - w->start));
    if (w->objects > MSG_MAX_OBJECTS)
        return err_set(err, ERR_LIMIT, "more than %u objects in one message",
                       MSG_MAX_OBJECTS);
    w->open[w->depth++] = n;
    return 0;
}

/* One object's head, and its payload unless it is a container. */
static int walk_object(struct walk *w, struct err *err)
{
    struct lead lead;
    uint64_t count;

    if (bytes_left(w) == 0)
        return cut_off(w, err);
    lead = lead_of(*w->p);
    if (!lead.valid)
        return err_set(err, ERR_FORMAT, "byte %zu is no msgpack",
                       (size_t)(w->p - w->start));
    w->p++;
    if (bytes_left(w) < lead.count_bytes + lead.extra_bytes)
        return cut_off(w, err);
    count = lead.count;
    for (unsigned i = 0; i < lead.count_bytes; i++)
        count = count << 8 | *w->p++;
    w->p += lead.extra_bytes;
    if (lead.n_per_element > 0)
        return enter_container(w, count * lead.n_per_element, err);
    if (bytes_left(w) < count)
        return cut_off(w, err);
    w->p += count;
    return 0;
}

int msgpack_validate(const void *data, size_t len, struct err *err)
{
    struct walk w = {.start = data, .p = data, .objects = 1};
    int rc;

    w.end = w.start + len;
    rc = walk_object(&w, err);
    while (rc == 0 && w.depth > 0) {
        if (w.open[w.depth - 1] == 0) {
            w.depth--;
            continue;
        }
        w.open[w.depth - 1]--;
        w.promised--;
        rc = walk_object(&w, err);
    }
    if (rc == 0 && w.p != w.end)
        return err_set(err, ERR_FORMAT, "%zu bytes are left over after the message",
                       bytes_left(&w));
    return rc;
}
