/* xmalloc.h - small allocations that never return NULL: running out of memory ends the
 * process.
 *
 * For sizes the program chooses. A size that comes from a file, a message or a
 * configuration is checked by the caller and allocated with malloc or mem_aligned.
 */
#ifndef COMMON_MEM_XMALLOC_H
#define COMMON_MEM_XMALLOC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...)
    __attribute__((malloc, returns_nonnull, format(printf, 1, 2)));
char *xvasprintf(const char *fmt, va_list ap)
    __attribute__((malloc, returns_nonnull, format(printf, 1, 0)));

/* A text that is written through a stream. */
struct xstream {
    FILE *f;
    char *text;
    size_t len;
};
/* Returns the stream. s must not move until xstream_end. */
FILE *xstream_begin(struct xstream *s) __attribute__((returns_nonnull));
/* Closes the stream and returns the text of s->len bytes, NUL-terminated; free(). */
char *xstream_end(struct xstream *s) __attribute__((returns_nonnull));

/* 64-byte aligned, not zeroed; NULL if there is not enough memory. Free with free(). */
void *mem_aligned(size_t size) __attribute__((malloc));

/* Makes room for p[n] in an array that has room for `cap` elements: doubles the array when
 * it is full. The arguments are evaluated several times. */
#define ARRAY_GROW(p, n, cap)                                                            \
    do {                                                                                 \
        if ((n) == (cap)) {                                                              \
            (cap) = (cap) > 0 ? 2 * (cap) : 8;                                           \
            (p) = xreallocarray((p), (size_t)(cap), sizeof(*(p)));                       \
        }                                                                                \
    } while (0)

/* *ret = a*b or a+b; returns 0 if the result overflows. */
static inline int mem_mul(size_t a, size_t b, size_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}
static inline int mem_add(size_t a, size_t b, size_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}

#endif
