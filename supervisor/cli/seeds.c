#include "supervisor/cli/seeds.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <stdlib.h>
#include <string.h>

/* word: "5" or "1-5"; it is cut. Returns 0 if it is neither, or leaves no room. */
static int add(struct seeds *s, char *word)
{
    char *dash = strchr(word, '-');
    uint64_t first, last;

    if (dash != NULL)
        *dash = '\0';
    if (!text_u64(word, &first) || !text_u64(dash != NULL ? dash + 1 : word, &last) ||
        last > INT64_MAX)
        return 0;
    for (uint64_t seed = first; seed <= last; seed++) {
        if (s->n == SEEDS_MAX)
            return 0;
        s->seed[s->n++] = seed;
    }
    return first <= last;
}

int seeds_take(const struct cli *cli, const char *text, void *to)
{
    struct seeds *s = to;
    char *list = xstrdup(text), *rest = list, *word;
    int is_good = 1;

    s->n = 0;
    while (is_good && (word = strsep(&rest, ",")) != NULL)
        is_good = add(s, word);
    free(list);
    if (!is_good)
        return cli_usage(cli,
                         "--seeds '%s': expected at most %d whole numbers, as in 1-5 or "
                         "1,2,8",
                         text, SEEDS_MAX);
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < i; k++)
            if (s->seed[i] == s->seed[k])
                return cli_usage(cli, "--seeds: seed %llu is given twice",
                                 (unsigned long long)s->seed[i]);
    return 0;
}
