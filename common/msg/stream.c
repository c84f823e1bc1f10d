#include "common/msg/stream.h"

#include "common/msg/lead.h"

void stream_scan_begin(struct stream_scan *s, size_t max_bytes)
{
    *s = (struct stream_scan){.max_bytes = max_bytes, .promised = 1};
}

static int too_long(const struct stream_scan *s, struct err *err)
{
    return err_set(err, ERR_LIMIT, "a message of more than %zu bytes", s->max_bytes);
}

/* Skips one head and, unless the object is a container, its value. Returns 0 if the head
 * is incomplete. */
static int step(struct stream_scan *s, const uint8_t *data, size_t len, struct err *err)
{
    struct lead lead;
    uint64_t count = 0;

    if (s->at >= len)
        return s->at > s->max_bytes ? too_long(s, err) : 0;
    lead = lead_of(data[s->at]);
    if (!lead.valid)
        return err_set(err, ERR_FORMAT, "byte %zu is no msgpack", s->at);
    if (len - s->at <= lead.count_bytes)
        return 0;
    for (unsigned i = 1; i <= lead.count_bytes; i++)
        count = count << 8 | data[s->at + i];
    count += lead.count; /* one of the two is 0 */
    s->at += 1 + lead.count_bytes + lead.extra_bytes;
    s->promised--;
    if (s->at > s->max_bytes)
        return too_long(s, err);
    if (lead.type == MSGPACK_OBJECT_MAP)
        s->promised += 2 * count;
    else if (lead.type == MSGPACK_OBJECT_ARRAY)
        s->promised += count;
    else if (count <= s->max_bytes - s->at)
        s->at += (size_t)count;
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
