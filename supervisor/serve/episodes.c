#include "supervisor/serve/episodes.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static void make_ready(struct episodes *e)
{
    if (!e->is_ready)
        TAILQ_INIT(&e->list);
    e->is_ready = 1;
}

static void forget(struct episodes *e, struct episode *one)
{
    TAILQ_REMOVE(&e->list, one, entry);
    e->n--;
    e->bytes -= one->bytes;
    free(one->carry);
    free(one->past);
    free(one->time);
    free(one);
}

void episodes_done(struct episodes *e)
{
    make_ready(e);
    while (!TAILQ_EMPTY(&e->list))
        forget(e, TAILQ_FIRST(&e->list));
}

/* FNV-1a. */
uint64_t episode_number(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

struct episode *episodes_find(struct episodes *e, const char *name)
{
    const uint64_t number = episode_number(name);
    struct episode *one;

    make_ready(e);
    TAILQ_FOREACH(one, &e->list, entry)
    {
        if (one->number != number || strcmp(one->name, name) != 0)
            continue;
        TAILQ_REMOVE(&e->list, one, entry);
        TAILQ_INSERT_HEAD(&e->list, one, entry);
        return one;
    }
    return NULL;
}

static size_t bytes_of(const struct episodes *e, size_t rows)
{
    return sizeof(struct episode) +
           rows * (sizeof(uint64_t) + e->carry_width * sizeof(float) + e->past_bytes);
}

int episodes_fit(const struct episodes *e, size_t rows)
{
    return bytes_of(e, rows) <= e->max_bytes;
}

struct episode *episodes_begin(struct episodes *e, const char *name, size_t rows)
{
    const size_t bytes = bytes_of(e, rows);
    struct episode *one = episodes_find(e, name);

    if (one != NULL)
        forget(e, one);
    if (!episodes_fit(e, rows))
        return NULL;
    while (e->n > 0 && (e->n >= e->max || e->bytes + bytes > e->max_bytes))
        forget(e, TAILQ_LAST(&e->list, episode_list));
    one = xcalloc(1, sizeof(*one));
    (void)strncpy(one->name, name, sizeof(one->name) - 1);
    one->number = episode_number(name);
    one->rows = rows;
    one->bytes = bytes;
    one->carry = xcalloc(rows * e->carry_width + 1, sizeof(*one->carry));
    one->past = xcalloc(rows * e->past_bytes + 1, 1);
    one->time = xcalloc(rows, sizeof(*one->time));
    TAILQ_INSERT_HEAD(&e->list, one, entry);
    e->n++;
    e->bytes += bytes;
    return one;
}
