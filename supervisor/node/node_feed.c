#include "supervisor/node/node_feed.h"

#include "common/mem/xmalloc.h"
#include "supervisor/node/node_protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Small enough that the node stores one while the next is under way. */
enum { PIECE_BYTES = 1 << 20, ROWS_HEAD_BYTES = 4 };

void node_feed_init(struct node_feed *f, const struct store *store)
{
    node_feed_done(f);
    f->store = store;
}

void node_feed_done(struct node_feed *f)
{
    for (size_t i = 0; i < NODE_PASS_COUNT; i++) {
        free(f->passes[i].columns);
        row_parts_done(&f->passes[i].parts);
    }
    free(f->groups);
    free(f->buf);
    free(f->packed);
    *f = (struct node_feed){0};
}

void node_feed_add_group(struct node_feed *f, uint32_t group, int fd)
{
    struct stat st;

    for (size_t i = 0; i < f->n_groups; i++)
        if (f->groups[i].group == group)
            return;
    if (fstat(fd, &st) < 0)
        st.st_size = 0;
    f->groups = xreallocarray(f->groups, f->n_groups + 1, sizeof(*f->groups));
    f->groups[f->n_groups++] =
        (struct node_feed_group){.group = group, .fd = fd, .end = (uint64_t)st.st_size};
}

static int has_log(const struct node_feed *f)
{
    return f->store != NULL && store_layout(f->store)->n_columns > 0;
}

/* ---- what is sent ---- */

static void set_parts(struct node_feed *f, struct node_feed_pass *p)
{
    row_parts_done(&p->parts);
    row_parts_of(&p->parts, store_layout(f->store), p->columns);
    p->is_told = 0;
}

/* The log has columns by now. */
static void begin_log(struct node_feed *f)
{
    for (size_t i = 0; i < NODE_PASS_COUNT; i++) {
        struct node_feed_pass *p = &f->passes[i];

        if (p->columns != NULL)
            continue;
        p->columns = xcalloc(store_layout(f->store)->n_columns, 1);
        row_parts_of(&p->parts, store_layout(f->store), p->columns);
    }
}

/* Begins the late pass for these columns, together with those that it has not sent yet. */
static void send_late(struct node_feed *f, const uint8_t *columns)
{
    struct node_feed_pass *p = &f->passes[NODE_PASS_LATE];
    const size_t n = store_layout(f->store)->n_columns;

    if (p->next >= p->end)
        memset(p->columns, 0, n);
    for (size_t c = 0; c < n; c++)
        p->columns[c] |= columns[c];
    p->next = 0;
    p->end = f->passes[NODE_PASS_HEAD].next;
    set_parts(f, p);
}

void node_feed_want(struct node_feed *f, const uint8_t *columns)
{
    struct node_feed_pass *p = &f->passes[NODE_PASS_HEAD];
    uint8_t *more;
    size_t n, n_more = 0;

    if (!has_log(f) || columns == NULL)
        return;
    begin_log(f);
    n = store_layout(f->store)->n_columns;
    more = xcalloc(n, 1);
    for (size_t c = 0; c < n; c++) {
        more[c] = columns[c] && !p->columns[c];
        n_more += more[c];
    }
    for (size_t c = 0; c < n; c++)
        p->columns[c] |= more[c];
    f->sparse_end = store_head(f->store);
    if (n_more > 0)
        set_parts(f, p);
    if (n_more > 0 && p->next > 0)
        send_late(f, more);
    free(more);
}

static uint64_t pass_end(const struct node_feed *f, size_t pass)
{
    return pass == NODE_PASS_HEAD ? store_head(f->store) : f->passes[pass].end;
}

static int passes_are_level(const struct node_feed *f)
{
    for (size_t i = 0; i < NODE_PASS_COUNT; i++)
        if (f->passes[i].next < pass_end(f, i))
            return 0;
    return 1;
}

static int groups_are_level(const struct node_feed *f)
{
    for (size_t i = 0; i < f->n_groups; i++)
        if (f->groups[i].next < f->groups[i].end)
            return 0;
    return 1;
}

int node_feed_is_level(const struct node_feed *f)
{
    return groups_are_level(f) && (!has_log(f) || (f->has_header && passes_are_level(f)));
}

/* ---- sending ---- */

static uint8_t *room(uint8_t **buf, size_t *have, size_t bytes)
{
    if (bytes > *have) {
        free(*buf);
        *buf = xmalloc(bytes);
        *have = bytes;
    }
    return *buf;
}

/* The place of the first byte at `from` or behind it that is no hole; `end`: there is none. */
static int find_data(int fd, uint64_t from, uint64_t end, uint64_t *ret, struct err *err)
{
    const off_t data = lseek(fd, (off_t)from, SEEK_DATA);

    if (data < 0 && errno != ENXIO)
        return err_errno(err, "reading what a node needs");
    *ret = data < 0 || (uint64_t)data >= end ? end : (uint64_t)data;
    *ret = *ret < from ? from : *ret;
    return 0;
}

static int read_piece(int fd, uint8_t *ret, size_t len, uint64_t offset, struct err *err)
{
    const ssize_t n = pread(fd, ret, len, (off_t)offset);

    if (n < 0)
        return err_errno(err, "reading what a node needs");
    return (size_t)n == len
               ? 0
               : err_set(err, ERR_CORRUPT, "the experience log is cut short");
}

int node_feed_pass_on(struct node_feed *f, struct channel *c, uint32_t group,
                      uint64_t offset, const void *data, size_t len, struct err *err)
{
    const int rc = node_send(c, NODE_SHARED, group, offset, data, len, err);

    f->ahead_bytes += rc < 0 ? 0 : len;
    return rc;
}

static int send_shared(struct node_feed *f, struct channel *c, struct node_feed_group *g,
                       struct err *err)
{
    uint64_t left;
    uint8_t *buf;
    int rc = find_data(g->fd, g->next, g->end, &g->next, err);

    left = g->end - g->next;
    if (rc < 0 || left == 0)
        return rc;
    left = left < PIECE_BYTES ? left : PIECE_BYTES;
    buf = room(&f->buf, &f->buf_bytes, left);
    if ((rc = read_piece(g->fd, buf, left, g->next, err)) < 0)
        return rc;
    rc = node_feed_pass_on(f, c, g->group, g->next, buf, left, err);
    g->next += rc < 0 ? 0 : left;
    return rc;
}

/* The parts of n rows. */
static int read_rows(struct node_feed *f, const struct row_parts *p, uint64_t first,
                     size_t n, uint8_t *ret, struct err *err)
{
    const int fd = store_agent_fd(f->store);
    const uint64_t at = STORE_HEADER_BYTES + first * p->row_bytes;
    int rc = 0;

    if (p->row_bytes <= ROW_PARTS_WHOLE_BYTES && p->n > 0) {
        const size_t len = n * p->row_bytes;

        rc = read_piece(fd, room(&f->buf, &f->buf_bytes, len), len, at, err);
        if (rc == 0)
            row_parts_gather(p, f->buf, n, ret);
        return rc;
    }
    for (size_t row = 0; rc == 0 && row < n; row++)
        for (size_t i = 0; rc == 0 && i < p->n; i++) {
            rc = read_piece(fd, ret, p->parts[i].bytes,
                            at + row * p->row_bytes + p->parts[i].offset, err);
            ret += p->parts[i].bytes;
        }
    return rc;
}

/* How many rows one message has. Of rows without parts only their number is said. */
static uint64_t rows_of_piece(const struct row_parts *p, uint64_t left)
{
    const uint64_t bytes =
        p->row_bytes <= ROW_PARTS_WHOLE_BYTES ? p->row_bytes : p->packed_bytes;
    uint64_t n = p->n > 0 ? PIECE_BYTES / bytes : UINT32_MAX;

    n = n > 0 ? n : 1;
    return n < left ? n : left;
}

static int send_rows(struct node_feed *f, struct channel *c, size_t pass, struct err *err)
{
    struct node_feed_pass *p = &f->passes[pass];
    const uint64_t end = pass_end(f, pass), row_bytes = p->parts.row_bytes;
    uint8_t *body;
    uint64_t data = 0, n;
    size_t len;
    int rc = 0;

    if (p->next < f->sparse_end) {
        /* rows at the beginning may have been given back by the log */
        rc = find_data(store_agent_fd(f->store), STORE_HEADER_BYTES + p->next * row_bytes,
                       STORE_HEADER_BYTES + end * row_bytes, &data, err);
        if (rc == 0)
            p->next = (data - STORE_HEADER_BYTES) / row_bytes;
    }
    n = rows_of_piece(&p->parts, end - p->next);
    if (rc < 0 || n == 0)
        return rc;
    if (!p->is_told) {
        struct wbuf b = {0};

        row_parts_pack(&b, &p->parts);
        rc = node_send(c, NODE_COLUMNS, (uint32_t)pass, 0, b.data, b.len, err);
        wbuf_done(&b);
        p->is_told = rc == 0;
        if (rc < 0)
            return rc;
    }
    len = ROWS_HEAD_BYTES + n * p->parts.packed_bytes;
    if (len > NODE_CHUNK_BYTES)
        return err_set(err, ERR_LIMIT, "a row of %zu bytes is too long for a node", len);
    body = room(&f->packed, &f->packed_bytes, len);
    for (int i = 0; i < ROWS_HEAD_BYTES; i++)
        body[i] = (uint8_t)(n >> (8 * i));
    rc = read_rows(f, &p->parts, p->next, n, body + ROWS_HEAD_BYTES, err);
    if (rc == 0)
        rc = node_send(c, NODE_ROWS, (uint32_t)pass, p->next, body, len, err);
    if (rc < 0)
        return rc;
    f->ahead_bytes += len;
    p->next += n;
    return 0;
}

static int send_header(struct node_feed *f, struct channel *c, struct err *err)
{
    uint8_t *bytes = xcalloc(1, STORE_HEADER_BYTES);
    size_t len = STORE_HEADER_BYTES;
    int rc;

    store_layout_encode(store_layout(f->store), bytes);
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    rc = node_send(c, NODE_HEADER, NODE_NO_WORKER, 0, bytes, len, err);
    free(bytes);
    if (rc < 0)
        return rc;
    f->ahead_bytes += len;
    f->has_header = 1;
    return 0;
}

int node_feed_has_room(const struct node_feed *f)
{
    return f->ahead_bytes < NODE_FEED_AHEAD_BYTES;
}

void node_feed_sent(struct node_feed *f, size_t bytes)
{
    f->ahead_bytes += bytes;
}

int node_feed_send(struct node_feed *f, struct channel *c, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < f->n_groups; i++) {
        struct node_feed_group *g = &f->groups[i];

        while (rc == 0 && g->next < g->end && node_feed_has_room(f))
            rc = send_shared(f, c, g, err);
    }
    if (rc < 0 || !has_log(f))
        return rc;
    begin_log(f);
    if (!f->has_header)
        rc = send_header(f, c, err);
    for (size_t i = 0; i < NODE_PASS_COUNT; i++)
        while (rc == 0 && f->passes[i].next < pass_end(f, i) && node_feed_has_room(f))
            rc = send_rows(f, c, i, err);
    return rc;
}

int node_feed_stored(struct node_feed *f, uint64_t bytes, struct err *err)
{
    if (bytes > f->ahead_bytes)
        return err_set(err, ERR_PROTOCOL, "it stored more than it was sent");
    f->ahead_bytes -= bytes;
    return 0;
}
