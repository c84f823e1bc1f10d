#include "supervisor/store/store.h"

#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/io/copy_file.h"
#include "common/io/patience.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "common/wire/cursor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct store {
    char *path;
    int fd;
    int agent_fd; /* the same file, read-only */
    uint64_t capacity;
    uint64_t head;
    uint64_t forgotten; /* bytes after the header that are holes */
    struct store_layout layout;
    uint8_t *rows; /* (rows_cap, row_bytes) */
    size_t rows_cap;
    uint32_t header_sum; /* CRC-32C of the header */
    uint64_t block_rows; /* rows per checksum */
    uint64_t before;     /* rows before a row that are read with it: stacked columns */
    uint32_t *sums; /* [n_sums] of the blocks from row 0 on; the last may be incomplete */
    size_t n_sums, sums_cap;
};

enum { STATE_VERSION = 1 };

static struct store *new_store(const char *path, uint64_t capacity)
{
    struct store *s = xcalloc(1, sizeof(*s));

    CHECK(capacity > 0);
    s->path = xstrdup(path);
    s->capacity = capacity;
    s->forgotten = STORE_HEADER_BYTES;
    s->fd = s->agent_fd = -1;
    return s;
}

int store_create(struct store **ret, const char *path, uint64_t capacity, struct err *err)
{
    struct store *s = new_store(path, capacity);
    int rc;

    s->fd = beneath_open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    if (s->fd >= 0)
        s->agent_fd = beneath_open(path, O_RDONLY, 0);
    if (s->agent_fd < 0) {
        rc = errno == EEXIST ? err_set(err, ERR_EXISTS, "%s: exists already", path)
                             : err_errno(err, "%s", path);
        store_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void store_free(struct store *s)
{
    if (s == NULL)
        return;
    if (s->fd >= 0)
        (void)close(s->fd);
    if (s->agent_fd >= 0)
        (void)close(s->agent_fd);
    store_layout_done(&s->layout);
    free(s->rows);
    free(s->sums);
    free(s->path);
    free(s);
}

int store_agent_fd(const struct store *s)
{
    return s->agent_fd;
}

static int add_column(struct store_layout *l, const char *agent, const char *name,
                      enum dtype dtype, uint32_t elements, struct err *err)
{
    char full[STORE_COLUMN_NAME_MAX];
    int n = snprintf(full, sizeof(full), "%s/%s", agent, name);

    if (n < 0 || (size_t)n >= sizeof(full))
        return err_set(err, ERR_LIMIT, "column name too long: %s/%s", agent, name);
    return store_layout_add(l, full, dtype, elements, err);
}

static const struct agent_column {
    const char *name;
    enum { OBS_WIDE, ACTION_WIDE, SCALAR } width;
    int is_mask; /* a column of bytes, where the agent is masked */
} agent_columns[] = {
    {"obs", OBS_WIDE, 0},        {"action", ACTION_WIDE, 0},
    {"next_obs", OBS_WIDE, 0},   {"reward", SCALAR, 0},
    {"terminated", SCALAR, 0},   {"alive", SCALAR, 0},
    {"allowed", ACTION_WIDE, 1}, {"next_allowed", ACTION_WIDE, 1},
};

/* Adds one column for every agent that has it. */
static int add_everyones(struct store_layout *l, const struct env_spec *spec,
                         const struct agent_column *c, struct err *err)
{
    for (size_t i = 0; i < spec->n_agents; i++) {
        const struct env_agent *a = &spec->agents[i];
        const int32_t elements = c->width == OBS_WIDE      ? a->obs_width
                                 : c->width == ACTION_WIDE ? a->space.width
                                                           : 1;
        const enum dtype dtype = c->width == OBS_WIDE ? env_obs_dtype(a)
                                 : c->is_mask         ? DT_UINT8
                                                      : DT_FLOAT;
        int rc;

        if (c->is_mask && !env_is_masked(spec, i))
            continue;
        rc = add_column(l, a->name, c->name, dtype, (uint32_t)elements, err);
        if (rc < 0)
            return rc;
        if (c->width == OBS_WIDE && spec->stack > 1)
            store_layout_stack(l, rc, env_stack(spec), (uint32_t)spec->copies,
                               env_together(a));
    }
    return 0;
}

static int fill_layout(struct store_layout *l, const struct env_spec *spec,
                       const struct store_extra *extra, size_t n_extra, struct err *err)
{
    int rc;

    for (size_t i = 0; i < sizeof(agent_columns) / sizeof(agent_columns[0]); i++)
        if ((rc = add_everyones(l, spec, &agent_columns[i], err)) < 0)
            return rc;
    if ((rc = store_layout_add(l, "truncated", DT_FLOAT, 1, err)) < 0 ||
        (rc = store_layout_add(l, "first", DT_FLOAT, 1, err)) < 0)
        return rc;
    for (size_t i = 0; i < n_extra; i++)
        if ((rc = add_column(l, extra[i].agent, extra[i].name, DT_FLOAT,
                             extra[i].elements, err)) < 0)
            return rc;
    return 0;
}

int store_layout_make(struct store_layout *ret, const struct env_spec *spec,
                      const struct store_extra *extra, size_t n_extra, struct err *err)
{
    struct store_layout l = {0};
    int rc = fill_layout(&l, spec, extra, n_extra, err);

    if (rc < 0)
        store_layout_done(&l);
    else
        *ret = l;
    return rc;
}

static int write_at(const struct store *s, const void *data, size_t len, uint64_t offset,
                    struct err *err)
{
    return pwrite_all(s->fd, data, len, offset) < 0
               ? err_errno(err, "%s: cannot write experience", s->path)
               : 0;
}

/* Takes ownership of the layout's columns. header: the bytes in the file. */
static void set_layout(struct store *s, struct store_layout *layout, const void *header)
{
    s->header_sum = crc32c(header, STORE_HEADER_BYTES);
    s->layout = *layout;
    *layout = (struct store_layout){0};
    s->before = 0;
    for (uint32_t c = 0; c < s->layout.n_columns; c++) {
        const struct store_column *column = &s->layout.columns[c];

        if (column->stack > 0)
            s->before = (uint64_t)(column->stack - 1) * column->back;
    }
    s->block_rows = STORE_BLOCK_BYTES / s->layout.row_bytes;
    if (s->block_rows == 0)
        s->block_rows = 1;
}

int store_describe(struct store *s, struct store_layout *layout, struct err *err)
{
    uint8_t *header;
    int rc;

    if (s->layout.n_columns > 0)
        return store_layout_hash(layout) == store_layout_hash(&s->layout)
                   ? 0
                   : err_set(err, ERR_FORMAT,
                             "%s: the log has other columns than this run", s->path);
    header = xcalloc(1, STORE_HEADER_BYTES);
    store_layout_encode(layout, header);
    rc = write_at(s, header, STORE_HEADER_BYTES, 0, err);
    if (rc == 0)
        set_layout(s, layout, header);
    free(header);
    return rc;
}

const struct store_layout *store_layout(const struct store *s)
{
    return &s->layout;
}

uint8_t *store_rows(struct store *s, size_t n)
{
    size_t bytes;

    CHECK(s->layout.n_columns > 0);
    if (n > s->rows_cap) {
        CHECK(mem_mul(n, s->layout.row_bytes, &bytes));
        s->rows = xrealloc(s->rows, bytes);
        memset(s->rows, 0, bytes); /* the padding between columns */
        s->rows_cap = n;
    }
    return s->rows;
}

static uint64_t row_offset(const struct store *s, uint64_t row)
{
    return STORE_HEADER_BYTES + row * s->layout.row_bytes;
}

/* Adds n consecutive rows, beginning with number `row`, to the checksums of their
 * blocks. */
static void add_to_sums(struct store *s, uint64_t row, const uint8_t *data, size_t n)
{
    while (n > 0) {
        size_t block = (size_t)(row / s->block_rows);
        uint64_t left = s->block_rows - row % s->block_rows;
        size_t some = n < left ? n : (size_t)left;

        if (block >= s->sums_cap) {
            s->sums_cap = 2 * block + 64;
            s->sums = xreallocarray(s->sums, s->sums_cap, sizeof(*s->sums));
        }
        if (block == s->n_sums)
            s->sums[s->n_sums++] = crc32c(NULL, 0);
        s->sums[block] =
            crc32c_extend(s->sums[block], data, some * (size_t)s->layout.row_bytes);
        row += some;
        data += some * s->layout.row_bytes;
        n -= some;
    }
}

int store_append(struct store *s, size_t n, struct err *err)
{
    int rc;

    CHECK(n <= s->rows_cap);
    rc = write_at(s, s->rows, n * s->layout.row_bytes, row_offset(s, s->head), err);
    if (rc < 0)
        return rc;
    add_to_sums(s, s->head, s->rows, n);
    s->head += n;
    return 0;
}

uint64_t store_head(const struct store *s)
{
    return s->head;
}

/* The oldest row of the window at the time when the log has `head` rows. */
static uint64_t window_first_at(const struct store *s, uint64_t head)
{
    return head < s->capacity ? 0 : head - s->capacity;
}

uint64_t store_needed_first_at(const struct store *s, uint64_t head)
{
    const uint64_t first = window_first_at(s, head);

    return first < s->before ? 0 : first - s->before;
}

uint64_t store_window_first(const struct store *s)
{
    return window_first_at(s, s->head);
}

uint64_t store_window_rows(const struct store *s)
{
    return s->head - store_window_first(s);
}

void store_draw(const struct store *s, struct rng_key key, uint64_t counter,
                uint64_t *ret_rows, size_t n)
{
    uint64_t first = store_window_first(s);

    CHECK(s->head > 0);
    rng_below(key, counter, 0, store_window_rows(s), ret_rows, n);
    for (size_t i = 0; i < n; i++)
        ret_rows[i] += first;
}

int store_forget(struct store *s, uint64_t first, uint64_t end, struct err *err)
{
    const uint64_t block = s->block_rows, file_block = 4096;
    uint64_t from = row_offset(s, (first + block - 1) / block * block);
    uint64_t to = row_offset(s, end - end % block);

    from = first == 0 ? s->forgotten : (from + file_block - 1) / file_block * file_block;
    to -= to % file_block; /* only whole file blocks can become holes */
    if (to <= from)
        return 0;
    if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                  (off_t)(to - from)) < 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return 0;
        return err_errno(err, "%s: cannot free the space of old rows", s->path);
    }
    if (first == 0)
        s->forgotten = to;
    return 0;
}

int store_sync(struct store *s, struct err *err)
{
    if (fdatasync(s->fd) == 0)
        return 0;
    (void)err_errno(err, "%s: rows may be lost: cannot sync", s->path);
    if (err != NULL)
        err->code = ERR_CORRUPT;
    return ERR_CORRUPT;
}

/* ---- copying ---- */

/* Copies the header, and the rows of the range from the block of its first row on; if the
 * filesystem can copy by reference, the whole file. */
static int copy_rows_to(const struct store *s, int to, uint64_t first, uint64_t end)
{
    const uint64_t block = s->block_rows > 0 ? first - first % s->block_rows : 0;
    struct stat st;
    off_t size;

    if (copy_reference(s->fd, to) == 0)
        return 0;
    if (fstat(s->fd, &st) < 0)
        return -1;
    size = end == STORE_ALL_ROWS ? st.st_size : (off_t)row_offset(s, end);
    if (ftruncate(to, size) < 0 || copy_bytes(s->fd, to, 0, STORE_HEADER_BYTES) < 0)
        return -1;
    return copy_bytes(s->fd, to, (off_t)row_offset(s, block), size);
}

int store_copy(const struct store *s, uint64_t first, uint64_t end, const char *path,
               struct err *err)
{
    const int fd = beneath_open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    int rc = 0;

    if (fd < 0 || copy_rows_to(s, fd, first, end) < 0 || fsync(fd) < 0)
        rc = err_errno(err, "%s: cannot copy the experience", path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* ---- the state in a checkpoint ---- */

void store_sums_save(const struct store *s, uint64_t row, uint8_t **ret, size_t *ret_len)
{
    const size_t first = s->block_rows > 0 ? (size_t)(row / s->block_rows) : 0;
    struct wbuf b = {0};

    wbuf_u32(&b, STATE_VERSION);
    wbuf_u64(&b, s->head);
    wbuf_u64(&b, store_layout_hash(&s->layout));
    wbuf_u64(&b, s->block_rows);
    wbuf_u64(&b, first);
    for (size_t i = first; i < s->n_sums; i++)
        wbuf_u32(&b, s->sums[i]);
    *ret = b.data;
    *ret_len = b.len;
}

void store_state_save(const struct store *s, uint8_t **ret, size_t *ret_len)
{
    store_sums_save(s, store_needed_first_at(s, s->head), ret, ret_len);
}

struct saved { /* store_sums_save, parsed */
    uint64_t head, layout_hash, block_rows, first, n;
    struct cursor sums;
};

static int parse_state(struct saved *ret, const void *state, size_t len, struct err *err)
{
    struct cursor c = cursor_of(state, len);
    uint32_t version = cursor_u32(&c);

    ret->head = cursor_u64(&c);
    ret->layout_hash = cursor_u64(&c);
    ret->block_rows = cursor_u64(&c);
    ret->first = cursor_u64(&c);
    ret->sums = c;
    ret->n = cursor_left(&c) / sizeof(uint32_t);
    if (c.failed || version != STATE_VERSION || ret->block_rows == 0 ||
        cursor_left(&c) % sizeof(uint32_t) != 0 || ret->first > ret->head ||
        ret->first + ret->n != (ret->head + ret->block_rows - 1) / ret->block_rows)
        return err_set(err, ERR_FORMAT,
                       "the checkpoint's state of the experience log is malformed");
    return 0;
}

static int read_at(const struct store *s, void *data, size_t len, uint64_t offset,
                   struct err *err)
{
    const ssize_t n = pread_all(s->fd, data, len, offset);

    if (n < 0)
        return err_errno(err, "%s: cannot read experience", s->path);
    return (size_t)n == len ? 0 : err_set(err, ERR_CORRUPT, "%s is cut short", s->path);
}

static int read_layout(struct store *s, const struct saved *saved, struct err *err)
{
    uint8_t *header = xmalloc(STORE_HEADER_BYTES);
    struct store_layout layout = {0};
    int rc = read_at(s, header, STORE_HEADER_BYTES, 0, err);

    if (rc == 0 && (rc = store_layout_decode(header, &layout, err)) < 0)
        (void)err_wrap(err, "%s", s->path);
    if (rc == 0)
        set_layout(s, &layout, header);
    free(header);
    if (rc < 0)
        return rc;
    if (store_layout_hash(&s->layout) != saved->layout_hash ||
        s->block_rows != saved->block_rows)
        return err_set(err, ERR_CORRUPT, "%s: its header is not that of this run",
                       s->path);
    return 0;
}

/* Reads the rows again, block by block. The error names the first damaged range: adjacent
 * damaged blocks are reported together. */
static int verify(const struct store *s, const struct saved *saved, struct err *err)
{
    uint8_t *data = xmalloc((size_t)(s->block_rows * s->layout.row_bytes));
    struct cursor sums = saved->sums;
    uint64_t bad = 0, bad_end = 0;
    int rc = 0, is_sound;

    for (uint64_t row = saved->first * s->block_rows;
         row < saved->head && rc == 0 && (rc = patience_check(err)) == 0;) {
        const uint64_t left = saved->head - row;
        const size_t n = (size_t)(left < s->block_rows ? left : s->block_rows);
        const size_t bytes = n * (size_t)s->layout.row_bytes;

        rc = read_at(s, data, bytes, row_offset(s, row), err);
        is_sound = rc == 0 && crc32c(data, bytes) == cursor_u32(&sums);
        if (is_sound && bad_end > 0)
            break;
        if (!is_sound)
            bad = bad_end > 0 ? bad : row, bad_end = row + n;
        row += n;
    }
    free(data);
    if (rc == 0 && bad_end > 0)
        rc = err_set(err, ERR_CORRUPT, "%s: rows %llu to %llu are damaged", s->path,
                     (unsigned long long)bad, (unsigned long long)(bad_end - 1));
    return rc;
}

int store_check(const struct store *s, const void *sums, size_t len, struct err *err)
{
    struct saved saved;
    int rc;

    if (s->layout.n_columns == 0)
        return 0;
    rc = parse_state(&saved, sums, len, err);
    if (rc == 0) {
        uint8_t *header = xmalloc(STORE_HEADER_BYTES);

        rc = read_at(s, header, STORE_HEADER_BYTES, 0, err);
        if (rc == 0 && crc32c(header, STORE_HEADER_BYTES) != s->header_sum)
            rc = err_set(err, ERR_CORRUPT, "%s: its header is damaged", s->path);
        free(header);
    }
    if (rc == 0)
        rc = verify(s, &saved, err);
    if (rc < 0 && err != NULL) /* an unreadable disk counts as corruption, too */
        err->code = ERR_CORRUPT;
    return rc < 0 ? ERR_CORRUPT : 0;
}

static int open_file(struct store *s, int flags, struct err *err)
{
    s->fd = beneath_open(s->path, flags, 0);
    if (s->fd >= 0)
        s->agent_fd = beneath_open(s->path, O_RDONLY, 0);
    if (s->agent_fd >= 0)
        return 0;
    return errno == ENOENT
               ? err_set(
                     err, ERR_NOT_FOUND,
                     "%s is missing: the run cannot continue without its experience log",
                     s->path)
               : err_errno(err, "%s", s->path);
}

/* Checks the opened file against the saved state, then restores that state. */
static int take_file(struct store *s, const struct saved *saved, struct err *err)
{
    struct cursor sums = saved->sums;
    struct stat st;
    uint64_t first;
    int rc = s->layout.n_columns == 0 ? read_layout(s, saved, err) : 0;

    if (rc < 0)
        return rc;
    first = store_needed_first_at(s, saved->head);
    if (fstat(s->fd, &st) < 0)
        return err_errno(err, "%s", s->path);
    if (saved->head > ((uint64_t)st.st_size - STORE_HEADER_BYTES) / s->layout.row_bytes)
        return err_set(err, ERR_CORRUPT, "%s is cut short", s->path);
    if (first < saved->first * s->block_rows)
        return err_set(err, ERR_LIMIT,
                       "a capacity of %llu needs rows that %s no longer holds",
                       (unsigned long long)s->capacity, s->path);
    rc = verify(s, saved, err);
    if (rc < 0)
        return rc;
    /* as if the rows had just been appended */
    s->n_sums = (size_t)(saved->first + saved->n);
    s->sums_cap = s->n_sums + 64;
    s->sums = xcalloc(s->sums_cap, sizeof(*s->sums));
    for (size_t i = (size_t)saved->first; i < s->n_sums; i++)
        s->sums[i] = cursor_u32(&sums);
    s->head = saved->head;
    return 0;
}

/* An unnamed file where a copy by reference is most likely possible. */
static int open_unnamed(const char *path)
{
    char *dir = xstrdup(path);
    char *slash = strrchr(dir, '/');
    int fd;

    for (int i = 0; i < 2 && slash != NULL; i++) { /* <runs>/<name>/experience */
        *slash = '\0';
        slash = strrchr(dir, '/');
    }
    fd = open(slash != NULL ? dir : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    free(dir);
    return fd >= 0 ? fd : memfd_create("experience", MFD_CLOEXEC);
}

static int copy_window(struct store *s, const struct saved *saved, int from,
                       struct err *err)
{
    const uint64_t first = saved->first * saved->block_rows;
    int rc;

    if (copy_reference(from, s->fd) == 0)
        return 0;
    /* sized first, because holes at the end are not copied */
    if (ftruncate(s->fd, STORE_HEADER_BYTES) < 0 ||
        copy_bytes(from, s->fd, 0, STORE_HEADER_BYTES) < 0)
        return err_errno(err, "copying %s", s->path);
    rc = read_layout(s, saved, err);
    if (rc == 0 && (ftruncate(s->fd, (off_t)row_offset(s, saved->head)) < 0 ||
                    copy_bytes(from, s->fd, (off_t)row_offset(s, first),
                               (off_t)row_offset(s, saved->head)) < 0))
        rc = err_errno(err, "copying %s", s->path);
    return rc;
}

static int open_copy(struct store *s, const struct saved *saved, struct err *err)
{
    const int from = beneath_open(s->path, O_RDONLY, 0);
    const int is_empty = from < 0 && errno == ENOENT && saved->head == 0;
    char path[64];
    int rc;

    if (from < 0 && !is_empty)
        return err_errno(err, "%s", s->path);
    s->fd = open_unnamed(s->path);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
    if (s->fd >= 0)
        s->agent_fd = open(path, O_RDONLY | O_CLOEXEC);
    rc = s->agent_fd < 0 ? err_errno(err, "a file for a copy of %s", s->path)
         : is_empty      ? 0
                         : copy_window(s, saved, from, err);
    if (rc == 0 && !is_empty)
        rc = take_file(s, saved, err);
    if (from >= 0)
        (void)close(from);
    return rc;
}

enum opening { TO_CONTINUE, TO_READ, AS_COPY };

static int open_with(struct store **ret, const char *path, uint64_t capacity,
                     const void *state, size_t len, enum opening how, struct err *err)
{
    struct saved saved;
    struct store *s;
    int rc = parse_state(&saved, state, len, err);

    if (rc < 0)
        return rc;
    s = new_store(path, capacity);
    if (how == AS_COPY)
        rc = open_copy(s, &saved, err);
    else if ((rc = open_file(s, how == TO_READ ? O_RDONLY : O_RDWR, err)) == 0)
        rc = take_file(s, &saved, err);
    if (rc < 0)
        store_free(s);
    else
        *ret = s;
    return rc;
}

int store_open(struct store **ret, const char *path, uint64_t capacity, const void *state,
               size_t len, struct err *err)
{
    return open_with(ret, path, capacity, state, len, TO_CONTINUE, err);
}

int store_open_read(struct store **ret, const char *path, uint64_t capacity,
                    const void *state, size_t len, struct err *err)
{
    return open_with(ret, path, capacity, state, len, TO_READ, err);
}

int store_open_copy(struct store **ret, const char *path, uint64_t capacity,
                    const void *state, size_t len, struct err *err)
{
    return open_with(ret, path, capacity, state, len, AS_COPY, err);
}

int store_cut(struct store *s, struct err *err)
{
    if (ftruncate(s->fd, (off_t)row_offset(s, s->head)) < 0)
        return err_errno(err, "%s: cannot cut", s->path);
    return 0;
}
