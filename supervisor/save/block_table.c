#include "supervisor/save/block_table.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VARIABLES = 100000, MAX_NAME = 1024 };

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

static int fits(const struct block_variable *v, size_t block_bytes)
{
    size_t bytes, end;

    return mem_mul((size_t)shape_elements(&v->shape), dtype_size(v->dtype), &bytes) &&
           mem_add(bytes, v->offset, &end) && end <= block_bytes;
}

/* [name, dtype, [dims], offset, collection] */
static int parse_variable(struct block_variable *v, const msgpack_object *row,
                          size_t block_bytes, struct err *err)
{
    const msgpack_object *f;

    if (row->type != MSGPACK_OBJECT_ARRAY || row->via.array.size != 5)
        return err_set(err, ERR_PROTOCOL, "variables: a row of five expected");
    f = row->via.array.ptr;
    if (f[0].type != MSGPACK_OBJECT_STR || f[0].via.str.size == 0 ||
        f[0].via.str.size > MAX_NAME ||
        memchr(f[0].via.str.ptr, '\0', f[0].via.str.size) != NULL)
        return err_set(err, ERR_PROTOCOL, "variables: bad name");
    v->name = xstrndup(f[0].via.str.ptr, f[0].via.str.size);
    if (f[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER || f[1].via.u64 > INT32_MAX ||
        dtype_size((enum dtype)f[1].via.u64) == 0)
        return err_set(err, ERR_PROTOCOL, "variable %s: bad type", v->name);
    v->dtype = (enum dtype)f[1].via.u64;
    if (!parse_shape(&v->shape, &f[2]))
        return err_set(err, ERR_PROTOCOL, "variable %s: bad shape", v->name);
    if (f[3].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return err_set(err, ERR_PROTOCOL, "variable %s: bad offset", v->name);
    v->offset = f[3].via.u64;
    if (!fits(v, block_bytes))
        return err_set(err, ERR_PROTOCOL, "variable %s lies outside the block", v->name);
    v->saved = msg_str_is(&f[4], "variables");
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
        rc = parse_variable(&t.variables[t.n], &rows->via.array.ptr[t.n], block_bytes,
                            err);
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
