#include "agent/graph/graph_internal.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <string.h>

static struct collection *collections_find(const struct graph *g, const char *key)
{
    const struct name_entry *e = name_table_find(&g->collection_by_key, key);

    return e != NULL ? e->value : NULL;
}

void collection_add(struct graph *g, const char *key, struct collection_item item)
{
    struct collection *c = collections_find(g, key);

    if (c == NULL) {
        c = ARENA_NEW(&g->arena, struct collection);
        c->key = arena_strdup(&g->arena, key);
        ptr_list_push(&g->collections, c);
        name_table_add(&g->collection_by_key, c->key)->value = c;
    }
    ARRAY_GROW(c->items, c->n, c->cap);
    if (item.kind == ITEM_STRING)
        item.s = arena_strdup(&g->arena, item.s);
    if (item.kind == ITEM_BYTES)
        item.s = arena_memdup(&g->arena, item.s, item.n_bytes);
    c->items[c->n++] = item;
}

void collection_clear(struct graph *g, const char *key)
{
    struct collection *c = collections_find(g, key);

    if (c != NULL)
        c->n = 0;
}

/* NULL for items without a name: numbers and strings. */
static const char *item_name(const struct collection_item *item)
{
    switch (item->kind) {
    case ITEM_VARIABLE:
        return item->variable->name;
    case ITEM_OUTPUT:
        return item->output.op->name;
    case ITEM_OPERATION:
        return item->op->name;
    default:
        return NULL;
    }
}

static int in_scope(const struct collection_item *item, const char *scope)
{
    const char *name = item_name(item);

    return scope == NULL || (name != NULL && strncmp(name, scope, strlen(scope)) == 0);
}

size_t collection_get(struct graph *g, const char *key, const char *scope,
                      const struct collection_item **ret_items)
{
    const struct collection *c = collections_find(g, key);
    struct collection_item *items = NULL;
    size_t n = 0;

    if (c != NULL && ret_items != NULL)
        items = ARENA_ARRAY(&g->arena, struct collection_item, c->n);
    for (size_t i = 0; c != NULL && i < c->n; i++) {
        if (!in_scope(&c->items[i], scope))
            continue;
        if (items != NULL)
            items[n] = c->items[i];
        n++;
    }
    if (ret_items != NULL)
        *ret_items = items;
    return n;
}

int graph_n_collections(const struct graph *g)
{
    return (int)g->collections.n;
}

const char *graph_collection_name(const struct graph *g, int i)
{
    CHECK(i >= 0 && (size_t)i < g->collections.n, "no collection %d", i);
    return ((const struct collection *)g->collections.items[i])->key;
}
