#include "common/msg/unpack.h"

#include "common/msg/lead.h"

#include <stdint.h>
#include <string.h>

/* A container with elements that are still to be read. */
struct level {
    msgpack_object *next;
    uint64_t left;
};

struct walk {
    const uint8_t *start, *p, *end;
    msgpack_zone *zone;
    uint64_t promised; /* objects of open containers that are still to be read */
    uint64_t objects;  /* objects read, or promised by a container */
    struct level open[MSG_MAX_DEPTH];
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

static int check_promise(const struct walk *w, uint64_t n, struct err *err)
{
    if (w->depth == MSG_MAX_DEPTH)
        return err_set(err, ERR_LIMIT, "msgpack is nested deeper than %d", MSG_MAX_DEPTH);
    if (w->promised + n > bytes_left(w)) /* an object is at least one byte long */
        return err_set(err, ERR_FORMAT,
                       "a msgpack container before byte %zu promises more than there is",
                       (size_t)(w->p - w->start));
    if (w->objects + n > MSG_MAX_OBJECTS)
        return err_set(err, ERR_LIMIT, "more than %u objects in one message",
                       MSG_MAX_OBJECTS);
    return 0;
}

/* Allocates the n objects of a container, which follow it. */
static int enter_container(struct walk *w, uint64_t n, msgpack_object **ret,
                           struct err *err)
{
    int rc;

    *ret = NULL;
    if (n == 0)
        return 0;
    if ((rc = check_promise(w, n, err)) < 0)
        return rc;
    *ret = msgpack_zone_malloc(w->zone, n * sizeof(**ret));
    if (*ret == NULL)
        return err_set(err, ERR_NOMEM, "no memory for a message");
    w->promised += n;
    w->objects += n;
    w->open[w->depth++] = (struct level){*ret, n};
    return 0;
}

_Static_assert(sizeof(msgpack_object_kv) == 2 * sizeof(msgpack_object),
               "a pair is a key, then its value");

static uint64_t take_count(struct walk *w, unsigned n_bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < n_bytes; i++)
        v = v << 8 | *w->p++;
    return v;
}

/* Reads a signed number of n bytes, or the small number that the first byte encodes. */
static void take_signed(msgpack_object *o, uint64_t v, unsigned n_bytes, uint8_t first)
{
    const unsigned unused = 64 - 8 * (n_bytes > 0 ? n_bytes : 1);

    o->via.i64 = (int64_t)((n_bytes > 0 ? v : first) << unused) >> unused;
    if (o->via.i64 >= 0)
        o->type = MSGPACK_OBJECT_POSITIVE_INTEGER;
}

static void take_float(msgpack_object *o, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float single;

    if (o->type == MSGPACK_OBJECT_FLOAT32) {
        memcpy(&single, &low, sizeof(single));
        o->via.f64 = (double)single;
    } else {
        memcpy(&o->via.f64, &bits, sizeof(bits));
    }
}

/* Reads a value that is no container. p points past its length; all of its bytes were
 * checked to be present. */
static void take_value(struct walk *w, uint8_t first, uint32_t count, msgpack_object *o)
{
    const char *bytes = (const char *)w->p;

    switch (o->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        o->via.boolean = first == 0xc3;
        break;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        o->via.u64 = count > 0 ? take_count(w, count) : first;
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        take_signed(o, take_count(w, count), count, first);
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        take_float(o, take_count(w, count));
        break;
    case MSGPACK_OBJECT_STR:
        o->via.str = (msgpack_object_str){count, bytes};
        w->p += count;
        break;
    case MSGPACK_OBJECT_BIN:
        o->via.bin = (msgpack_object_bin){count, bytes};
        w->p += count;
        break;
    case MSGPACK_OBJECT_EXT:
        o->via.ext = (msgpack_object_ext){(int8_t)bytes[-1], count, bytes};
        w->p += count;
        break;
    default: /* nil */
        break;
    }
}

/* Reads one object, or the head of a container. */
static int take_object(struct walk *w, msgpack_object *o, struct err *err)
{
    struct lead lead;
    msgpack_object *items;
    uint32_t count;
    uint8_t first;
    int rc;

    if (bytes_left(w) == 0)
        return cut_off(w, err);
    first = *w->p;
    lead = lead_of(first);
    if (!lead.valid)
        return err_set(err, ERR_FORMAT, "byte %zu is no msgpack",
                       (size_t)(w->p - w->start));
    w->p++;
    if (bytes_left(w) < lead.count_bytes + lead.extra_bytes)
        return cut_off(w, err);
    count = lead.count_bytes > 0 ? (uint32_t)take_count(w, lead.count_bytes) : lead.count;
    w->p += lead.extra_bytes;
    o->type = lead.type;
    if (lead.type == MSGPACK_OBJECT_MAP) {
        rc = enter_container(w, 2 * (uint64_t)count, &items, err);
        o->via.map = (msgpack_object_map){count, (msgpack_object_kv *)items};
        return rc;
    }
    if (lead.type == MSGPACK_OBJECT_ARRAY) {
        rc = enter_container(w, count, &items, err);
        o->via.array = (msgpack_object_array){count, items};
        return rc;
    }
    if (bytes_left(w) < count)
        return cut_off(w, err);
    take_value(w, first, count, o);
    return 0;
}

int msg_unpack(const void *data, size_t len, msgpack_zone *zone, msgpack_object *ret,
               struct err *err)
{
    struct walk w = {.start = data, .p = data, .zone = zone, .objects = 1};
    int rc;

    w.end = w.start + len;
    rc = take_object(&w, ret, err);
    while (rc == 0 && w.depth > 0) {
        struct level *top = &w.open[w.depth - 1];

        if (top->left == 0) {
            w.depth--;
            continue;
        }
        top->left--;
        w.promised--;
        rc = take_object(&w, top->next++, err);
    }
    if (rc == 0 && w.p != w.end)
        return err_set(err, ERR_FORMAT, "%zu bytes are left over after the message",
                       bytes_left(&w));
    return rc;
}
