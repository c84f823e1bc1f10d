/* Compares the rows of a replay with those that the run had logged. */
#include "supervisor/store/store.h"

#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"

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

static int report_difference(const struct store_layout *l, uint64_t row,
                             const uint8_t *here, const uint8_t *there, struct err *err)
{
    for (uint32_t k = 0; k < l->n_columns; k++) {
        const struct store_column *c = &l->columns[k];
        const size_t size = dtype_size((enum dtype)c->dtype);

        for (uint32_t i = 0; i < c->elements; i++)
            if (memcmp(here + c->offset + i * size, there + c->offset + i * size, size) !=
                0)
                return err_set(err, ERR_CORRUPT,
                               "the replay diverges from the run's log at row %llu: "
                               "%s[%u] is %.9g here and %.9g there",
                               (unsigned long long)row, c->name, i,
                               store_column_value(c, here, i),
                               store_column_value(c, there, i));
    }
    return err_set(err, ERR_CORRUPT,
                   "the replay diverges from the run's log at row %llu, between columns",
                   (unsigned long long)row);
}

static int compare_chunk(const struct store *s, int log, uint64_t row, size_t n,
                         uint8_t *here, uint8_t *there, struct err *err)
{
    const struct store_layout *l = store_layout(s);
    const size_t bytes = (size_t)l->row_bytes;
    int rc = read_rows(store_agent_fd(s), l->row_bytes, row, here, n, err);

    if (rc == 0)
        rc = read_rows(log, l->row_bytes, row, there, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (memcmp(here + i * bytes, there + i * bytes, bytes) != 0)
            rc = report_difference(l, row + i, here + i * bytes, there + i * bytes, err);
    return rc;
}

/* The first row whose disk space store_forget has not freed. */
static uint64_t first_kept(int log, uint64_t row_bytes)
{
    const off_t data = lseek(log, STORE_HEADER_BYTES, SEEK_DATA);

    return data <= (off_t)STORE_HEADER_BYTES
               ? 0
               : ((uint64_t)data - STORE_HEADER_BYTES + row_bytes - 1) / row_bytes;
}

int store_compare(const struct store *s, int log, uint64_t first, uint64_t end,
                  uint64_t *ret_n, struct err *err)
{
    const struct store_layout *l = store_layout(s);
    const size_t at_once =
        CHUNK_BYTES / l->row_bytes > 0 ? CHUNK_BYTES / l->row_bytes : 1;
    const uint64_t kept = first_kept(log, l->row_bytes);
    struct store_header header;
    uint64_t log_end = 0;
    uint8_t *here, *there;
    int rc = read_header(log, &header, err);

    *ret_n = 0;
    if (rc < 0 || (rc = store_log_end(log, &log_end, err)) < 0)
        return rc;
    if (header.layout_hash != store_layout_hash(l))
        return err_set(err, ERR_CORRUPT,
                       "the run's log has other columns than the replay");
    if (end > log_end)
        end = log_end;
    if (first < kept)
        first = kept;
    here = xmalloc(at_once * (size_t)l->row_bytes);
    there = xmalloc(at_once * (size_t)l->row_bytes);
    while (rc == 0 && first < end) {
        const size_t n = end - first < at_once ? (size_t)(end - first) : at_once;

        rc = compare_chunk(s, log, first, n, here, there, err);
        first += n;
        *ret_n += rc == 0 ? n : 0;
    }
    free(here);
    free(there);
    return rc;
}
