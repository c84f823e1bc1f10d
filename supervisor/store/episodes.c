#include "supervisor/store/episodes.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/store/store_view.h"

#include <stdlib.h>
#include <string.h>

struct copy {
    uint64_t *start; /* first rows of episodes, ascending: [from .. end) */
    size_t from, end, cap;
    int ended; /* the newest row is the last of its episode */
};

struct episodes {
    size_t n; /* E */
    struct copy *copies;
    uint64_t head;    /* rows of the log */
    uint64_t *before; /* [E + 1]: complete episodes of the copies before copy e */
};

struct episodes *episodes_new(size_t copies)
{
    struct episodes *x = xcalloc(1, sizeof(*x));

    CHECK(copies > 0);
    x->n = copies;
    x->copies = xcalloc(copies, sizeof(*x->copies));
    x->before = xcalloc(copies + 1, sizeof(*x->before));
    return x;
}

void episodes_free(struct episodes *x)
{
    if (x == NULL)
        return;
    for (size_t e = 0; e < x->n; e++)
        free(x->copies[e].start);
    free(x->copies);
    free(x->before);
    free(x);
}

/* ---- taking in rows ---- */

static void begin_episode(struct copy *c, uint64_t row)
{
    if (c->end == c->cap && c->from > c->cap / 2) {
        memmove(c->start, c->start + c->from, (c->end - c->from) * sizeof(*c->start));
        c->end -= c->from;
        c->from = 0;
    }
    ARRAY_GROW(c->start, c->end, c->cap);
    c->start[c->end++] = row;
}

/* Drops the episodes whose first row has left the window, and counts the complete
 * ones. */
static void drop_and_count(struct episodes *x, uint64_t window_first)
{
    for (size_t e = 0; e < x->n; e++) {
        struct copy *c = &x->copies[e];
        size_t begun;

        while (c->from < c->end && c->start[c->from] < window_first)
            c->from++;
        begun = c->end - c->from;
        x->before[e + 1] = x->before[e] + (begun > 0 && !c->ended ? begun - 1 : begun);
    }
}

void episodes_add(struct episodes *x, uint64_t row, const uint8_t *first,
                  const uint8_t *ended, uint64_t window_first)
{
    CHECK(row == x->head && row % x->n == 0);
    for (size_t e = 0; e < x->n; e++) {
        if (first[e])
            begin_episode(&x->copies[e], row + e);
        x->copies[e].ended = ended[e] != 0;
    }
    x->head = row + x->n;
    drop_and_count(x, window_first);
}

static void read_firsts(struct episodes *x, const struct store_view *v, int column,
                        uint64_t row, uint64_t end)
{
    enum { SOME = 1024 };
    uint64_t rows[SOME];
    float first[SOME];

    while (row < end) {
        const size_t n = end - row < SOME ? (size_t)(end - row) : SOME;

        for (size_t i = 0; i < n; i++)
            rows[i] = row + i;
        store_view_gather(v, column, rows, n, first, 1);
        for (size_t i = 0; i < n; i++)
            if (first[i] > 0)
                begin_episode(&x->copies[rows[i] % x->n], rows[i]);
        row += n;
    }
}

int episodes_read(struct episodes *x, const struct store *s, const uint8_t *ended,
                  struct err *err)
{
    const uint64_t end = store_head(s), newest = end - 1;
    const int column = store_layout_find(store_layout(s), NULL, "first");
    struct store_view *v;
    int rc;

    CHECK(x->head == 0 && end % x->n == 0 && column >= 0);
    if (end == 0)
        return 0;
    if ((rc = store_view_open(&v, store_agent_fd(s), err)) < 0)
        return rc;
    rc = store_view_check(v, &newest, 1, err);
    if (rc == 0)
        read_firsts(x, v, column, store_window_first(s), end);
    store_view_close(v);
    for (size_t e = 0; e < x->n; e++)
        x->copies[e].ended = ended[e] != 0;
    x->head = end;
    drop_and_count(x, store_window_first(s));
    return rc;
}

/* ---- asking ---- */

uint64_t episodes_complete(const struct episodes *x)
{
    return x->before[x->n];
}

int episodes_newest(const struct episodes *x, size_t copy, uint64_t *ret_first)
{
    const struct copy *c = &x->copies[copy];

    if (!c->ended || c->from == c->end)
        return 0;
    *ret_first = c->start[c->end - 1];
    return 1;
}

/* Fills ret_rows with row, row + E, ... below end, then with ROW_NONE. */
static void episodes_fill(const struct episodes *x, uint64_t row, uint64_t end,
                          uint64_t *ret_rows, size_t length)
{
    for (size_t t = 0; t < length; t++, row += x->n)
        ret_rows[t] = row < end ? row : ROW_NONE;
}

/* The index of the first of `n` ascending numbers that is above `value`; n: none is. */
static size_t first_above(const uint64_t *a, size_t n, uint64_t value)
{
    size_t lo = 0;

    while (lo < n) {
        const size_t middle = lo + (n - lo) / 2;

        if (a[middle] > value)
            n = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

void episodes_rows(const struct episodes *x, uint64_t k, uint64_t *ret_rows,
                   size_t length)
{
    const struct copy *c;
    size_t e, i;

    CHECK(k < episodes_complete(x));
    e = first_above(x->before, x->n + 1, k) - 1;
    c = &x->copies[e];
    i = c->from + (size_t)(k - x->before[e]);
    episodes_fill(x, c->start[i], i + 1 < c->end ? c->start[i + 1] : x->head, ret_rows,
                  length);
}

void episodes_behind(const struct episodes *x, uint64_t row, uint64_t *ret_rows,
                     size_t length)
{
    const struct copy *c = &x->copies[row % x->n];
    const size_t n = c->end - c->from;
    const size_t i = n > 0 ? first_above(c->start + c->from, n, row) : 0;

    CHECK(row < x->head);
    episodes_fill(x, row, i < n ? c->start[c->from + i] : x->head, ret_rows, length);
}
