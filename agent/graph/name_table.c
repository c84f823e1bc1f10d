#include "agent/graph/name_table.h"

#include "common/mem/xmalloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* FNV-1a */
static size_t hash(const char *key)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *key != '\0'; key++)
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return (size_t)(h ^ (h >> 32));
}

/* Where key is or would be; there is always a free entry. */
static struct name_entry *probe(const struct name_table *t, const char *key)
{
    size_t i = hash(key) & (t->cap - 1);

    while (t->entries[i].key != NULL && strcmp(t->entries[i].key, key) != 0)
        i = (i + 1) & (t->cap - 1);
    return &t->entries[i];
}

static void grow(struct name_table *t)
{
    struct name_table old = *t;

    t->cap = old.cap != 0 ? old.cap * 2 : FIRST_CAPACITY;
    t->entries = xcalloc(t->cap, sizeof(*t->entries));
    for (size_t i = 0; i < old.cap; i++)
        if (old.entries[i].key != NULL)
            *probe(t, old.entries[i].key) = old.entries[i];
    free(old.entries);
}

struct name_entry *name_table_find(const struct name_table *t, const char *key)
{
    struct name_entry *e;

    if (t->cap == 0)
        return NULL;
    e = probe(t, key);
    return e->key != NULL ? e : NULL;
}

struct name_entry *name_table_add(struct name_table *t, const char *key)
{
    struct name_entry *e;

    if (t->n * 2 >= t->cap)
        grow(t);
    e = probe(t, key);
    if (e->key == NULL) {
        e->key = key;
        t->n++;
    }
    return e;
}

void name_table_done(struct name_table *t)
{
    free(t->entries);
    *t = (struct name_table){0};
}
