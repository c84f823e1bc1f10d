#include "supervisor/cli/cli.h"

#include "common/config/algorithms.h"
#include "common/config/yaml_tree.h"
#include "common/text/scan.h"
#include "supervisor/metrics/json.h"

#include <stdio.h>
#include <string.h>

static const char *const rows_text[ROWS_KIND_COUNT] = {
    [ROWS_TRANSITIONS] = "transitions, drawn",
    [ROWS_EPISODES] = "whole episodes, drawn",
    [ROWS_WINDOW] = "the newest of every copy, used once",
};

/* Which rows an algorithm learns from; NULL: none. */
static const char *rows_of(const struct algorithm_info *a)
{
    return algorithm_learns(a) ? rows_kind_names[a->rows] : NULL;
}

static void print_json(const struct algorithm_info *a)
{
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "name", a->name);
    json_put_str(&j, "summary", a->summary);
    json_put_str(&j, "stages", a->stages);
    json_put_array(&j, "settings");
    for (size_t i = 0; i < a->settings.n; i++)
        json_str(&j, a->settings.fields[i].key);
    json_close(&j);
    json_put_array(&j, "scalars");
    for (const struct algorithm_scalar *s = a->scalars; s != NULL && s->name != NULL;
         s++) {
        json_object(&j);
        json_put_str(&j, "name", s->name);
        json_put_str(&j, "meaning", s->meaning);
        json_put_str(&j, "unit", s->unit);
        json_close(&j);
    }
    json_close(&j);
    if (a->envs != NULL) {
        json_put_array(&j, "envs");
        for (size_t i = 0; a->envs[i] != NULL; i++)
            json_str(&j, a->envs[i]);
        json_close(&j);
    }
    if (rows_of(a) != NULL)
        json_put_str(&j, "rows", rows_of(a));
    json_put_bool(&j, "shares", a->shares);
    json_put_bool(&j, "hybrid", a->hybrid);
    json_put_bool(&j, "default", a->is_default);
    json_put_str(&j, "use", a->use);
    json_put_str(&j, "source", a->source);
    if (a->method != NULL) {
        json_put_array(&j, "method");
        for (size_t i = 0; a->method[i] != NULL; i++)
            json_str(&j, a->method[i]);
        json_close(&j);
    }
    json_print(&j, stdout);
}

static void print_text(const struct algorithm_info *a, int is_whole)
{
    (void)printf("%-10s %s%s\n  stages   %s\n", a->name, a->summary,
                 a->is_default ? " (the default)" : "", a->stages);
    if (!is_whole) {
        (void)printf("  settings");
        for (size_t i = 0; i < a->settings.n; i++)
            (void)printf(" %s", a->settings.fields[i].key);
        (void)putchar('\n');
    }
    for (size_t i = 0; a->envs != NULL && a->envs[i] != NULL; i++)
        (void)printf("%s%s%s", i == 0 ? "  plays in " : ", ", a->envs[i],
                     a->envs[i + 1] == NULL ? "\n" : "");
    if (rows_of(a) != NULL)
        (void)printf("  rows     %s%s\n", rows_text[a->rows],
                     a->team_reward ? "; one reward for the team" : "");
    if (a->shares)
        (void)printf("  shares   all weights, with `share: team`\n");
    if (a->hybrid)
        (void)printf("  actions  also hybrid ones, choices beside numbers\n");
    (void)printf("  use      %s\n  source   %s\n", a->use, a->source);
}

/* Prints each setting with its default and its meaning, and the other keys for which the
 * algorithm has a default of its own. */
static void print_settings(const struct algorithm_info *a)
{
    if (a->settings.n > 0)
        (void)puts("  settings");
    for (size_t i = 0; i < a->settings.n; i++) {
        const struct field *f = &a->settings.fields[i];
        const char *text = f->default_text != NULL ? f->default_text : "";

        for (const struct algorithm_default *d = a->defaults;
             d != NULL && d->path != NULL; d++) {
            const char *key = text_after(d->path, "settings.");

            if (key != NULL && strcmp(key, f->key) == 0)
                text = d->text;
        }
        (void)printf("    %-20s %-10s ", f->key, text);
        schema_print_doc(f, stdout);
        (void)putchar('\n');
    }
    for (const struct algorithm_default *d = a->defaults; d != NULL && d->path != NULL;
         d++)
        if (text_after(d->path, "settings.") == NULL)
            (void)printf("  %s: %s unless given\n", d->path, d->text);
}

static int print_named(const struct cli *cli, const char *name)
{
    const struct algorithm_info *a = algorithm_find(name);
    const char *names[64], *nearest;
    struct err err = {0};
    size_t n = 0;

    if (a == NULL) {
        for (; n < 64 && algorithm_at(n) != NULL; n++)
            names[n] = algorithm_at(n)->name;
        nearest = yaml_nearest(name, names, n);
        (void)err_set(&err, ERR_NOT_FOUND, "there is no algorithm '%.60s'%s%s%s", name,
                      nearest != NULL ? "; did you mean '" : "",
                      nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
        return cli_fail(cli, CLI_USAGE, &err);
    }
    if (cli->json) {
        print_json(a);
        return CLI_DONE;
    }
    print_text(a, 1);
    if (a->method != NULL)
        (void)puts("  method");
    for (size_t i = 0; a->method != NULL && a->method[i] != NULL; i++)
        (void)printf("    %s\n", a->method[i]);
    print_settings(a);
    if (a->scalars != NULL)
        (void)puts("  reports");
    for (const struct algorithm_scalar *s = a->scalars; s != NULL && s->name != NULL; s++)
        (void)printf("    %-20s %s%s%s\n", s->name, s->meaning,
                     *s->unit != '\0' ? ", in " : "", s->unit);
    return CLI_DONE;
}

static int run_algorithms(struct cli *cli, void *values, int argc, char **argv)
{
    const struct algorithm_info *a;

    if (argc > 1)
        return cli_usage(cli, "expected at most the name of one algorithm");
    if (argc > 0)
        return print_named(cli, argv[0]);
    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++) {
        if (cli->json)
            print_json(a);
        else
            print_text(a, 0);
    }
    return CLI_DONE;
}

const struct command cmd_algorithms = {
    .name = "algorithms",
    .arguments = "[options] [ALGORITHM]",
    .summary = "List the learning algorithms, or one with its method and settings",
    .help = "\nexample: brood algorithms --json\n",
    .run = run_algorithms,
};
