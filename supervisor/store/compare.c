/* Compares the rows of two logs: of two runs, or of a run and its replay. */
#include "supervisor/store/store.h"

#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 };

static int read_rows(int fd, uint64_t row_bytes, uint64_t row, uint8_t *to, size_t n,
                     struct err *err)
{
    const size_t bytes = n * (size_t)row_bytes;
    const ssize_t got = pread_all(fd, to, bytes, STORE_HEADER_BYTES + row * row_bytes);

    if (got < 0)
        return err_errno(err, "reading the experience");
    return (size_t)got == bytes
               ? 0
               : err_set(err, ERR_CORRUPT, "the experience was cut short");
}

static int read_header(int log, struct store_header *ret, struct err *err)
{
    if (pread_all(log, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret) ||
        ret->magic != STORE_MAGIC || ret->row_bytes == 0)
        return err_set(err, ERR_FORMAT, "the experience log has no header");
    return 0;
}

int store_log_end(int log, uint64_t *ret, struct err *err)
{
    struct store_header header;
    struct stat st;
    int rc = read_header(log, &header, err);

    if (rc < 0)
        return rc;
    if (fstat(log, &st) < 0)
        return err_errno(err, "the experience log");
    *ret = st.st_size <= (off_t)STORE_HEADER_BYTES
               ? 0
               : ((uint64_t)st.st_size - STORE_HEADER_BYTES) / header.row_bytes;
    return 0;
}

double store_column_value(const struct store_column *c, const uint8_t *row, uint32_t i)
{
    float x;

    if (c->dtype == DT_UINT8)
        return row[c->offset + i];
    memcpy(&x, row + c->offset + i * sizeof(x), sizeof(x));
    return (double)x;
}

/* Sets where two rows differ; the column is "" if that is between columns. */
static void locate(struct store_difference *ret, const struct store_layout *l,
                   uint64_t row, const uint8_t *here, const uint8_t *there)
{
    *ret = (struct store_difference){.row = row};
    for (uint32_t k = 0; k < l->n_columns; k++) {
        const struct store_column *c = &l->columns[k];
        const size_t size = dtype_size((enum dtype)c->dtype);

        for (uint32_t i = 0; i < c->elements; i++)
            if (memcmp(here + c->offset + i * size, there + c->offset + i * size, size) !=
                0) {
                (void)snprintf(ret->column, sizeof(ret->column), "%s", c->name);
                ret->element = i;
                ret->here = store_column_value(c, here, i);
                ret->there = store_column_value(c, there, i);
                return;
            }
    }
}

/* Two logs of the same columns, and room for some rows of each. */
struct comparison {
    const struct store_layout *layout;
    int here, there;
    size_t at_once;
    uint8_t *rows_here, *rows_there;
};

/* Returns 1 if one of n rows differs, the first of which is *ret. */
static int compare_chunk(const struct comparison *c, uint64_t row, size_t n,
                         struct store_difference *ret, struct err *err)
{
    const size_t bytes = (size_t)c->layout->row_bytes;
    int rc = read_rows(c->here, c->layout->row_bytes, row, c->rows_here, n, err);

    if (rc == 0)
        rc = read_rows(c->there, c->layout->row_bytes, row, c->rows_there, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (memcmp(c->rows_here + i * bytes, c->rows_there + i * bytes, bytes) != 0) {
            locate(ret, c->layout, row + i, c->rows_here + i * bytes,
                   c->rows_there + i * bytes);
            rc = 1;
        }
    return rc;
}

/* The first whole row at or behind `row` whose disk space store_forget has not freed; *ret_end:
 * the first one behind it whose space is freed. UINT64_MAX: there is none. */
static uint64_t next_kept(int log, uint64_t row_bytes, uint64_t row, uint64_t *ret_end)
{
    *ret_end = UINT64_MAX;
    for (;; row++) { /* of the row before, only a part is kept */
        off_t at = lseek(log, (off_t)(STORE_HEADER_BYTES + row * row_bytes), SEEK_DATA);

        if (at < 0) /* ENXIO: there is only a hole; else the filesystem has none */
            return errno == ENXIO ? UINT64_MAX : row;
        row = ((uint64_t)at - STORE_HEADER_BYTES + row_bytes - 1) / row_bytes;
        at = lseek(log, (off_t)(STORE_HEADER_BYTES + row * row_bytes), SEEK_HOLE);
        if (at < 0) /* the row ends with the log */
            return UINT64_MAX;
        *ret_end = ((uint64_t)at - STORE_HEADER_BYTES) / row_bytes;
        if (*ret_end > row)
            return row;
    }
}

/* Sets the first rows at or behind *first that both logs still have, before `end`, and no more
 * than are compared at once. Returns their number. */
static size_t next_of_both(const struct comparison *c, uint64_t *first, uint64_t end)
{
    const uint64_t row_bytes = c->layout->row_bytes;
    uint64_t row = *first, end_here, end_there = 0, was;

    do {
        was = row;
        row = next_kept(c->here, row_bytes, row, &end_here);
        row = row < end ? next_kept(c->there, row_bytes, row, &end_there) : end;
    } while (row < end && row != was);
    if (row >= end)
        return 0;
    *first = row;
    end = end < end_here ? end : end_here;
    end = end < end_there ? end : end_there;
    return end - row < c->at_once ? (size_t)(end - row) : c->at_once;
}

/* *ret_n, at first 0: counts rows that are equal. */
static int find_difference(const struct store_layout *l, int here, int there,
                           uint64_t first, uint64_t end, struct store_difference *ret,
                           uint64_t *ret_n, struct err *err)
{
    struct comparison c = {
        .layout = l,
        .here = here,
        .there = there,
        .at_once = CHUNK_BYTES / l->row_bytes > 0 ? CHUNK_BYTES / l->row_bytes : 1};
    uint64_t end_here = 0, end_there = 0;
    size_t n;
    int rc = store_log_end(here, &end_here, err);

    if (rc < 0 || (rc = store_log_end(there, &end_there, err)) < 0)
        return rc;
    end = end < end_here ? end : end_here;
    end = end < end_there ? end : end_there;
    c.rows_here = xmalloc(c.at_once * (size_t)l->row_bytes);
    c.rows_there = xmalloc(c.at_once * (size_t)l->row_bytes);
    while (rc == 0 && (n = next_of_both(&c, &first, end)) > 0) {
        const uint64_t from = first;

        rc = compare_chunk(&c, from, n, ret, err);
        first = rc > 0 ? ret->row : from + n;
        *ret_n += rc >= 0 ? first - from : 0;
        if (rc > 0) /* a live run may have freed the row before it was read */
            rc = next_of_both(&c, &first, end) > 0 && first == ret->row;
    }
    free(c.rows_here);
    free(c.rows_there);
    return rc;
}

int store_find_difference(struct store_difference *ret, int here, int there,
                          uint64_t first, uint64_t end, struct err *err)
{
    uint8_t *header = xmalloc(STORE_HEADER_BYTES);
    struct store_layout layout = {0};
    struct store_header other;
    uint64_t n = 0;
    int rc = read_header(there, &other, err);

    if (rc == 0 &&
        pread_all(here, header, STORE_HEADER_BYTES, 0) != (ssize_t)STORE_HEADER_BYTES)
        rc = err_set(err, ERR_FORMAT, "the experience log has no header");
    if (rc == 0)
        rc = store_layout_decode(header, &layout, err);
    free(header);
    if (rc == 0 && other.layout_hash != store_layout_hash(&layout))
        rc = err_set(err, ERR_UNSUPPORTED, "the logs have different columns");
    if (rc == 0)
        rc = find_difference(&layout, here, there, first, end, ret, &n, err);
    store_layout_done(&layout);
    return rc;
}

int store_compare(const struct store *s, int log, uint64_t first, uint64_t end,
                  uint64_t *ret_n, struct err *err)
{
    const struct store_layout *l = store_layout(s);
    struct store_difference d;
    struct store_header header;
    int rc = read_header(log, &header, err);

    *ret_n = 0;
    if (rc < 0)
        return rc;
    if (header.layout_hash != store_layout_hash(l))
        return err_set(err, ERR_CORRUPT,
                       "the run's log has other columns than the replay");
    rc = find_difference(l, store_agent_fd(s), log, first, end, &d, ret_n, err);
    if (rc <= 0)
        return rc;
    if (d.column[0] == '\0')
        return err_set(err, ERR_CORRUPT,
                       "the replay diverges from the run's log at row %llu, between "
                       "columns",
                       (unsigned long long)d.row);
    return err_set(err, ERR_CORRUPT,
                   "the replay diverges from the run's log at row %llu: %s[%u] is %.9g "
                   "here and %.9g there",
                   (unsigned long long)d.row, d.column, d.element, d.here, d.there);
}
