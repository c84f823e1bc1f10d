/* TFRecord framing and the Event, Summary and Value messages, written by hand: four
 * fields of three messages do not pay for a protobuf library here. */
#include "supervisor/metrics/sinks.h"

#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2 };

struct event_sink {
    char *path;
    int fd;
    struct wbuf event, summary, value, record; /* reused */
};

static void put_tag(struct wbuf *b, int field, enum wire_type type)
{
    wbuf_varint(b, (uint64_t)field << 3 | (uint64_t)type);
}

static void put_bytes(struct wbuf *b, int field, const void *data, size_t len)
{
    put_tag(b, field, WIRE_BYTES);
    wbuf_varint(b, len);
    wbuf_bytes(b, data, len);
}

static void put_double(struct wbuf *b, int field, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    put_tag(b, field, WIRE_FIXED64);
    wbuf_u64(b, bits);
}

static void put_float(struct wbuf *b, int field, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    put_tag(b, field, WIRE_FIXED32);
    wbuf_u32(b, bits);
}

/* length, its masked CRC, the event, its masked CRC: in one write */
static int write_record(struct event_sink *s, struct err *err)
{
    const uint8_t *p;
    size_t left;

    wbuf_clear(&s->record);
    wbuf_u64(&s->record, s->event.len);
    wbuf_u32(&s->record, crc32c_mask(crc32c(s->record.data, s->record.len)));
    wbuf_bytes(&s->record, s->event.data, s->event.len);
    wbuf_u32(&s->record, crc32c_mask(crc32c(s->event.data, s->event.len)));

    p = s->record.data;
    left = s->record.len;
    while (left > 0) {
        ssize_t n = write(s->fd, p, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, "%s: cannot write", s->path);
        p += n;
        left -= (size_t)n;
    }
    return 0;
}

int event_sink_open(struct event_sink **ret, const char *dir, double wall_time,
                    const char *host, struct err *err)
{
    static const char version[] = "brain.Event:2";
    struct event_sink *s = xcalloc(1, sizeof(*s));
    int rc;

    s->path =
        xasprintf("%s/events.out.tfevents.%010lld.%s", dir, (long long)wall_time, host);
    s->fd = open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (s->fd < 0) {
        rc = err_errno(err, "%s", s->path);
        event_sink_close(s);
        return rc;
    }
    put_double(&s->event, EVENT_WALL_TIME, wall_time);
    put_bytes(&s->event, EVENT_FILE_VERSION, version, strlen(version));
    rc = write_record(s, err);
    if (rc < 0) {
        event_sink_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

int event_sink_write(struct event_sink *s, const struct metrics_row *row,
                     double wall_time, struct err *err)
{
    wbuf_clear(&s->summary);
    for (size_t i = 0; i < row->n; i++) {
        if (isnan(row->values[i]))
            continue;
        wbuf_clear(&s->value);
        put_bytes(&s->value, VALUE_TAG, row->names[i], strlen(row->names[i]));
        put_float(&s->value, VALUE_SIMPLE_VALUE, (float)row->values[i]);
        put_bytes(&s->summary, SUMMARY_VALUE, s->value.data, s->value.len);
    }
    wbuf_clear(&s->event);
    put_double(&s->event, EVENT_WALL_TIME, wall_time);
    put_tag(&s->event, EVENT_STEP, WIRE_VARINT);
    wbuf_varint(&s->event, row->env_steps);
    put_bytes(&s->event, EVENT_SUMMARY, s->summary.data, s->summary.len);
    return write_record(s, err);
}

void event_sink_close(struct event_sink *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        (void)close(s->fd);
    wbuf_done(&s->event);
    wbuf_done(&s->summary);
    wbuf_done(&s->value);
    wbuf_done(&s->record);
    free(s->path);
    free(s);
}
