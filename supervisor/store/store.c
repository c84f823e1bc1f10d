#include "supervisor/store/store.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct store {
    char *path;
    int fd;
    int agent_fd; /* the same file, read-only */
    uint64_t capacity;
    uint64_t head;
    uint64_t forgotten; /* bytes of the file from the header on that are holes */
    struct store_layout layout;
    uint8_t *rows; /* (rows_cap, row_bytes) */
    size_t rows_cap;
};

int store_create(struct store **ret, const char *path, uint64_t capacity, struct err *err)
{
    struct store *s = xcalloc(1, sizeof(*s));
    int rc;

    CHECK(capacity > 0);
    s->path = xstrdup(path);
    s->capacity = capacity;
    s->agent_fd = -1;
    s->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd >= 0)
        s->agent_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (s->agent_fd < 0) {
        rc = errno == EEXIST ? err_set(err, ERR_EXISTS, "%s: is there already", path)
                             : err_errno(err, "%s", path);
        store_free(s);
        return rc;
    }
    s->forgotten = STORE_HEADER_BYTES;
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
    free(s->path);
    free(s);
}

int store_agent_fd(const struct store *s)
{
    return s->agent_fd;
}

static int add_column(struct store_layout *l, const char *agent, const char *name,
                      uint32_t elements, struct err *err)
{
    char full[STORE_COLUMN_NAME_MAX];
    int n = snprintf(full, sizeof(full), "%s/%s", agent, name);

    if (n < 0 || (size_t)n >= sizeof(full))
        return err_set(err, ERR_LIMIT, "column name too long: %s/%s", agent, name);
    return store_layout_add(l, full, DT_FLOAT, elements, err);
}

static int add_agent(struct store_layout *l, const struct env_agent *a, struct err *err)
{
    const struct {
        const char *name;
        int32_t elements;
    } columns[] = {
        {"obs", a->obs_width},      {"action", a->space.width}, {"reward", 1},
        {"next_obs", a->obs_width}, {"terminated", 1},          {"alive", 1},
    };

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        int rc =
            add_column(l, a->name, columns[i].name, (uint32_t)columns[i].elements, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int fill_layout(struct store_layout *l, const struct env_spec *spec,
                       const struct store_extra *extra, size_t n_extra, struct err *err)
{
    int rc;

    for (size_t a = 0; a < spec->n_agents; a++)
        if ((rc = add_agent(l, &spec->agents[a], err)) < 0)
            return rc;
    if ((rc = store_layout_add(l, "truncated", DT_FLOAT, 1, err)) < 0 ||
        (rc = store_layout_add(l, "first", DT_FLOAT, 1, err)) < 0)
        return rc;
    for (size_t i = 0; i < n_extra; i++)
        if ((rc = add_column(l, extra[i].agent, extra[i].name, extra[i].elements, err)) <
            0)
            return rc;
    return 0;
}

int store_layout_make(struct store_layout *ret, const struct env_spec *spec,
                      const struct store_extra *extra, size_t n_extra, struct err *err)
{
    struct store_layout l = {0};
    int rc = fill_layout(&l, spec, extra, n_extra, err);

    if (rc < 0) {
        store_layout_done(&l);
        return rc;
    }
    *ret = l;
    return 0;
}

/* All of it, or an error: a full disk shows as a short write first. */
static int write_at(const struct store *s, const void *data, size_t len, uint64_t offset,
                    struct err *err)
{
    const uint8_t *p = data;

    while (len > 0) {
        ssize_t n = pwrite(s->fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, "%s: cannot write experience", s->path);
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

int store_describe(struct store *s, struct store_layout *layout, struct err *err)
{
    uint8_t *header = xcalloc(1, STORE_HEADER_BYTES);
    int rc;

    CHECK(s->layout.n_columns == 0 && s->head == 0);
    store_layout_encode(layout, header);
    rc = write_at(s, header, STORE_HEADER_BYTES, 0, err);
    free(header);
    if (rc < 0)
        return rc;
    s->layout = *layout;
    *layout = (struct store_layout){0};
    return 0;
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
        s->rows_cap = n;
    }
    return s->rows;
}

static uint64_t row_offset(const struct store *s, uint64_t row)
{
    return STORE_HEADER_BYTES + row * s->layout.row_bytes;
}

int store_append(struct store *s, size_t n, struct err *err)
{
    int rc;

    CHECK(n <= s->rows_cap);
    rc = write_at(s, s->rows, n * s->layout.row_bytes, row_offset(s, s->head), err);
    if (rc == 0)
        s->head += n;
    return rc;
}

uint64_t store_head(const struct store *s)
{
    return s->head;
}

uint64_t store_window_first_at(const struct store *s, uint64_t head)
{
    return head < s->capacity ? 0 : head - s->capacity;
}

uint64_t store_window_first(const struct store *s)
{
    return store_window_first_at(s, s->head);
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

int store_forget(struct store *s, uint64_t row, struct err *err)
{
    uint64_t end;

    CHECK(row <= s->head);
    end = row_offset(s, row) & ~(uint64_t)4095; /* only whole blocks are given back */
    if (end <= s->forgotten)
        return 0;
    if (fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->forgotten,
                  (off_t)(end - s->forgotten)) < 0) {
        if (errno == EOPNOTSUPP || errno == ENOSYS)
            return 0;
        return err_errno(err, "%s: cannot give back old rows", s->path);
    }
    s->forgotten = end;
    return 0;
}

int store_sync(struct store *s, struct err *err)
{
    return fdatasync(s->fd) < 0 ? err_errno(err, "%s: cannot sync", s->path) : 0;
}
