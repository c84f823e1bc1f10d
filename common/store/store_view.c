#include "common/store/store_view.h"

#include "common/err/check.h"
#include "common/mem/copy_short.h"
#include "common/mem/xmalloc.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESERVE_BYTES     (UINT64_C(1) << 43)
#define RESERVE_MIN_BYTES (UINT64_C(64) << 20)

/* Rows may be anywhere in memory: many are requested in advance, which hides the latency.
 * They are prefetched to the second-level cache, which can have more requests in flight
 * than the first. */
#define PREFETCH_ROWS  48
/* of a row; the processor itself prefetches the bytes after these */
#define PREFETCH_BYTES 512

struct store_view {
    struct store_layout layout;
    uint8_t *is_shown; /* [n_columns]; NULL: all are */
    int *earlier;      /* [n_columns] of stacked columns: store_layout_earlier */
    uint64_t first;    /* offset of the column `first`, if columns are stacked */
    int fd;
    const uint8_t *map;
    uint64_t map_bytes;
    _Atomic uint64_t n_rows; /* rows in the file when its size was last read */
};

/* Reserves address space for the file's future growth: it costs nothing, while a new
 * mapping would invalidate all pointers into the old one. */
static int reserve(struct store_view *v, uint64_t file_bytes, struct err *err)
{
    for (uint64_t size = RESERVE_BYTES; size >= RESERVE_MIN_BYTES; size /= 2) {
        void *p;

        if (size < file_bytes)
            return err_set(err, ERR_LIMIT,
                           "an experience log of %llu bytes cannot be mapped",
                           (unsigned long long)file_bytes);
        p = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, v->fd, 0);
        if (p != MAP_FAILED) {
            v->map = p;
            v->map_bytes = size;
            return 0;
        }
    }
    return err_errno(err, "mapping an experience log of %llu bytes",
                     (unsigned long long)file_bytes);
}

static int file_size(int fd, uint64_t *ret, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(err, "experience log");
    *ret = (uint64_t)st.st_size;
    return 0;
}

static int refresh_rows(struct store_view *v, struct err *err)
{
    uint64_t bytes = 0;
    int rc = file_size(v->fd, &bytes, err);

    if (rc < 0)
        return rc;
    if (bytes > v->map_bytes)
        bytes = v->map_bytes;
    atomic_store(&v->n_rows, bytes < STORE_HEADER_BYTES
                                 ? 0
                                 : (bytes - STORE_HEADER_BYTES) / v->layout.row_bytes);
    return 0;
}

static int open_mapped(struct store_view *v, int fd, struct err *err)
{
    const struct store_layout *l = &v->layout;
    uint64_t bytes = 0;
    int rc;

    v->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (v->fd < 0)
        return err_errno(err, "experience log");
    rc = file_size(v->fd, &bytes, err);
    if (rc < 0)
        return rc;
    if (bytes < STORE_HEADER_BYTES)
        return err_set(err, ERR_FORMAT,
                       "an experience log has at least %u bytes, not %llu",
                       STORE_HEADER_BYTES, (unsigned long long)bytes);
    rc = reserve(v, bytes, err);
    if (rc == 0)
        rc = store_layout_decode(v->map, &v->layout, err);
    if (rc < 0)
        return rc;
    v->earlier = xcalloc(l->n_columns, sizeof(*v->earlier));
    for (uint32_t c = 0; c < l->n_columns; c++) { /* what stacked columns need */
        if (l->columns[c].stack == 0)
            continue;
        v->earlier[c] = store_layout_earlier(l, (int)c);
        v->first = l->columns[store_layout_find(l, NULL, "first")].offset;
    }
    return refresh_rows(v, err);
}

int store_view_open(struct store_view **ret, int fd, struct err *err)
{
    struct store_view *v = xcalloc(1, sizeof(*v));
    int rc;

    v->fd = -1;
    rc = open_mapped(v, fd, err);
    if (rc < 0)
        store_view_close(v);
    else
        *ret = v;
    return rc;
}

void store_view_close(struct store_view *v)
{
    if (v == NULL)
        return;
    if (v->map != NULL)
        (void)munmap((void *)(uintptr_t)v->map, v->map_bytes);
    if (v->fd >= 0)
        (void)close(v->fd);
    store_layout_done(&v->layout);
    free(v->is_shown);
    free(v->earlier);
    free(v);
}

const struct store_layout *store_view_layout(const struct store_view *v)
{
    return &v->layout;
}

void store_view_hide(struct store_view *v)
{
    if (v->is_shown == NULL)
        v->is_shown = xcalloc(v->layout.n_columns, 1);
    memset(v->is_shown, 0, v->layout.n_columns);
}

void store_view_show(struct store_view *v, int column)
{
    CHECK(column >= 0 && (uint32_t)column < v->layout.n_columns, "column %d", column);
    if (v->is_shown != NULL)
        v->is_shown[column] = 1;
}

void store_view_show_all(struct store_view *v)
{
    if (v->is_shown != NULL)
        memset(v->is_shown, 1, v->layout.n_columns);
}

/* Returns the index of the first row at or past the end; n if there is none. */
static size_t first_beyond(const uint64_t *rows, size_t n, uint64_t n_rows)
{
    size_t i = 0;

    while (i < n && (rows[i] < n_rows || rows[i] == ROW_NONE))
        i++;
    return i;
}

int store_view_check(struct store_view *v, const uint64_t *rows, size_t n,
                     struct err *err)
{
    size_t i = first_beyond(rows, n, atomic_load(&v->n_rows));
    int rc;

    if (i == n)
        return 0;
    rc = refresh_rows(v, err);
    if (rc < 0)
        return rc;
    i = first_beyond(rows, n, atomic_load(&v->n_rows));
    if (i == n)
        return 0;
    return err_set(err, ERR_LIMIT, "row %llu (at %zu) of an experience log of %llu rows",
                   (unsigned long long)rows[i], i,
                   (unsigned long long)atomic_load(&v->n_rows));
}

static inline void prefetch(const uint8_t *p)
{
    __builtin_prefetch(p, 0, 2);
}

static inline void prefetch_floats(const uint8_t *p, size_t n)
{
    size_t bytes = n * sizeof(float);

    prefetch(p);
    if (n == 1)
        return;
    if (bytes > PREFETCH_BYTES)
        bytes = PREFETCH_BYTES;
    for (size_t i = 64; i < bytes; i += 64)
        prefetch(p + i);
    prefetch(p + bytes - 1);
}

static inline void gather(const uint8_t *base, uint64_t row_bytes, const uint64_t *rows,
                          size_t n, size_t elements, float *dst, size_t stride)
{
    for (size_t i = 0; i < n && i < PREFETCH_ROWS; i++)
        if (rows[i] != ROW_NONE)
            prefetch_floats(base + rows[i] * row_bytes, elements);
    for (size_t i = 0; i < n; i++) {
        if (i + PREFETCH_ROWS < n && rows[i + PREFETCH_ROWS] != ROW_NONE)
            prefetch_floats(base + rows[i + PREFETCH_ROWS] * row_bytes, elements);
        if (rows[i] != ROW_NONE)
            copy_short(dst + i * stride, base + rows[i] * row_bytes,
                       elements * sizeof(float));
        else
            memset(dst + i * stride, 0, elements * sizeof(float));
    }
}

/* Gathers bytes as floats. Rows of images are long: the processor prefetches by
 * itself. */
static void gather_u8(const uint8_t *base, uint64_t row_bytes, const uint64_t *rows,
                      size_t n, size_t elements, float *dst, size_t stride)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i] != ROW_NONE)
            copy_bytes_to_floats(dst + i * stride, base + rows[i] * row_bytes, elements);
        else
            memset(dst + i * stride, 0, elements * sizeof(float));
    }
}

static const struct store_column *column_of(const struct store_view *v, int column,
                                            enum dtype dtype)
{
    CHECK(column >= 0 && (uint32_t)column < v->layout.n_columns &&
              v->layout.columns[column].dtype == dtype,
          "column %d", column);
    CHECK(v->is_shown == NULL || v->is_shown[column],
          "column %s is read, but not declared", v->layout.columns[column].name);
    return &v->layout.columns[column];
}

/* Returns a column that can be gathered as floats. */
static const struct store_column *column_at(const struct store_view *v, int column)
{
    CHECK(column >= 0 && (uint32_t)column < v->layout.n_columns, "column %d", column);
    return column_of(v, column,
                     v->layout.columns[column].dtype == DT_UINT8 ? DT_UINT8 : DT_FLOAT);
}

/* ---- stacked columns ---- */

static const uint8_t *row_at(const struct store_view *v, uint64_t row)
{
    return v->map + STORE_HEADER_BYTES + row * v->layout.row_bytes;
}

/* Puts one observation at place k of a stack. */
static void put_observation(const struct store_column *c, const uint8_t *from, uint32_t k,
                            float *dst)
{
    const size_t step = (size_t)c->together * c->stack;
    const size_t bytes = c->together * dtype_size((enum dtype)c->dtype);

    dst += (size_t)k * c->together;
    for (uint32_t i = 0; i < c->elements; i += c->together, dst += step, from += bytes) {
        if (c->dtype == DT_UINT8)
            copy_bytes_to_floats(dst, from, c->together);
        else
            copy_short(dst, from, bytes);
    }
}

static void gather_stack(const struct store_view *v, int column, uint64_t row, float *dst)
{
    const struct store_column *c = &v->layout.columns[column];
    const struct store_column *earlier = &v->layout.columns[v->earlier[column]];
    uint32_t k = c->stack;
    float first;

    put_observation(c, row_at(v, row) + c->offset, --k, dst);
    if (c != earlier) /* next_obs: before it comes the row's own obs */
        put_observation(c, row_at(v, row) + earlier->offset, --k, dst);
    while (k > 0) {
        memcpy(&first, row_at(v, row) + v->first, sizeof(first));
        if (first == 0 && row >= c->back) /* the same episode has an earlier row */
            row -= c->back;
        put_observation(c, row_at(v, row) + earlier->offset, --k, dst);
    }
}

static void gather_stacks(const struct store_view *v, int column, const uint64_t *rows,
                          size_t n, float *dst, size_t stride)
{
    const size_t width = store_column_width(&v->layout.columns[column]);

    for (size_t i = 0; i < n; i++, dst += stride) {
        if (rows[i] != ROW_NONE)
            gather_stack(v, column, rows[i], dst);
        else
            memset(dst, 0, width * sizeof(float));
    }
}

/* Returns how many of the columns, from the first on, are contiguous in a row and of one
 * type. A stacked one is gathered alone. */
static size_t adjacent_columns(const struct store_view *v, const int *columns, size_t n,
                               size_t *ret_elements)
{
    const struct store_column *first = column_at(v, columns[0]);
    size_t k = 1;

    *ret_elements = store_column_width(first);
    for (; k < n && first->stack == 0; k++) {
        const struct store_column *c = column_at(v, columns[k]);

        if (c->dtype != first->dtype || c->stack > 0 ||
            c->offset !=
                first->offset + *ret_elements * dtype_size((enum dtype)first->dtype))
            break;
        *ret_elements += c->elements;
    }
    return k;
}

void store_view_gather_joined(const struct store_view *v, const int *columns,
                              size_t n_columns, const uint64_t *rows, size_t n,
                              float *dst, size_t dst_stride)
{
    while (n_columns > 0) {
        const struct store_column *first = column_at(v, columns[0]);
        const uint8_t *base = v->map + STORE_HEADER_BYTES + first->offset;
        size_t elements, k = adjacent_columns(v, columns, n_columns, &elements);

        if (first->stack > 0)
            gather_stacks(v, columns[0], rows, n, dst, dst_stride);
        else if (first->dtype == DT_UINT8)
            gather_u8(base, v->layout.row_bytes, rows, n, elements, dst, dst_stride);
        else if (elements == 1) /* rewards, flags: the copy compiles to a single move */
            gather(base, v->layout.row_bytes, rows, n, 1, dst, dst_stride);
        else
            gather(base, v->layout.row_bytes, rows, n, elements, dst, dst_stride);
        columns += k;
        n_columns -= k;
        dst += elements;
    }
}

void store_view_gather(const struct store_view *v, int column, const uint64_t *rows,
                       size_t n, float *dst, size_t dst_stride)
{
    store_view_gather_joined(v, &column, 1, rows, n, dst, dst_stride);
}

void store_view_gather_bytes(const struct store_view *v, int column, const uint64_t *rows,
                             size_t n, uint8_t *dst)
{
    const struct store_column *c = column_of(v, column, DT_UINT8);
    const uint8_t *base = v->map + STORE_HEADER_BYTES + c->offset;

    CHECK(c->stack == 0, "column %s is stacked", c->name);
    for (size_t i = 0; i < n; i++)
        if (rows[i] != ROW_NONE)
            copy_short(dst + i * c->elements, base + rows[i] * v->layout.row_bytes,
                       c->elements);
        else
            memset(dst + i * c->elements, 0, c->elements);
}
