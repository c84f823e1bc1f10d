/* node_feed.h - fills a node's copies of files that its processes map: the experience log,
 * and the memory of groups that share parameters.
 *
 * Log      the columns that the node's processes read (node_feed_want), from the first row that is
 *          still on the disk up to the head, then on as rows are appended: read back from the log,
 *          where they have just been written, and sent as the parts of row_parts.h. A frame must
 *          be sent only when the feed is at the head, so that its process finds the rows that the
 *          frame names.
 * Passes   rows are sent in two. One follows the head. When columns are needed that were not sent
 *          so far, the other sends these of the rows that the first has passed already.
 * Groups   once, when the node has joined; none of the group's processes runs there then. Later
 *          what processes of other nodes write (node_feed_pass_on).
 * Bounds   at most NODE_FEED_AHEAD_BYTES are under way that the node has not stored.
 */
#ifndef SUPERVISOR_NODE_NODE_FEED_H
#define SUPERVISOR_NODE_NODE_FEED_H

#include "common/err/err.h"
#include "supervisor/net/secure_channel.h"
#include "supervisor/node/row_parts.h"
#include "supervisor/store/store.h"

#define NODE_FEED_AHEAD_BYTES ((uint64_t)32 << 20)

struct node_feed_group { /* part of a file that is still to be sent */
    uint32_t group;
    int fd; /* borrowed */
    uint64_t next, end;
};

enum node_pass { NODE_PASS_HEAD, NODE_PASS_LATE, NODE_PASS_COUNT };

struct node_feed_pass {
    uint8_t *columns; /* [n_columns] 1: it sends them; NULL: none */
    struct row_parts parts;
    int is_told;        /* the node knows the parts */
    uint64_t next, end; /* rows; end: of the late pass */
};

struct node_feed {
    const struct store *store; /* borrowed; NULL: there is no log */
    int has_header;            /* it was sent */
    struct node_feed_pass passes[NODE_PASS_COUNT];
    uint64_t sparse_end;  /* rows below may have been given back by the log */
    uint64_t ahead_bytes; /* sent, not stored */
    struct node_feed_group *groups;
    size_t n_groups;
    uint8_t *buf, *packed; /* room for a piece, or NULL */
    size_t buf_bytes, packed_bytes;
};

/* Begins for a node that has nothing. */
void node_feed_init(struct node_feed *f, const struct store *store);
void node_feed_done(struct node_feed *f);
/* The node's processes read these columns, too: [n_columns]; NULL: none. */
void node_feed_want(struct node_feed *f, const uint8_t *columns);
void node_feed_add_group(struct node_feed *f, uint32_t group, int fd);
/* Sends bytes of a group's memory that were just written here. An error of the channel. */
int node_feed_pass_on(struct node_feed *f, struct channel *c, uint32_t group,
                      uint64_t offset, const void *data, size_t len, struct err *err);
/* Whether more may be sent ahead; that so many bytes were sent, by the owner. */
int node_feed_has_room(const struct node_feed *f);
void node_feed_sent(struct node_feed *f, size_t bytes);
/* Whether everything was sent. */
int node_feed_is_level(const struct node_feed *f);
/* Sends what is due and may be sent. An error of the channel, or -errno. */
int node_feed_send(struct node_feed *f, struct channel *c, struct err *err);
/* The node has stored so many bytes. ERR_PROTOCOL: more than were sent. */
int node_feed_stored(struct node_feed *f, uint64_t bytes, struct err *err);

#endif
