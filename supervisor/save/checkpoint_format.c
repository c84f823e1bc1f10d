#include "supervisor/save/checkpoint_format.h"

#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "common/tensor/string_slab.h"
#include "common/wire/crc32c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };
enum { MAX_VARIABLES = 100000, MAX_VARIABLE_NAME = 1024 };
static const char magic[8] = "brodrun1";

char *checkpoint_path(const char *dir, const char *prefix, uint64_t step)
{
    return xasprintf("%s/%s%" PRIu64, dir, prefix, step);
}

char *checkpoint_bundle_prefix(const char *folder, uint64_t step, const char *agent)
{
    return xasprintf("%s/%s/model.ckpt-%" PRIu64, folder, agent, step);
}

/* ---- run.state ---- */

static uint32_t section_crc(const void *name, size_t name_len, const void *data,
                            size_t len)
{
    return crc32c_mask(crc32c_extend(crc32c(name, name_len), data, len));
}

void checkpoint_state_put(struct wbuf *b, const struct checkpoint_section *sections,
                          size_t n)
{
    wbuf_bytes(b, magic, sizeof(magic));
    wbuf_u32(b, VERSION);
    wbuf_u32(b, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        const struct checkpoint_section *s = &sections[i];
        const size_t name_len = strlen(s->name);

        wbuf_u32(b, (uint32_t)name_len);
        wbuf_bytes(b, s->name, name_len);
        wbuf_u64(b, s->len);
        wbuf_bytes(b, s->data, s->len);
        wbuf_u32(b, section_crc(s->name, name_len, s->data, s->len));
    }
}

/* The name in `bytes` has no terminator. This moves it one byte forward, over the last
 * byte of its length, which was read already, and appends a '\0'. */
static int read_section(struct checkpoint_section *s, struct cursor *c, uint8_t *bytes,
                        const char *path, struct err *err)
{
    uint32_t name_len = cursor_u32(c);
    const uint8_t *name =
        name_len <= CHECKPOINT_SECTION_NAME ? cursor_bytes(c, name_len) : NULL;
    uint64_t len = cursor_u64(c);
    const uint8_t *data = len <= cursor_left(c) ? cursor_bytes(c, (size_t)len) : NULL;
    uint32_t crc = cursor_u32(c);

    if (c->failed || name == NULL || data == NULL)
        return err_set(err, ERR_FORMAT, "%s: cut short or malformed", path);
    if (section_crc(name, name_len, data, (size_t)len) != crc)
        return err_set(err, ERR_CORRUPT, "%s: damaged at byte %zu", path,
                       (size_t)(name - bytes));
    memmove(bytes + (name - bytes) - 1, name, name_len);
    bytes[(name - bytes) - 1 + name_len] = '\0';
    *s = (struct checkpoint_section){(const char *)name - 1, data, (size_t)len};
    return 0;
}

static int read_sections(struct checkpoint_state *s, size_t len, const char *path,
                         struct err *err)
{
    struct cursor c = cursor_of(s->bytes, len);
    const uint8_t *head = cursor_bytes(&c, sizeof(magic));
    uint32_t version = cursor_u32(&c), n = cursor_u32(&c);

    if (c.failed || memcmp(head, magic, sizeof(magic)) != 0 || version != VERSION)
        return err_set(err, ERR_FORMAT, "%s: this is no run.state file", path);
    if (n > CHECKPOINT_MAX_SECTIONS || n > cursor_left(&c))
        return err_set(err, ERR_FORMAT, "%s: %u sections", path, n);
    s->sections = xcalloc(n, sizeof(*s->sections));
    for (; s->n < n; s->n++) {
        int rc = read_section(&s->sections[s->n], &c, s->bytes, path, err);

        if (rc < 0)
            return rc;
    }
    if (cursor_left(&c) > 0)
        return err_set(err, ERR_FORMAT, "%s: surplus bytes", path);
    return 0;
}

int checkpoint_state_parse(struct checkpoint_state *ret, uint8_t *bytes, size_t len,
                           const char *path, struct err *err)
{
    struct checkpoint_state s = {.bytes = bytes};
    int rc = read_sections(&s, len, path, err);

    if (rc < 0)
        checkpoint_state_done(&s);
    else
        *ret = s;
    return rc;
}

const struct checkpoint_section *checkpoint_state_find(const struct checkpoint_state *s,
                                                       const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->sections[i].name, name) == 0)
            return &s->sections[i];
    return NULL;
}

void checkpoint_state_done(struct checkpoint_state *s)
{
    free(s->sections);
    free(s->bytes);
    *s = (struct checkpoint_state){0};
}

/* ---- the table of an agent's variables ---- */

static int has_value(enum dtype dtype)
{
    return dtype_size(dtype) > 0 || dtype == DT_STRING;
}

/* Call it only for variables that passed is_inside: for others the product may
 * overflow. */
static size_t bytes_of(const struct block_variable *v)
{
    size_t bytes = 0;

    (void)block_value_bytes(v->dtype, shape_elements(&v->shape), &bytes);
    return bytes;
}

static int is_inside(const struct block_variable *v, size_t block_bytes)
{
    size_t bytes, end;

    return has_value(v->dtype) &&
           block_value_bytes(v->dtype, shape_elements(&v->shape), &bytes) &&
           mem_add(bytes, (size_t)v->offset, &end) && end <= block_bytes;
}

static int parse_shape(struct shape *ret, const msgpack_object *dims)
{
    if (dims->type != MSGPACK_OBJECT_ARRAY || dims->via.array.size > SHAPE_MAX_RANK)
        return 0;
    *ret = (struct shape){.rank = (int)dims->via.array.size};
    for (int i = 0; i < ret->rank; i++) {
        const msgpack_object *d = &dims->via.array.ptr[i];

        if (d->type != MSGPACK_OBJECT_POSITIVE_INTEGER || d->via.u64 > INT64_MAX)
            return 0;
        ret->dim[i] = (int64_t)d->via.u64;
    }
    return shape_elements(ret) >= 0;
}

/* Parses a row [name, dtype, [dims], offset, collection]. */
static int parse_row(struct block_variable *v, const msgpack_object *row,
                     size_t block_bytes, struct err *err)
{
    const msgpack_object *f;

    if (row->type != MSGPACK_OBJECT_ARRAY || row->via.array.size != 5)
        return err_set(err, ERR_PROTOCOL, "variables: a row of five expected");
    f = row->via.array.ptr;
    if (f[0].type != MSGPACK_OBJECT_STR || f[0].via.str.size == 0 ||
        f[0].via.str.size > MAX_VARIABLE_NAME ||
        memchr(f[0].via.str.ptr, '\0', f[0].via.str.size) != NULL)
        return err_set(err, ERR_PROTOCOL, "variables: bad name");
    v->name = xstrndup(f[0].via.str.ptr, f[0].via.str.size);
    if (f[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER || f[1].via.u64 > INT32_MAX ||
        !has_value((enum dtype)f[1].via.u64))
        return err_set(err, ERR_PROTOCOL, "variable %s: bad type", v->name);
    v->dtype = (enum dtype)f[1].via.u64;
    if (!parse_shape(&v->shape, &f[2]))
        return err_set(err, ERR_PROTOCOL, "variable %s: bad shape", v->name);
    if (f[3].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return err_set(err, ERR_PROTOCOL, "variable %s: bad offset", v->name);
    v->offset = f[3].via.u64;
    if (!is_inside(v, block_bytes))
        return err_set(err, ERR_PROTOCOL, "variable %s lies outside the block", v->name);
    v->in_bundle = msg_str_is(&f[4], "variables");
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct block_variable *)a)->name,
                  ((const struct block_variable *)b)->name);
}

int block_table_parse(struct block_table *ret, const msgpack_object *description,
                      size_t block_bytes, struct err *err)
{
    const msgpack_object *rows = NULL;
    struct block_table t = {0};
    int rc;

    if ((rc = msg_require(description, "variables", err)) < 0 ||
        (rc = msg_get_array(description, "variables", &rows, err)) < 0)
        return rc;
    if (rows->via.array.size > MAX_VARIABLES)
        return err_set(err, ERR_PROTOCOL, "more than %d variables", MAX_VARIABLES);
    t.variables = xcalloc(rows->via.array.size, sizeof(*t.variables));
    while (t.n < rows->via.array.size && rc == 0) {
        rc = parse_row(&t.variables[t.n], &rows->via.array.ptr[t.n], block_bytes, err);
        t.n++;
    }
    if (rc < 0) {
        block_table_done(&t);
        return rc;
    }
    qsort(t.variables, t.n, sizeof(*t.variables), by_name);
    *ret = t;
    return 0;
}

void block_table_done(struct block_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->variables[i].name);
    free(t->variables);
    *t = (struct block_table){0};
}

/* ---- gaps: the bytes of a block that are not in the bundle ---- */

struct gap {
    size_t begin, end;
};

static int by_place(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Returns the gaps before, between and after the bundle's variables: one more than there
 * are variables; some may be empty. NULL: two variables overlap. */
static struct gap *find_gaps(const struct block_table *t, size_t block_bytes,
                             size_t *ret_n)
{
    struct gap *g = xcalloc(t->n + 1, sizeof(*g));
    size_t n = 0, end = 0;

    for (size_t i = 0; i < t->n; i++) {
        const struct block_variable *v = &t->variables[i];

        if (v->in_bundle)
            g[n++] = (struct gap){v->offset, v->offset + bytes_of(v)};
    }
    if (n > 1)
        qsort(g, n, sizeof(*g), by_place);
    for (size_t i = 0; i < n; i++) {
        const struct gap variable = g[i];

        if (variable.begin < end) {
            free(g);
            return NULL;
        }
        g[i] = (struct gap){end, variable.begin};
        end = variable.end;
    }
    g[n] = (struct gap){end, block_bytes};
    *ret_n = n + 1;
    return g;
}

int agent_section_put(struct wbuf *b, const struct block_table *table, const void *block,
                      size_t block_bytes, struct err *err)
{
    size_t n = 0;
    struct gap *gaps = find_gaps(table, block_bytes, &n);

    if (gaps == NULL)
        return err_set(err, ERR_PROTOCOL, "variables: two of them overlap");
    wbuf_u64(b, block_bytes);
    wbuf_u32(b, (uint32_t)table->n);
    for (size_t i = 0; i < table->n; i++) {
        const struct block_variable *v = &table->variables[i];

        wbuf_u32(b, (uint32_t)strlen(v->name));
        wbuf_bytes(b, v->name, strlen(v->name));
        wbuf_u32(b, (uint32_t)v->dtype);
        wbuf_u32(b, (uint32_t)v->shape.rank);
        for (int d = 0; d < v->shape.rank; d++)
            wbuf_u64(b, (uint64_t)v->shape.dim[d]);
        wbuf_u64(b, v->offset);
        wbuf_u32(b, v->in_bundle != 0);
    }
    for (size_t i = 0; i < n; i++)
        if (gaps[i].end > gaps[i].begin)
            wbuf_bytes(b, (const uint8_t *)block + gaps[i].begin,
                       gaps[i].end - gaps[i].begin);
    free(gaps);
    return 0;
}

static int read_variable(struct block_variable *v, struct cursor *c, size_t block_bytes)
{
    uint32_t name_len = cursor_u32(c), rank;
    const uint8_t *name =
        name_len <= MAX_VARIABLE_NAME ? cursor_bytes(c, name_len) : NULL;

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
    v->in_bundle = cursor_u32(c) == 1;
    return !c->failed && is_inside(v, block_bytes);
}

static int read_table(struct agent_section *s, struct cursor *c)
{
    uint64_t block_bytes = cursor_u64(c);
    uint32_t n = cursor_u32(c);

    if (c->failed || block_bytes > BLOCK_CAPACITY_BYTES || n > MAX_VARIABLES)
        return 0;
    s->block_bytes = (size_t)block_bytes;
    s->table.variables = xcalloc(n, sizeof(*s->table.variables));
    while (s->table.n < n)
        if (!read_variable(&s->table.variables[s->table.n++], c, s->block_bytes))
            return 0;
    return 1;
}

static int has_all_bytes(const struct agent_section *s, size_t rest_bytes)
{
    size_t n = 0, sum = 0;
    struct gap *gaps = find_gaps(&s->table, s->block_bytes, &n);

    if (gaps == NULL)
        return 0;
    for (size_t i = 0; i < n; i++)
        sum += gaps[i].end - gaps[i].begin;
    free(gaps);
    return sum == rest_bytes;
}

int agent_section_parse(struct agent_section *ret, const void *data, size_t len,
                        struct err *err)
{
    struct agent_section s = {0};
    struct cursor c = cursor_of(data, len);

    if (!read_table(&s, &c) || !has_all_bytes(&s, cursor_left(&c))) {
        agent_section_done(&s);
        return err_set(err, ERR_FORMAT, "malformed image of a block");
    }
    s.rest = c.p;
    *ret = s;
    return 0;
}

void agent_section_done(struct agent_section *s)
{
    block_table_done(&s->table);
    *s = (struct agent_section){0};
}

void agent_section_fill(const struct agent_section *s, void *block)
{
    const uint8_t *from = s->rest;
    size_t n = 0;
    struct gap *gaps = find_gaps(&s->table, s->block_bytes, &n);

    for (size_t i = 0; i < n; i++) {
        const size_t bytes = gaps[i].end - gaps[i].begin;

        if (bytes > 0)
            memcpy((uint8_t *)block + gaps[i].begin, from, bytes);
        from += bytes;
    }
    free(gaps);
}

int agent_section_fits(const struct agent_section *s, const struct block_table *table,
                       size_t block_bytes)
{
    if (s->block_bytes != block_bytes || s->table.n != table->n)
        return 0;
    for (size_t i = 0; i < table->n; i++) {
        const struct block_variable *a = &s->table.variables[i],
                                    *b = &table->variables[i];

        if (strcmp(a->name, b->name) != 0 || a->dtype != b->dtype ||
            a->offset != b->offset || a->in_bundle != b->in_bundle ||
            !shape_equal(&a->shape, &b->shape))
            return 0;
    }
    return 1;
}

/* ---- an agent's graph ---- */

void graph_section_put(struct wbuf *b, const void *meta, size_t len)
{
    wbuf_u64(b, len);
    wbuf_u32(b, crc32c_mask(crc32c(meta, len)));
}

int graph_section_check(const struct checkpoint_section *s, const void *meta, size_t len,
                        const char *path, struct err *err)
{
    struct cursor c = cursor_of(s->data, s->len);
    const uint64_t bytes = cursor_u64(&c);
    const uint32_t crc = cursor_u32(&c);

    if (c.failed)
        return err_set(err, ERR_FORMAT, "run.state: section '%s'", s->name);
    if (len != bytes)
        return err_set(err, ERR_CORRUPT, "%s: not %" PRIu64 " bytes", path, bytes);
    if (crc32c_mask(crc32c(meta, len)) != crc)
        return err_set(err, ERR_CORRUPT, "%s: checksum mismatch", path);
    return 0;
}
