/* words.h - the words of a command line, in an arena.
 *
 *     struct words w = {.arena = &arena};
 *
 *     words_add(&w, "brood", "run", NULL);
 *     if (seed != NULL)
 *         words_add(&w, "--seed", seed, NULL);
 */
#ifndef COMMON_MEM_WORDS_H
#define COMMON_MEM_WORDS_H

#include "common/mem/arena.h"

struct words {
    struct arena *arena; /* holds the list; the words themselves are the caller's */
    const char **list; /* [n], and a NULL after them; itself NULL before the first word */
    size_t n, cap;     /* cap: private */
};

/* Appends words; a NULL ends the arguments. */
void words_add(struct words *w, ...) __attribute__((sentinel));
/* The list as exec and uv_spawn take it, which do not change it. */
char **words_argv(const struct words *w);

#endif
