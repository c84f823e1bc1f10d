/* store_view.h - reading rows in place from the mapped experience log.
 *
 * The mapping is made once, for more rows than there are, and never moves; only rows that
 * the supervisor has named may be touched (the file may end before the mapping does).
 * Threads: any. Owns: the mapping.
 */
#ifndef COMMON_STORE_STORE_VIEW_H
#define COMMON_STORE_STORE_VIEW_H

#include "common/store/layout.h"

#include <stddef.h>
#include <stdint.h>

struct store_view; /* opaque */

/* Maps fd read-only (borrowed; may be closed afterwards) and checks the header.
 * ERR_FORMAT, ERR_NOMEM, -errno. */
int store_view_open(struct store_view **ret, int fd, struct err *err);
void store_view_close(struct store_view *v);
const struct store_layout *store_view_layout(const struct store_view *v);

/* Checks that every row lies inside the file as it is now; ERR_LIMIT names the first
 * that does not. */
int store_view_check(struct store_view *v, const uint64_t *rows, size_t n,
                     struct err *err);
/* dst (n, elements of the column) f32; stride in floats between rows of dst. Rows are
 * gathered in the order given, and must have passed store_view_check. The column is f32.
 */
void store_view_gather(const struct store_view *v, int column, const uint64_t *rows,
                       size_t n, float *dst, size_t dst_stride);
/* Several columns side by side: dst (n, their elements together). Those that lie one
 * behind the other in a row of the log are copied as one. */
void store_view_gather_joined(const struct store_view *v, const int *columns,
                              size_t n_columns, const uint64_t *rows, size_t n,
                              float *dst, size_t dst_stride);
/* A column of u8: dst (n, elements of the column). */
void store_view_gather_bytes(const struct store_view *v, int column, const uint64_t *rows,
                             size_t n, uint8_t *dst);

#endif
