#include "supervisor/node/node_feed.h"

#include "common/mem/xmalloc.h"
#include "supervisor/node/node_protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Small enough that the node stores one while the next is under way. */
enum { PIECE_BYTES = 1 << 20 };

void node_feed_init(struct node_feed *f, const struct store *store)
{
    node_feed_done(f);
    f->store = store;
}

void node_feed_done(struct node_feed *f)
{
    free(f->groups);
    free(f->buf);
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

static uint64_t log_end(const struct node_feed *f)
{
    return STORE_HEADER_BYTES + store_head(f->store) * store_layout(f->store)->row_bytes;
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
    return groups_are_level(f) &&
           (!has_log(f) || (f->has_header && f->next >= log_end(f)));
}

/* Sends the bytes at *next, at most up to `end`, leaving out holes. */
static int send_piece(struct node_feed *f, struct channel *c, int fd,
                      enum node_message_kind kind, uint32_t worker, uint64_t *next,
                      uint64_t end, struct err *err)
{
    const off_t data = lseek(fd, (off_t)*next, SEEK_DATA);
    uint8_t head[NODE_HEAD_BYTES];
    ssize_t n;
    int rc;

    if (data < 0 && errno != ENXIO)
        return err_errno(err, "reading what a node needs");
    if (data < 0 || (uint64_t)data >= end) {
        *next = end;
        return 0;
    }
    *next = (uint64_t)data > *next ? (uint64_t)data : *next;
    if (f->buf == NULL)
        f->buf = xmalloc(PIECE_BYTES);
    n = pread(fd, f->buf, end - *next < PIECE_BYTES ? (size_t)(end - *next) : PIECE_BYTES,
              (off_t)*next);
    if (n <= 0)
        return n < 0 ? err_errno(err, "reading what a node needs")
                     : err_set(err, ERR_CORRUPT, "the experience log is cut short");
    node_head_pack(head, kind, worker, *next);
    rc = channel_send2(c, head, sizeof(head), f->buf, (size_t)n, err);
    if (rc < 0)
        return rc;
    f->ahead_bytes += (uint64_t)n;
    *next += (uint64_t)n;
    return 0;
}

static int send_header(struct node_feed *f, struct channel *c, struct err *err)
{
    uint8_t head[NODE_HEAD_BYTES], *bytes = xcalloc(1, STORE_HEADER_BYTES);
    size_t len = STORE_HEADER_BYTES;
    int rc;

    store_layout_encode(store_layout(f->store), bytes);
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    node_head_pack(head, NODE_HEADER, NODE_NO_WORKER, 0);
    rc = channel_send2(c, head, sizeof(head), bytes, len, err);
    free(bytes);
    if (rc < 0)
        return rc;
    f->ahead_bytes += len;
    f->has_header = 1;
    f->next = STORE_HEADER_BYTES;
    return 0;
}

static int has_room(const struct node_feed *f)
{
    return f->ahead_bytes < NODE_FEED_AHEAD_BYTES;
}

int node_feed_send(struct node_feed *f, struct channel *c, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < f->n_groups; i++) {
        struct node_feed_group *g = &f->groups[i];

        while (rc == 0 && g->next < g->end && has_room(f))
            rc = send_piece(f, c, g->fd, NODE_SHARED, g->group, &g->next, g->end, err);
    }
    if (rc == 0 && has_log(f) && !f->has_header)
        rc = send_header(f, c, err);
    while (rc == 0 && has_log(f) && f->next < log_end(f) && has_room(f))
        rc = send_piece(f, c, store_agent_fd(f->store), NODE_ROWS, NODE_NO_WORKER,
                        &f->next, log_end(f), err);
    return rc;
}

int node_feed_stored(struct node_feed *f, uint64_t bytes, struct err *err)
{
    if (bytes > f->ahead_bytes)
        return err_set(err, ERR_PROTOCOL, "it stored more than it was sent");
    f->ahead_bytes -= bytes;
    return 0;
}
