/* Drops keys of a complete configuration that only its previous algorithm or optimizer
 * has, when the configuration is given another one. */
#include "common/config/loader.h"

#include <stdio.h>
#include <string.h>

enum { LISTED_MAX_BYTES = 300 };

/* Values from the command line, which have no line number, are never dropped: the user
 * has just given them. */
int loader_may_drop(const struct loader *l, const struct yaml_node *n)
{
    return l->options != NULL && l->options->dropped != NULL && n->line > 0;
}

int loader_drop(const struct loader *l, struct yaml_node *map, const char *path,
                const struct schema *known,
                int (*is_used)(const void *ctx, const char *key), const void *ctx,
                const char *why)
{
    const size_t max = map != NULL && map->kind == YAML_MAP ? map->n : 0;
    const struct yaml_node **drop =
        ARENA_ARRAY(&l->c->arena, const struct yaml_node *, max);
    char list[LISTED_MAX_BYTES] = "";
    struct err line = {0};
    size_t n = 0;

    for (size_t i = 0; i < max; i++) {
        const struct yaml_node *key = map->child[i];

        if (schema_find(known, key->key) == NULL || is_used(ctx, key->key))
            continue;
        if (!loader_may_drop(l, key))
            return yaml_fail(key, path, l->err, "%s is %s", key->key, why);
        drop[n++] = key;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(list);

        (void)snprintf(list + len, sizeof(list) - len, "%s%s",
                       i == 0       ? ""
                       : i + 1 == n ? " and "
                                    : ", ",
                       drop[i]->key);
        if (l->steps != NULL)
            loader_drop_steps(l, path, drop[i]->key);
        yaml_remove(map, drop[i]);
    }
    if (n > 0) {
        (void)yaml_fail(drop[0], path, &line, "dropped %s: %s", list, why);
        l->options->dropped(l->options->dropped_ctx, line.msg);
    }
    return (int)n;
}
