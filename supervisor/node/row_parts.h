/* row_parts.h - the parts of a row of the experience log that a node needs: those of the columns
 * that its processes read. Rows travel as these parts alone, one behind the other.
 */
#ifndef SUPERVISOR_NODE_ROW_PARTS_H
#define SUPERVISOR_NODE_ROW_PARTS_H

#include "common/store/layout.h"
#include "supervisor/node/node_protocol.h"

#include <stddef.h>
#include <stdint.h>

/* Rows up to this size are read and written whole, larger ones part by part: the gaps of a row of
 * images shall stay holes in the node's file. */
#define ROW_PARTS_WHOLE_BYTES ((uint64_t)16 << 10)

struct row_part {
    uint32_t offset, bytes; /* in the row */
};

struct row_parts {          /* all-zero: rows of nothing; release with row_parts_done */
    uint64_t row_bytes;     /* in the log */
    uint64_t packed_bytes;  /* of all parts of a row */
    struct row_part *parts; /* [n], in order, without overlaps */
    size_t n;
};

/* is_read: [n_columns]. */
void row_parts_of(struct row_parts *ret, const struct store_layout *l,
                  const uint8_t *is_read);
void row_parts_done(struct row_parts *p);

/* The body of NODE_COLUMNS. ERR_PROTOCOL. */
void row_parts_pack(struct wbuf *b, const struct row_parts *p);
int row_parts_parse(struct row_parts *ret, const struct node_message *m, struct err *err);

/* Between n rows of the log (n, row_bytes) and what travels (n, packed_bytes). */
void row_parts_gather(const struct row_parts *p, const uint8_t *rows, size_t n,
                      uint8_t *ret_packed);
void row_parts_scatter(const struct row_parts *p, const uint8_t *packed, size_t n,
                       uint8_t *rows);

#endif
