#include "common/store/layout.h"

#include "common/config/limits.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct store_header) +
                       STORE_MAX_COLUMNS * sizeof(struct store_column) <=
                   STORE_HEADER_BYTES,
               "all columns fit into the header");

static uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static uint64_t column_end(const struct store_column *c)
{
    return c->offset + (uint64_t)c->elements * dtype_size((enum dtype)c->dtype);
}

static int index_of(const struct store_layout *l, const char *full_name)
{
    for (uint32_t i = 0; i < l->n_columns; i++) {
        if (strcmp(l->columns[i].name, full_name) == 0)
            return (int)i;
    }
    return ERR_NOT_FOUND;
}

static int check_column(const struct store_layout *l, const char *name, enum dtype dtype,
                        uint32_t elements, struct err *err)
{
    size_t len = strnlen(name, STORE_COLUMN_NAME_MAX);

    if (len == 0 || len == STORE_COLUMN_NAME_MAX)
        return err_set(err, ERR_ARG, "a column's name has 1 to %d bytes",
                       STORE_COLUMN_NAME_MAX - 1);
    if (dtype_size(dtype) == 0)
        return err_set(err, ERR_DTYPE, "column %s: no elements of type %s", name,
                       dtype_name(dtype));
    if (elements == 0)
        return err_set(err, ERR_ARG, "column %s has no elements", name);
    if (l->n_columns == STORE_MAX_COLUMNS)
        return err_set(err, ERR_LIMIT, "column %s is one more than %d", name,
                       STORE_MAX_COLUMNS);
    return 0;
}

static int append(struct store_layout *l, const char *name, enum dtype dtype,
                  uint32_t elements, struct err *err)
{
    struct store_column c = {.dtype = dtype, .elements = elements};
    int rc = check_column(l, name, dtype, elements, err);

    if (rc < 0)
        return rc;
    memcpy(c.name, name, strlen(name));
    if (l->n_columns > 0)
        c.offset = round_up(column_end(&l->columns[l->n_columns - 1]), dtype_size(dtype));
    if (column_end(&c) > STORE_MAX_ROW_BYTES)
        return err_set(err, ERR_LIMIT, "with column %s a row has more than %u bytes",
                       name, STORE_MAX_ROW_BYTES);
    if ((l->n_columns & (l->n_columns - 1)) == 0) /* full: the capacity is 1, 2, 4, ... */
        l->columns = xreallocarray(l->columns, l->n_columns > 0 ? 2 * l->n_columns : 1,
                                   sizeof(*l->columns));
    l->columns[l->n_columns] = c;
    l->row_bytes = round_up(column_end(&c), 8);
    return (int)l->n_columns++;
}

int store_layout_add(struct store_layout *l, const char *name, enum dtype dtype,
                     uint32_t elements, struct err *err)
{
    if (index_of(l, name) >= 0)
        return err_set(err, ERR_EXISTS, "there are two columns %s", name);
    return append(l, name, dtype, elements, err);
}

void store_layout_stack(struct store_layout *l, int column, uint32_t stack, uint32_t back,
                        uint32_t together)
{
    struct store_column *c = &l->columns[column];

    c->stack = stack;
    c->back = back;
    c->together = together;
}

int store_layout_earlier(const struct store_layout *l, int column)
{
    char agent[STORE_COLUMN_NAME_MAX];
    char *slash;

    memcpy(agent, l->columns[column].name, sizeof(agent));
    slash = strrchr(agent, '/');
    if (slash == NULL ||
        (strcmp(slash + 1, "obs") != 0 && strcmp(slash + 1, "next_obs") != 0))
        return ERR_NOT_FOUND;
    *slash = '\0';
    return store_layout_find(l, agent, "obs");
}

/* Whether all that a stacked column needs is there. */
static int check_stack(const struct store_layout *l, int column)
{
    const struct store_column *c = &l->columns[column];
    int earlier, first;

    if (c->stack == 0)
        return c->back == 0 && c->together == 0;
    earlier = store_layout_earlier(l, column);
    first = store_layout_find(l, NULL, "first");
    return c->stack > 1 && c->stack <= ENV_MAX_STACK && c->back > 0 && c->together > 0 &&
           c->elements % c->together == 0 && earlier >= 0 &&
           l->columns[earlier].dtype == c->dtype &&
           l->columns[earlier].elements == c->elements && first >= 0 &&
           l->columns[first].dtype == DT_FLOAT &&
           (c->dtype == DT_FLOAT || c->dtype == DT_UINT8);
}

int store_layout_find(const struct store_layout *l, const char *agent, const char *name)
{
    if (agent == NULL)
        return index_of(l, name);
    for (uint32_t i = 0; i < l->n_columns; i++) {
        const char *rest = text_after(l->columns[i].name, agent);

        if (rest != NULL && *rest == '/' && strcmp(rest + 1, name) == 0)
            return (int)i;
    }
    return ERR_NOT_FOUND;
}

/* FNV-1a, 64 bits. */
uint64_t store_layout_hash(const struct store_layout *l)
{
    const uint8_t *p = (const uint8_t *)l->columns;
    size_t n = l->n_columns * sizeof(*l->columns);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

void store_layout_encode(const struct store_layout *l, void *ret_header)
{
    const struct store_header head = {
        .magic = STORE_MAGIC,
        .version = STORE_VERSION,
        .n_columns = l->n_columns,
        .row_bytes = l->row_bytes,
        .layout_hash = store_layout_hash(l),
    };
    uint8_t *p = ret_header;

    memset(p, 0, STORE_HEADER_BYTES);
    memcpy(p, &head, sizeof(head));
    if (l->n_columns > 0)
        memcpy(p + sizeof(head), l->columns, l->n_columns * sizeof(*l->columns));
}

/* Adds the columns again, which checks names, types and sizes; the result must equal the
 * header. If two columns have the same name, the first is used. */
static int decode_columns(struct store_layout *l, const struct store_header *head,
                          const uint8_t *p, struct err *err)
{
    for (uint32_t i = 0; i < head->n_columns; i++) {
        struct store_column c;
        int rc;

        memcpy(&c, p + i * sizeof(c), sizeof(c));
        if (c.name[STORE_COLUMN_NAME_MAX - 1] != '\0' || c.dtype > INT32_MAX)
            return err_set(err, ERR_FORMAT, "column %u is damaged", i);
        rc = append(l, c.name, (enum dtype)c.dtype, c.elements, err);
        if (rc >= 0)
            store_layout_stack(l, rc, c.stack, c.back, c.together);
        if (rc < 0 || memcmp(&l->columns[i], &c, sizeof(c)) != 0)
            return err_set(err, ERR_FORMAT,
                           "column %u: invalid name, type, size or offset", i);
    }
    if (l->row_bytes != head->row_bytes || store_layout_hash(l) != head->layout_hash)
        return err_set(err, ERR_FORMAT, "the columns do not fit their hash");
    for (uint32_t i = 0; i < l->n_columns; i++)
        if (!check_stack(l, (int)i))
            return err_set(err, ERR_FORMAT, "column %u cannot be stacked so", i);
    return 0;
}

int store_layout_decode(const void *header, struct store_layout *ret, struct err *err)
{
    struct store_header head;
    struct store_layout l = {0};
    int rc;

    memcpy(&head, header, sizeof(head));
    if (head.magic != STORE_MAGIC)
        return err_set(err, ERR_FORMAT, "this is no experience log");
    if (head.version != STORE_VERSION)
        return err_set(err, ERR_FORMAT, "experience log of version %u, this reads %u",
                       head.version, STORE_VERSION);
    if (head.n_columns == 0 || head.n_columns > STORE_MAX_COLUMNS)
        return err_set(err, ERR_FORMAT, "experience log of %u columns", head.n_columns);
    rc = decode_columns(&l, &head, (const uint8_t *)header + sizeof(head), err);
    if (rc < 0)
        store_layout_done(&l);
    else
        *ret = l;
    return rc;
}

void store_layout_done(struct store_layout *l)
{
    free(l->columns);
    *l = (struct store_layout){0};
}
