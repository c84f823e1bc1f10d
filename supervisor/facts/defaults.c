#include "supervisor/facts/defaults.h"

#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "common/config/run_schema.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX = 400 /* bytes */ };

/* Makes a configuration with the least that a run needs: the environment, and its agents
 * with their algorithms and sizes. */
static int make_bare(struct run_config *ret, const struct run_config *c, struct err *err)
{
    const struct config_options options = {0};
    const struct algorithm_info *a = algorithm_of(&c->defaults);
    const int is_team = a != NULL && a->team_reward;
    struct xstream text;
    FILE *f = xstream_begin(&text);
    int rc;

    if (c->env.command != NULL)
        (void)fputs("env:\n  command: [none]\n", f);
    else if (c->env.plugin != NULL)
        (void)fputs("env:\n  plugin: none\n", f);
    else
        (void)fprintf(f, "env:\n  id: %s\n", c->env.id);
    if (is_team)
        (void)fputs("  reward: team_mean\n", f);
    (void)fprintf(f, "defaults:\n  algorithm: %s\nagents:\n", c->defaults.algorithm);
    for (size_t i = 0; i < c->n_agents; i++) {
        const struct agent_config *agent = &c->agents[i];

        (void)fprintf(f, "  %s: {algorithm: %s", agent->name, agent->algorithm);
        if (agent->observation > 0)
            (void)fprintf(f, ", observation: %lld, action: %lld",
                          (long long)agent->observation, (long long)agent->action);
        (void)fputs("}\n", f);
    }
    (void)xstream_end(&text);
    rc = run_config_parse(ret, text.text, text.len, "the defaults", &options, err);
    free(text.text);
    return rc;
}

static void put_text(const char *text, struct json *j)
{
    char *cut;

    if (strlen(text) <= VALUE_MAX) {
        json_str(j, text);
        return;
    }
    cut = xasprintf("%.*s ...", VALUE_MAX, text);
    json_str(j, cut);
    free(cut);
}

/* The value of a key; null if the configuration has none, or is not there. */
static void put_value(const struct run_config *c, const char *path, struct json *j)
{
    struct schema_place at;
    const void *root = c != NULL ? run_config_locate(c, path, &at) : NULL;
    char *text;

    if (root == NULL || *at.rest != '\0' || schema_below(at.field, root) != NULL ||
        !schema_is_given(at.schema, root, at.section, at.field)) {
        json_null(j);
        return;
    }
    text = schema_text_of(at.field, at.value);
    put_text(text, j);
    free(text);
}

static int has(const struct words *list, const char *key)
{
    return list->n > 0 && text_find(list->list, key) >= 0;
}

static void put_changes(const struct run_config *bare, const struct run_config *c,
                        struct words *keys, struct json *j)
{
    struct config_diff d;

    run_config_diff(&d, bare, c, 1);
    for (size_t i = 0; i < d.n && keys->n < DEFAULTS_ROWS_MAX; i++) {
        words_add(keys, arena_strdup(keys->arena, d.list[i].path), NULL);
        json_array(j);
        json_str(j, d.list[i].path);
        put_text(d.list[i].text, j);
        put_value(bare, d.list[i].path, j);
        json_bool(j, 1);
        json_close(j);
    }
    config_diff_done(&d);
}

int defaults_put(const struct run_config *c, const char *const *keys, size_t n,
                 struct json *j, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct words listed = {.arena = &arena};
    struct run_config made;
    const int rc = c != NULL ? make_bare(&made, c, err) : 0;
    struct run_config *bare = c != NULL && rc == 0 ? &made : NULL;

    json_put_array(j, "rows");
    if (bare != NULL)
        put_changes(bare, c, &listed, j);
    for (size_t i = 0; i < n; i++) {
        if (has(&listed, keys[i]))
            continue;
        json_array(j);
        json_str(j, keys[i]);
        put_value(c, keys[i], j);
        put_value(bare, keys[i], j);
        json_bool(j, 0);
        json_close(j);
    }
    json_close(j);
    if (bare != NULL)
        run_config_done(bare);
    arena_done(&arena);
    return rc;
}

void defaults_add_keys(const struct run_config *c, struct words *ret)
{
    struct config_diff d;
    struct run_config bare;

    if (make_bare(&bare, c, NULL) < 0)
        return;
    run_config_diff(&d, &bare, c, 1);
    for (size_t i = 0; i < d.n && ret->n < DEFAULTS_ROWS_MAX; i++)
        if (!has(ret, d.list[i].path))
            words_add(ret, arena_strdup(ret->arena, d.list[i].path), NULL);
    config_diff_done(&d);
    run_config_done(&bare);
}
