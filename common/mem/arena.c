#include "common/mem/arena.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ARENA_ALIGN = 16,
    ARENA_FIRST_BYTES = 4096,
    ARENA_LAST_BYTES = 1 << 17,
    ARENA_LARGE_BYTES = 1 << 16,
    PAGE_BYTES = 4096
};

struct arena_block {
    struct arena_block *next;
    size_t size;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

/* Asks the kernel for all pages of a large block at once: one by one they would cost as
 * much as the objects built in them. This is only a hint. */
static void populate(const struct arena_block *b)
{
    const uintptr_t mask = PAGE_BYTES - 1;
    const uintptr_t from = ((uintptr_t)b + mask) & ~mask;
    const uintptr_t to = ((uintptr_t)b + b->size) & ~mask;

    (void)madvise((void *)from, to - from, MADV_POPULATE_WRITE);
}

static void add_block(struct arena *a, size_t at_least)
{
    size_t size = a->blocks != NULL ? a->blocks->size * 2 : ARENA_FIRST_BYTES;
    struct arena_block *b;

    if (size > ARENA_LAST_BYTES)
        size = ARENA_LAST_BYTES;
    if (size < at_least)
        size = at_least;
    b = xmalloc(sizeof(*b) + size);
    b->next = a->blocks;
    b->size = size;
    if (size >= ARENA_LARGE_BYTES)
        populate(b);
    a->blocks = b;
    a->used_bytes = 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t rounded = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    void *p;

    if (a->blocks == NULL || a->blocks->size - a->used_bytes < rounded)
        add_block(a, rounded);
    p = a->blocks->data + a->used_bytes;
    a->used_bytes += rounded;
    return memset(p, 0, size);
}

void *arena_memdup(struct arena *a, const void *p, size_t n)
{
    void *copy = arena_alloc(a, n);

    return n != 0 ? memcpy(copy, p, n) : copy;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    const size_t len = n > 0 ? strnlen(s, n) : 0;
    char *copy = arena_alloc(a, len + 1);

    if (len > 0)
        memcpy(copy, s, len);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return s != NULL ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_join(struct arena *a, const char *s, const char *t)
{
    const size_t n = strlen(s), m = strlen(t);
    char *both = arena_alloc(a, n + m + 1);

    memcpy(both, s, n);
    memcpy(both + n, t, m);
    return both;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    char text[256], *all;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    CHECK(n >= 0, "%s", fmt);
    if ((size_t)n < sizeof(text))
        return arena_memdup(a, text, (size_t)n + 1);
    all = arena_alloc(a, (size_t)n + 1);
    va_start(ap, fmt);
    (void)vsnprintf(all, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return all;
}

static void free_blocks(struct arena_block *b)
{
    while (b != NULL) {
        struct arena_block *next = b->next;

        free(b);
        b = next;
    }
}

void arena_reset(struct arena *a)
{
    if (a->blocks == NULL)
        return;
    free_blocks(a->blocks->next);
    a->blocks->next = NULL;
    a->used_bytes = 0;
}

void arena_done(struct arena *a)
{
    free_blocks(a->blocks);
    *a = ARENA_ZERO;
}
