/* TFRecord framing and the Event, Summary and Value messages are encoded by hand: four
 * fields of three messages do not justify a protobuf library here. */
#include "common/io/beneath.h"
#include "common/io/write_all.h"
#include "supervisor/metrics/sinks.h"

#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "common/wire/cursor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_PREFIX "events.out.tfevents."

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_GRAPH_DEF = 4,
    EVENT_SUMMARY = 5
};
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2 };

struct event_sink {
    char *path;
    int fd;
    int has_graph;
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

/* length, its masked CRC, the event, its masked CRC */
static int write_record(struct event_sink *s, struct err *err)
{
    wbuf_clear(&s->record);
    wbuf_u64(&s->record, s->event.len);
    wbuf_u32(&s->record, crc32c_mask(crc32c(s->record.data, s->record.len)));
    wbuf_bytes(&s->record, s->event.data, s->event.len);
    wbuf_u32(&s->record, crc32c_mask(crc32c(s->event.data, s->event.len)));
    return append_whole(s->fd, s->path, s->record.data, s->record.len, err);
}

int event_sink_open(struct event_sink **ret, const char *dir, double wall_time,
                    const char *host, struct err *err)
{
    static const char version[] = "brain.Event:2";
    struct event_sink *s = xcalloc(1, sizeof(*s));
    int rc;

    s->path = xasprintf("%s/" FILE_PREFIX "%010lld.%s", dir, (long long)wall_time, host);
    s->fd = beneath_open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666);
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

int event_sink_write_graph(struct event_sink *s, const void *graph_def, size_t len,
                           double wall_time, struct err *err)
{
    int rc;

    wbuf_clear(&s->event);
    put_double(&s->event, EVENT_WALL_TIME, wall_time);
    put_bytes(&s->event, EVENT_GRAPH_DEF, graph_def, len);
    s->has_graph = 1;
    rc = write_record(s, err);
    wbuf_done(&s->event); /* later events are much shorter: free the buffer */
    wbuf_done(&s->record);
    return rc;
}

int event_sink_has_graph(const struct event_sink *s)
{
    return s->has_graph;
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

/* ---- continuing a file ---- */

/* Parses one event; *ret_step is 0 if it has none. Returns 0 if it has a field of a wire
 * type that this sink does not write, or is malformed. */
static int read_event(const uint8_t *data, size_t len, uint64_t *ret_step, int *ret_graph)
{
    struct cursor c = cursor_of(data, len);

    *ret_step = 0;
    *ret_graph = 0;
    while (cursor_left(&c) > 0) {
        uint64_t tag = cursor_varint64(&c);

        switch (tag & 7) {
        case WIRE_VARINT:
            if (tag >> 3 == EVENT_STEP)
                *ret_step = cursor_varint64(&c);
            else
                (void)cursor_varint64(&c);
            break;
        case WIRE_FIXED64:
            (void)cursor_u64(&c);
            break;
        case WIRE_BYTES:
            *ret_graph |= tag >> 3 == EVENT_GRAPH_DEF;
            (void)cursor_bytes(&c, (size_t)cursor_varint64(&c));
            break;
        default:
            return 0;
        }
    }
    return !c.failed;
}

/* Reads one record; returns 1 if it is complete, intact and at or before env_steps. */
static int keep_record(struct cursor *c, uint64_t env_steps, int *has_graph)
{
    const uint8_t *head = c->p, *data;
    uint64_t len = cursor_u64(c), step;
    uint32_t crc = cursor_u32(c);
    int graph;

    if (c->failed || crc != crc32c_mask(crc32c(head, sizeof(len))) ||
        len > cursor_left(c))
        return 0;
    data = cursor_bytes(c, (size_t)len);
    crc = cursor_u32(c);
    if (c->failed || crc != crc32c_mask(crc32c(data, (size_t)len)) ||
        !read_event(data, (size_t)len, &step, &graph) || step > env_steps)
        return 0;
    *has_graph |= graph;
    return 1;
}

static int cut_file(int fd, uint64_t env_steps, int *has_graph)
{
    struct stat st;
    const uint8_t *map;
    struct cursor c;
    off_t end = 0;

    if (fstat(fd, &st) < 0)
        return -1;
    if (st.st_size == 0)
        return 0;
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return -1;
    c = cursor_of(map, (size_t)st.st_size);
    while (keep_record(&c, env_steps, has_graph))
        end = c.p - map;
    (void)munmap((void *)(uintptr_t)map, (size_t)st.st_size);
    return ftruncate(fd, end);
}

static int is_event_file(const struct dirent *e)
{
    return strncmp(e->d_name, FILE_PREFIX, strlen(FILE_PREFIX)) == 0;
}

/* Opens one file and cuts it. Closes the previous file; the last one stays open. */
static int take_file(struct event_sink *s, const char *dir, const char *name,
                     uint64_t env_steps, struct err *err)
{
    if (s->fd >= 0)
        (void)close(s->fd);
    free(s->path);
    s->path = xasprintf("%s/%s", dir, name);
    s->fd = beneath_open(s->path, O_RDWR | O_APPEND, 0);
    if (s->fd < 0 || cut_file(s->fd, env_steps, &s->has_graph) < 0)
        return err_errno(err, "%s: cannot cut", s->path);
    return 0;
}

int event_sink_check(const char *dir, struct err *err)
{
    struct dirent **files = NULL;
    int n = beneath_scandir(dir, &files, is_event_file), rc = 0;

    if (n < 0)
        return err_errno(err, "%s", dir);
    for (int i = 0; i < n; i++) {
        char *path = xasprintf("%s/%s", dir, files[i]->d_name);
        const int fd = rc == 0 ? beneath_open(path, O_RDWR | O_APPEND, 0) : -1;

        if (fd >= 0)
            (void)close(fd);
        else if (rc == 0)
            rc = err_errno(err, "%s: cannot cut", path);
        free(path);
        free(files[i]);
    }
    free(files);
    return rc;
}

int event_sink_resume(struct event_sink **ret, const char *dir, uint64_t env_steps,
                      double wall_time, const char *host, struct err *err)
{
    struct dirent **files = NULL;
    int n = beneath_scandir(dir, &files, is_event_file), rc = 0;
    struct event_sink *s;

    if (n < 0)
        return err_errno(err, "%s", dir);
    s = xcalloc(1, sizeof(*s));
    s->fd = -1;
    for (int i = 0; i < n; i++) {
        if (rc == 0)
            rc = take_file(s, dir, files[i]->d_name, env_steps, err);
        free(files[i]);
    }
    free(files);
    if (rc < 0 || n == 0) {
        event_sink_close(s);
        return rc < 0 ? rc : event_sink_open(ret, dir, wall_time, host, err);
    }
    *ret = s;
    return 0;
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
