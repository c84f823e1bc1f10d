#include "agent/algo/reads.h"

#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void reads_done(struct reads *r)
{
    free(r->list);
    *r = (struct reads){0};
}

static void add(struct reads *r, struct read read)
{
    r->list = xreallocarray(r->list, r->n + 1, sizeof(*r->list));
    r->list[r->n++] = read;
}

void reads_add(struct reads *r, const char *agent, const char *name, int64_t elements,
               int *place)
{
    add(r, (struct read){
               .agent = agent, .name = name, .elements = elements, .place = place});
}

void reads_add_mask(struct reads *r, const struct space *agent, const char *name,
                    int *place)
{
    add(r, (struct read){.agent = agent->name,
                         .name = name,
                         .elements = agent->width,
                         .is_mask = 1,
                         .place = place});
}

static int is_same(const struct read *a, const struct read *b)
{
    if ((a->agent == NULL) != (b->agent == NULL) || strcmp(a->name, b->name) != 0)
        return 0;
    return a->agent == NULL || strcmp(a->agent, b->agent) == 0;
}

int reads_is_first(const struct reads *r, size_t i)
{
    size_t k = 0;

    while (!is_same(&r->list[k], &r->list[i]))
        k++;
    return k == i;
}

static void name_one(const struct read *read, char ret[STORE_COLUMN_NAME_MAX])
{
    (void)snprintf(ret, STORE_COLUMN_NAME_MAX, "%s%s%s",
                   read->agent != NULL ? read->agent : "", read->agent != NULL ? "/" : "",
                   read->name);
}

void reads_name(const struct reads *r, size_t i, char ret[STORE_COLUMN_NAME_MAX])
{
    name_one(&r->list[i], ret);
}

static int find_one(const struct read *read, const struct store_layout *l,
                    struct err *err)
{
    const int c = store_layout_find(l, read->agent, read->name);
    enum dtype dtype = DT_FLOAT;
    char name[STORE_COLUMN_NAME_MAX];

    name_one(read, name);
    if (c < 0)
        return err_set(err, ERR_NOT_FOUND, "the experience log has no column %s", name);
    if (read->is_mask || l->columns[c].dtype == DT_UINT8)
        dtype = DT_UINT8;
    if (l->columns[c].dtype != dtype ||
        store_column_width(&l->columns[c]) != read->elements)
        return err_set(err, ERR_SHAPE,
                       "experience column %s is %s (%u), %s (%lld) expected", name,
                       dtype_name((enum dtype)l->columns[c].dtype),
                       store_column_width(&l->columns[c]), dtype_name(dtype),
                       (long long)read->elements);
    *read->place = c;
    return 0;
}

int reads_find(const struct reads *r, const struct store_layout *l, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->n; i++)
        rc = find_one(&r->list[i], l, err);
    return rc;
}

void reads_restrict(const struct reads *r, struct store_view *store)
{
    store_view_hide(store);
    for (size_t i = 0; i < r->n; i++)
        store_view_show(store, *r->list[i].place);
}
