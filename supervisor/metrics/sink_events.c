/* Event files: TFRecords of the Event, Summary and Value messages. */
#include "supervisor/metrics/sinks.h"

#include "common/ckpt/histogram.h"
#include "common/ckpt/protowire.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/elementary.h"
#include "common/text/scan.h"
#include "common/wire/crc32c.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_PREFIX "events.out.tfevents."

enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_GRAPH_DEF = 4,
    EVENT_SUMMARY = 5
};
enum {
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE_VALUE = 2,
    VALUE_IMAGE = 4,
    VALUE_HISTO = 5
};
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_COLORSPACE = 3, IMAGE_ENCODED = 4 };
enum { COLORSPACE_RGB = 3 };

struct event_sink {
    char *path;
    int fd;
    int has_graph;
    struct wbuf event, record; /* reused */
    size_t summary;            /* begun in `event` */
};

static void begin_event(struct event_sink *s, double wall_time)
{
    wbuf_clear(&s->event);
    pw_put_fixed64(&s->event, EVENT_WALL_TIME, bits_of_f64(wall_time));
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
    struct event_sink *s = xcalloc(1, sizeof(*s));
    int rc;

    s->path = xasprintf("%s/" FILE_PREFIX "%010lld.%s", dir, (long long)wall_time, host);
    s->fd = beneath_open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0666);
    if (s->fd < 0) {
        rc = err_errno(err, "%s", s->path);
        event_sink_close(s);
        return rc;
    }
    begin_event(s, wall_time);
    pw_put_text(&s->event, EVENT_FILE_VERSION, "brain.Event:2");
    rc = write_record(s, err);
    if (rc < 0)
        event_sink_close(s);
    else
        *ret = s;
    return rc;
}

int event_sink_write_graph(struct event_sink *s, const void *graph_def, size_t len,
                           double wall_time, struct err *err)
{
    int rc;

    begin_event(s, wall_time);
    pw_put_bytes(&s->event, EVENT_GRAPH_DEF, graph_def, len);
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

/* ---- summaries ---- */

static void begin_summary(struct event_sink *s, uint64_t step, double wall_time)
{
    begin_event(s, wall_time);
    pw_put_varint(&s->event, EVENT_STEP, step);
    s->summary = pw_begin(&s->event, EVENT_SUMMARY);
}

static int end_summary(struct event_sink *s, struct err *err)
{
    pw_end(&s->event, s->summary);
    return write_record(s, err);
}

int event_sink_write(struct event_sink *s, const struct metrics_row *row,
                     double wall_time, struct err *err)
{
    begin_summary(s, row->env_steps, wall_time);
    for (size_t i = 0; i < row->n; i++) {
        size_t value;

        if (isnan(row->values[i]))
            continue;
        value = pw_begin(&s->event, SUMMARY_VALUE);
        pw_put_text(&s->event, VALUE_TAG, row->names[i]);
        pw_put_float(&s->event, VALUE_SIMPLE_VALUE, (float)row->values[i]);
        pw_end(&s->event, value);
    }
    return end_summary(s, err);
}

int event_sink_write_image(struct event_sink *s, uint64_t step, const char *tag,
                           const struct event_image *image, double wall_time,
                           struct err *err)
{
    size_t value, message;

    begin_summary(s, step, wall_time);
    value = pw_begin(&s->event, SUMMARY_VALUE);
    pw_put_text(&s->event, VALUE_TAG, tag);
    message = pw_begin(&s->event, VALUE_IMAGE);
    pw_put_varint(&s->event, IMAGE_HEIGHT, image->height);
    pw_put_varint(&s->event, IMAGE_WIDTH, image->width);
    pw_put_varint(&s->event, IMAGE_COLORSPACE, COLORSPACE_RGB);
    pw_put_bytes(&s->event, IMAGE_ENCODED, image->data, image->len);
    pw_end(&s->event, message);
    pw_end(&s->event, value);
    return end_summary(s, err);
}

/* Of its finite elements; nothing without any. */
static void put_histogram(struct wbuf *b, const struct event_tensor *t)
{
    struct histogram h = histogram_empty();
    size_t value, message;

    for (size_t i = 0; i < t->n; i++)
        if (isfinite(t->data[i]))
            histogram_add(&h, (double)t->data[i]);
    if (h.n == 0)
        return;
    value = pw_begin(b, SUMMARY_VALUE);
    pw_put_text(b, VALUE_TAG, t->tag);
    message = pw_begin(b, VALUE_HISTO);
    histogram_put(b, &h);
    pw_end(b, message);
    pw_end(b, value);
}

int event_sink_write_histograms(struct event_sink *s, uint64_t step,
                                const struct event_tensor *tensors, size_t n,
                                double wall_time, struct err *err)
{
    begin_summary(s, step, wall_time);
    for (size_t i = 0; i < n; i++)
        put_histogram(&s->event, &tensors[i]);
    return end_summary(s, err);
}

/* ---- continuing a file ---- */

/* Parses one event; *ret_step is 0 if it has none. Returns 0 if it has a field of a wire
 * type that this sink does not write, or is malformed. */
static int read_event(const uint8_t *data, size_t len, uint64_t *ret_step, int *ret_graph)
{
    struct cursor c = cursor_of(data, len);
    struct pw_field f;

    *ret_step = 0;
    *ret_graph = 0;
    while (pw_next(&c, &f)) {
        if (f.type == PW_FIXED32)
            return 0;
        if (f.type == PW_VARINT && f.number == EVENT_STEP)
            *ret_step = f.value;
        *ret_graph |= f.type == PW_LEN && f.number == EVENT_GRAPH_DEF;
    }
    return !c.failed;
}

/* of a record: its length with a CRC, and the CRC of its data */
enum { HEAD_BYTES = 12, TAIL_BYTES = 4 };

/* Returns the length of the data of the record that begins with `head`; 0: of none that has an
 * event and ends within `left` bytes. */
static size_t data_bytes(const uint8_t head[static HEAD_BYTES], uint64_t left)
{
    struct cursor c = cursor_of(head, HEAD_BYTES);
    const uint64_t len = cursor_u64(&c);

    if (cursor_u32(&c) != crc32c_mask(crc32c(head, sizeof(len))) ||
        left < HEAD_BYTES + TAIL_BYTES || len > left - HEAD_BYTES - TAIL_BYTES)
        return 0;
    return (size_t)len;
}

/* Returns 1 if the data of a record, with the CRC after it, are intact and at or before
 * env_steps. */
static int keep_record(const uint8_t *data, size_t len, uint64_t env_steps,
                       int *has_graph)
{
    struct cursor tail = cursor_of(data + len, TAIL_BYTES);
    uint64_t step;
    int graph;

    if (cursor_u32(&tail) != crc32c_mask(crc32c(data, len)) ||
        !read_event(data, len, &step, &graph) || step > env_steps)
        return 0;
    *has_graph |= graph;
    return 1;
}

/* Returns where the file's last record to keep ends, or -1 with errno set. */
static off_t find_end(FILE *f, uint64_t size, uint64_t env_steps, int *has_graph)
{
    uint8_t head[HEAD_BYTES], *data = NULL;
    uint64_t end = 0;
    size_t len;

    while (fread(head, 1, sizeof(head), f) == sizeof(head) &&
           (len = data_bytes(head, size - end)) > 0) {
        data = xrealloc(data, len + TAIL_BYTES);
        if (fread(data, 1, len + TAIL_BYTES, f) < len + TAIL_BYTES ||
            !keep_record(data, len, env_steps, has_graph))
            break;
        end += HEAD_BYTES + len + TAIL_BYTES;
    }
    free(data);
    return ferror(f) ? -1 : (off_t)end;
}

/* Not through a map: a disk that fails to read one is a signal. */
static int cut_file(int fd, uint64_t env_steps, int *has_graph)
{
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *f = copy >= 0 ? fdopen(copy, "r") : NULL;
    struct stat st;
    off_t end = -1;
    int why;

    if (f == NULL && copy >= 0)
        (void)close(copy);
    if (f == NULL)
        return -1;
    if (fstat(fd, &st) == 0)
        end = find_end(f, (uint64_t)st.st_size, env_steps, has_graph);
    why = errno;
    (void)fclose(f);
    errno = why;
    return end < 0 ? -1 : ftruncate(fd, end);
}

static int is_event_file(const struct dirent *e)
{
    return text_after(e->d_name, FILE_PREFIX) != NULL;
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
    for (int i = 0; i < n; i++) { /* each is cut; the last one stays open */
        if (rc == 0) {
            if (s->fd >= 0)
                (void)close(s->fd);
            free(s->path);
            s->path = xasprintf("%s/%s", dir, files[i]->d_name);
            s->fd = beneath_open(s->path, O_RDWR | O_APPEND, 0);
            if (s->fd < 0 || cut_file(s->fd, env_steps, &s->has_graph) < 0)
                rc = err_errno(err, "%s: cannot cut", s->path);
        }
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
    wbuf_done(&s->record);
    free(s->path);
    free(s);
}

/* ---- a folder of events, begun when there is the first one ---- */

struct event_folder {
    char *dir, *host;
    struct event_sink *sink; /* NULL: nothing was written yet */
    int64_t newest;          /* the newest step that is written; -1: none */
};

struct event_folder *event_folder_new(const char *dir, const char *host)
{
    struct event_folder *f = xcalloc(1, sizeof(*f));

    f->dir = xstrdup(dir);
    f->host = xstrdup(host);
    f->newest = -1;
    return f;
}

int event_folder_resume(struct event_folder *f, uint64_t step, double wall_time,
                        struct err *err)
{
    int rc = tree_look(f->dir, err);

    if (rc != 1)
        return rc;
    rc = event_sink_resume(&f->sink, f->dir, step, wall_time, f->host, err);
    if (rc == 0)
        f->newest = (int64_t)step;
    return rc;
}

int event_folder_begin(struct event_folder *f, uint64_t step, double wall_time,
                       struct event_sink **ret, struct err *err)
{
    int rc = 0;

    *ret = NULL;
    if ((int64_t)step <= f->newest)
        return 0;
    if (f->sink == NULL) {
        rc = tree_make(f->dir, err);
        if (rc == 0)
            rc = event_sink_open(&f->sink, f->dir, wall_time, f->host, err);
    }
    if (rc < 0)
        return rc;
    f->newest = (int64_t)step;
    *ret = f->sink;
    return 0;
}

void event_folder_free(struct event_folder *f)
{
    if (f == NULL)
        return;
    event_sink_close(f->sink);
    free(f->dir);
    free(f->host);
    free(f);
}
