#include "supervisor/save/block_image.h"

#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VARIABLES = 100000, MAX_NAME = 1024 };

/* ---- the bytes of no saved variable ---- */

struct gap {
    size_t begin, end;
};

static size_t bytes_of(const struct block_variable *v)
{
    return (size_t)shape_elements(&v->shape) * dtype_size(v->dtype);
}

static int by_place(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Variables are inside the block already. The gaps are one more than saved variables;
 * some are empty. NULL: two of these overlap. */
static struct gap *find_gaps(const struct block_table *t, size_t block_bytes,
                             size_t *ret_n)
{
    struct gap *g = xcalloc(t->n + 1, sizeof(*g));
    size_t n = 0, end = 0;

    for (size_t i = 0; i < t->n; i++) {
        const struct block_variable *v = &t->variables[i];
        if (v->saved)
            g[n++] = (struct gap){v->offset, v->offset + bytes_of(v)};
    }
    if (n > 1)
        qsort(g, n, sizeof(*g), by_place);
    for (size_t i = 0; i < n; i++) {
        struct gap saved = g[i];

        if (saved.begin < end) {
            free(g);
            return NULL;
        }
        g[i] = (struct gap){end, saved.begin};
        end = saved.end;
    }
    g[n] = (struct gap){end, block_bytes};
    *ret_n = n + 1;
    return g;
}

/* ---- writing ---- */

static void put_variable(struct wbuf *b, const struct block_variable *v)
{
    wbuf_u32(b, (uint32_t)strlen(v->name));
    wbuf_bytes(b, v->name, strlen(v->name));
    wbuf_u32(b, (uint32_t)v->dtype);
    wbuf_u32(b, (uint32_t)v->shape.rank);
    for (int d = 0; d < v->shape.rank; d++)
        wbuf_u64(b, (uint64_t)v->shape.dim[d]);
    wbuf_u64(b, v->offset);
    wbuf_u32(b, v->saved != 0);
}

int block_image_put(struct wbuf *b, const struct block_table *table, const void *block,
                    size_t block_bytes, struct err *err)
{
    size_t n = 0;
    struct gap *gaps = find_gaps(table, block_bytes, &n);

    if (gaps == NULL)
        return err_set(err, ERR_PROTOCOL, "variables: two of them overlap");
    wbuf_u64(b, block_bytes);
    wbuf_u32(b, (uint32_t)table->n);
    for (size_t i = 0; i < table->n; i++)
        put_variable(b, &table->variables[i]);
    for (size_t i = 0; i < n; i++)
        if (gaps[i].end > gaps[i].begin)
            wbuf_bytes(b, (const uint8_t *)block + gaps[i].begin,
                       gaps[i].end - gaps[i].begin);
    free(gaps);
    return 0;
}

/* ---- reading ---- */

static int parse_variable(struct block_variable *v, struct cursor *c, size_t block_bytes)
{
    uint32_t name_len = cursor_u32(c), rank;
    const uint8_t *name = name_len <= MAX_NAME ? cursor_bytes(c, name_len) : NULL;
    int64_t elements;
    size_t bytes, end;

    if (name == NULL)
        return 0;
    v->name = xstrndup((const char *)name, name_len);
    v->dtype = (enum dtype)cursor_u32(c);
    rank = cursor_u32(c);
    if (c->failed || rank > SHAPE_MAX_RANK)
        return 0;
    v->shape = (struct shape){.rank = (int)rank};
    for (uint32_t d = 0; d < rank; d++)
        v->shape.dim[d] = (int64_t)cursor_u64(c);
    v->offset = cursor_u64(c);
    v->saved = cursor_u32(c) == 1;
    elements = shape_elements(&v->shape);
    return !c->failed && elements >= 0 && dtype_size(v->dtype) > 0 &&
           mem_mul((size_t)elements, dtype_size(v->dtype), &bytes) &&
           mem_add(bytes, (size_t)v->offset, &end) && end <= block_bytes;
}

static int parse_table(struct block_image *i, struct cursor *c)
{
    uint64_t block_bytes = cursor_u64(c);
    uint32_t n = cursor_u32(c);

    if (c->failed || block_bytes > BLOCK_CAPACITY_BYTES || n > MAX_VARIABLES)
        return 0;
    i->block_bytes = (size_t)block_bytes;
    i->table.variables = xcalloc(n, sizeof(*i->table.variables));
    while (i->table.n < n)
        if (!parse_variable(&i->table.variables[i->table.n++], c, i->block_bytes))
            return 0;
    return 1;
}

static int has_all_bytes(const struct block_image *i, size_t rest_bytes)
{
    size_t n = 0, sum = 0;
    struct gap *gaps = find_gaps(&i->table, i->block_bytes, &n);

    if (gaps == NULL)
        return 0;
    for (size_t k = 0; k < n; k++)
        sum += gaps[k].end - gaps[k].begin;
    free(gaps);
    return sum == rest_bytes;
}

int block_image_parse(struct block_image *ret, const void *data, size_t len,
                      struct err *err)
{
    struct block_image i = {0};
    struct cursor c = cursor_of(data, len);

    if (!parse_table(&i, &c) || !has_all_bytes(&i, cursor_left(&c))) {
        block_image_done(&i);
        return err_set(err, ERR_FORMAT, "malformed image of a block");
    }
    i.rest = c.p;
    *ret = i;
    return 0;
}

void block_image_done(struct block_image *i)
{
    block_table_done(&i->table);
    *i = (struct block_image){0};
}

void block_image_fill(const struct block_image *i, void *block)
{
    const uint8_t *from = i->rest;
    size_t n = 0;
    struct gap *gaps = find_gaps(&i->table, i->block_bytes, &n);

    for (size_t k = 0; k < n; k++) {
        size_t bytes = gaps[k].end - gaps[k].begin;

        if (bytes > 0)
            memcpy((uint8_t *)block + gaps[k].begin, from, bytes);
        from += bytes;
    }
    free(gaps);
}

static int same_variable(const struct block_variable *a, const struct block_variable *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype &&
           a->offset == b->offset && a->saved == b->saved &&
           shape_equal(&a->shape, &b->shape);
}

int block_image_fits(const struct block_image *i, const struct block_table *table,
                     size_t block_bytes)
{
    if (i->block_bytes != block_bytes || i->table.n != table->n)
        return 0;
    for (size_t k = 0; k < table->n; k++)
        if (!same_variable(&i->table.variables[k], &table->variables[k]))
            return 0;
    return 1;
}
