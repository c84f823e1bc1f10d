/* Which lists a run has, what they hold and share, and which of them are still named. */
#include "agent/flow/lists_internal.h"

#include "agent/graph/op_def.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static int charge(struct list_call *q, size_t bytes)
{
    if (bytes > CONTAINERS_MAX_BYTES - q->l->bytes)
        return lists_fail(q, ERR_LIMIT,
                          "the tensor lists of this run would hold more than %zu MiB",
                          CONTAINERS_MAX_BYTES >> 20);
    q->l->bytes += bytes;
    return 0;
}

void lists_drop_item(struct lists *l, struct item *e)
{
    if (e == NULL || --e->refs > 0)
        return;
    l->bytes -= sizeof(*e) + tensor_bytes(&e->value);
    tensor_free(&e->value);
    free(e);
}

void lists_drop_items(struct lists *l, struct items *s)
{
    if (s == NULL || --s->refs > 0)
        return;
    for (int64_t i = 0; i < s->n; i++)
        lists_drop_item(l, s->at[i]);
    l->bytes -= sizeof(*s) + (size_t)s->cap * sizeof(*s->at);
    free(s->at);
    free(s);
}

struct item *lists_new_item(struct list_call *q, struct tensor value)
{
    struct item *e;

    if (charge(q, sizeof(*e) + tensor_bytes(&value)) != 0) {
        tensor_free(&value);
        return NULL;
    }
    e = xmalloc(sizeof(*e));
    *e = (struct item){1, value};
    return e;
}

struct item *lists_copy_item(struct list_call *q, const struct tensor *value)
{
    struct tensor t = {0};

    return tensor_copy(&t, value, q->err) == 0 ? lists_new_item(q, t) : NULL;
}

int lists_grow(struct list_call *q, struct items *s, int64_t n)
{
    int64_t cap = s->cap;
    struct item **more;

    if (n > cap) {
        cap = n > 2 * cap ? n : 2 * cap;
        if (cap > INT32_MAX)
            return lists_fail(q, ERR_LIMIT, "a list of %lld elements", (long long)n);
        if (charge(q, (size_t)(cap - s->cap) * sizeof(*more)) != 0)
            return ERR_LIMIT;
        more = realloc(s->at, (size_t)cap * sizeof(*more));
        if (more == NULL) {
            q->l->bytes -= (size_t)(cap - s->cap) * sizeof(*more);
            return lists_fail(q, ERR_NOMEM, "no memory for %lld elements",
                              (long long)cap);
        }
        s->at = more;
        s->cap = cap;
    }
    for (; s->n < n; s->n++)
        s->at[s->n] = NULL;
    return 0;
}

struct items *lists_own_items(struct list_call *q, const struct list *from, int64_t n)
{
    struct items *s;

    if (charge(q, sizeof(*s)) != 0)
        return NULL;
    s = xcalloc(1, sizeof(*s));
    s->refs = 1;
    if (n > 0 && lists_grow(q, s, n) != 0) {
        lists_drop_items(q->l, s);
        return NULL;
    }
    for (int64_t i = 0; from != NULL && i < n && i < from->n; i++) {
        s->at[i] = from->items->at[i];
        if (s->at[i] != NULL)
            s->at[i]->refs++;
    }
    return s;
}

static void free_list(struct lists *l, int number)
{
    struct list *x = l->items[number - 1];

    lists_drop_items(l, x->items);
    l->bytes -= sizeof(*x);
    free(x);
    l->items[number - 1] = NULL;
}

void lists_done(struct lists *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->items[i] != NULL)
            free_list(l, i + 1);
    free(l->items);
    free(l->free);
    *l = (struct lists){0};
}

int lists_give(struct list_call *q, int i, struct list x)
{
    int64_t number;
    int rc;

    if (x.items == NULL)
        return ERR_LIMIT;
    rc = charge(q, sizeof(x));
    if (rc == 0)
        rc = tensor_alloc(&q->ret[i].tensor, DT_VARIANT, SHAPE_SCALAR, q->err);
    if (rc != 0) {
        lists_drop_items(q->l, x.items);
        return rc;
    }
    if (q->l->n_free > 0) {
        number = q->l->free[--q->l->n_free];
    } else {
        ARRAY_GROW(q->l->items, q->l->n, q->l->cap);
        number = ++q->l->n;
    }
    q->l->items[number - 1] = xmalloc(sizeof(x));
    *q->l->items[number - 1] = x;
    memcpy(q->ret[i].tensor.data, &number, sizeof(number));
    return 0;
}

/* ---- what is still named ---- */

struct list *lists_find(const struct lists *l, const struct tensor *t)
{
    int64_t number = 0;

    if (t->dtype != DT_VARIANT || tensor_elements(t) != 1)
        return NULL;
    memcpy(&number, t->data, sizeof(number));
    return number > 0 && number <= l->n ? l->items[number - 1] : NULL;
}

/* Lists in lists: no list has itself, since its elements were made before it. */
static void lists_memory_find(const struct lists *l, const struct tensor *t, int depth)
{
    struct list *x = lists_find(l, t);

    if (x == NULL || x->is_found || depth > LISTS_MAX_DEPTH)
        return;
    x->is_found = 1;
    for (int64_t i = 0; i < x->n && (x->dtype == DT_VARIANT || x->is_optional); i++)
        if (x->items->at[i] != NULL)
            lists_memory_find(l, &x->items->at[i]->value, depth + 1);
}

void lists_sweep(struct lists *l, int from, const struct contained *values, int n)
{
    for (int i = from; i < l->n; i++)
        if (l->items[i] != NULL)
            l->items[i]->is_found = 0;
    for (int i = 0; i < n; i++)
        lists_memory_find(l, &values[i].tensor, 0);
    for (int i = from; i < l->n; i++)
        if (l->items[i] != NULL && !l->items[i]->is_found) {
            ARRAY_GROW(l->free, l->n_free, l->cap_free);
            l->free[l->n_free++] = i + 1;
            free_list(l, i + 1);
        }
}
