#include "common/mem/words.h"

#include <stdarg.h>
#include <stdint.h>

enum { FIRST_CAP = 32 };

void words_add(struct words *w, ...)
{
    const char *word;
    va_list ap;

    va_start(ap, w);
    while ((word = va_arg(ap, const char *)) != NULL) {
        if (w->n + 1 >= w->cap) {
            const char **list;

            w->cap = w->cap > 0 ? 2 * w->cap : FIRST_CAP;
            list = ARENA_ARRAY(w->arena, const char *, w->cap);
            for (size_t i = 0; i < w->n; i++)
                list[i] = w->list[i];
            w->list = list;
        }
        w->list[w->n++] = word; /* what follows is zeroed */
    }
    va_end(ap);
}

char **words_argv(const struct words *w)
{
    return (char **)(uintptr_t)w->list;
}
