/* arena.h - bump allocation of many small objects that are freed together.
 *
 * Pointers stay valid until arena_reset or arena_done. Running out of memory ends the
 * process, so callers must check sizes that come from files or messages.
 */
#ifndef COMMON_MEM_ARENA_H
#define COMMON_MEM_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* private: newest first */
    size_t used_bytes;          /* private: in the newest block */
};

/* An all-zero struct is an empty arena. */
#define ARENA_ZERO ((struct arena){0})

void *arena_alloc(struct arena *a, size_t size);    /* 16-byte aligned, zeroed */
char *arena_strdup(struct arena *a, const char *s); /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s,
                    size_t n); /* s: may be NULL if n is 0 */
char *arena_join(struct arena *a, const char *s, const char *t); /* s, then t */
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void *arena_memdup(struct arena *a, const void *p, size_t n);

/* Frees all objects but keeps the newest (largest) block for reuse. */
void arena_reset(struct arena *a);
void arena_done(struct arena *a);

#define ARENA_NEW(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

#endif
