/* store_view.h - reads rows in place from the mapped experience log.
 *
 * The mapping is made once, larger than the file, and never moves. Only rows that the
 * supervisor has named may be accessed, because the file may end before the mapping does.
 * Threads  any.
 * Owns     the mapping.
 */
#ifndef COMMON_STORE_STORE_VIEW_H
#define COMMON_STORE_STORE_VIEW_H

#include "common/store/layout.h"

#include <stddef.h>
#include <stdint.h>

/* In a list of rows: there is no row, such as after the end of an episode that is shorter
 * than the others. Gathered as zeros. */
#define ROW_NONE UINT64_MAX

struct store_view; /* opaque */

/* Maps fd read-only (borrowed; may be closed afterwards) and checks the header.
 * ERR_FORMAT, ERR_NOMEM, -errno. */
int store_view_open(struct store_view **ret, int fd, struct err *err);
void store_view_close(struct store_view *v);
const struct store_layout *store_view_layout(const struct store_view *v);

/* All columns can be gathered at first. store_view_hide hides all; the other two make one
 * or all of them available again. Gathering a hidden column is a programming error: the
 * process aborts. */
void store_view_hide(struct store_view *v);
void store_view_show(struct store_view *v, int column);
void store_view_show_all(struct store_view *v);

/* Checks that every row except ROW_NONE is within the file's current size. ERR_LIMIT; the
 * message names the first row beyond it. */
int store_view_check(struct store_view *v, const uint64_t *rows, size_t n,
                     struct err *err);
/* Copies n rows of a column, in the given order, to dst (n, width of the column) as
 * floats: those of a u8 column are converted, 0 to 255. dst_stride: floats between rows of
 * dst. The rows must have passed store_view_check. A stacked column is gathered with the
 * earlier observations of each row (layout.h), from columns that need not be shown. */
void store_view_gather(const struct store_view *v, int column, const uint64_t *rows,
                       size_t n, float *dst, size_t dst_stride);
/* Copies several columns side by side: dst (n, sum of their widths). Columns that are
 * adjacent in the log are copied together. */
void store_view_gather_joined(const struct store_view *v, const int *columns,
                              size_t n_columns, const uint64_t *rows, size_t n,
                              float *dst, size_t dst_stride);
/* Copies a u8 column that is not stacked, as bytes: dst (n, elements of the column),
 * without a stride. */
void store_view_gather_bytes(const struct store_view *v, int column, const uint64_t *rows,
                             size_t n, uint8_t *dst);

#endif
