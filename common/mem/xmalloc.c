#include "common/mem/xmalloc.h"

#include "common/err/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *xmalloc(size_t size)
{
    void *p = malloc(size != 0 ? size : 1);

    CHECK(p != NULL, "out of memory: %zu bytes", size);
    return p;
}

void *xcalloc(size_t n, size_t size)
{
    void *p = n != 0 && size != 0 ? calloc(n, size) : calloc(1, 1);

    CHECK(p != NULL, "out of memory: %zu x %zu bytes", n, size);
    return p;
}

void *xrealloc(void *p, size_t size)
{
    void *q = realloc(p, size != 0 ? size : 1);

    CHECK(q != NULL, "out of memory: %zu bytes", size);
    return q;
}

void *xreallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;

    CHECK(mem_mul(n, size, &bytes), "%zu x %zu bytes", n, size);
    return xrealloc(p, bytes);
}

char *xstrndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = xmalloc(len + 1);

    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *s = NULL;

    CHECK(vasprintf(&s, fmt, ap) >= 0, "out of memory");
    return s;
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;
    char *s;

    va_start(ap, fmt);
    s = xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}

FILE *xstream_begin(struct xstream *s)
{
    *s = (struct xstream){0};
    s->f = open_memstream(&s->text, &s->len);
    CHECK(s->f != NULL, "out of memory for a text");
    return s->f;
}

char *xstream_end(struct xstream *s)
{
    CHECK(fclose(s->f) == 0, "out of memory for a text");
    return s->text;
}

void *mem_aligned(size_t size)
{
    size_t rounded;

    if (!mem_add(size != 0 ? size : 1, 63, &rounded))
        return NULL;
    return aligned_alloc(64, rounded & ~(size_t)63);
}
