#include "agent/graph/name_table.h"

#include "common/mem/xmalloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 }; /* all capacities are powers of two */

/* Like FNV-1a, but eight bytes at a time, since names are long and have equal beginnings.
 * The low bits of a product do not depend on higher bits of its factors, and names differ
 * in a number at their end; therefore the result is the middle bits of one more
 * product. */
static uint32_t hash(const char *key)
{
    uint64_t h = 0xcbf29ce484222325u, word;

    for (size_t left = strlen(key), n; left > 0; key += n, left -= n) {
        n = left < sizeof(word) ? left : sizeof(word);
        word = 0;
        memcpy(&word, key, n);
        h = (h ^ word) * 0x100000001b3u;
        h ^= h >> 32;
    }
    return (uint32_t)((h * 0x9e3779b97f4a7c15u) >> 32);
}

/* The entry of the key, or the free entry where it would be added; there is always
 * one. */
static struct name_entry *probe(const struct name_table *t, const char *key, uint32_t h)
{
    size_t i = h & (t->cap - 1);

    while (t->entries[i].key != NULL &&
           (t->entries[i].hash != h || strcmp(t->entries[i].key, key) != 0))
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
            *probe(t, old.entries[i].key, old.entries[i].hash) = old.entries[i];
    free(old.entries);
}

struct name_entry *name_table_find(const struct name_table *t, const char *key)
{
    struct name_entry *e;

    if (t->cap == 0)
        return NULL;
    e = probe(t, key, hash(key));
    return e->key != NULL ? e : NULL;
}

struct name_entry *name_table_add(struct name_table *t, const char *key)
{
    const uint32_t h = hash(key);
    struct name_entry *e;

    if (t->n * 3 >= t->cap * 2)
        grow(t);
    e = probe(t, key, h);
    if (e->key == NULL) {
        e->key = key;
        e->hash = h;
        t->n++;
    }
    return e;
}

void name_table_done(struct name_table *t)
{
    free(t->entries);
    *t = (struct name_table){0};
}
