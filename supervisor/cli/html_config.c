#include "supervisor/cli/html_config.h"

#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "common/config/run_schema.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/html_page.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 400, VALUE_MAX = 400 /* bytes of a cell */ };

/* A key that a run changes, and what each run gives it; NULL: its default. */
struct row {
    char *key;
    char **value; /* [n_runs] */
};

struct table {
    const struct html_run *run; /* [n_runs] */
    struct run_config *bare;    /* [n_runs] of the defaults; all-zero: not known */
    int *is_known;              /* [n_runs] */
    size_t n_runs;
    struct row *row;
    size_t n, room;
    size_t now; /* the run whose values are being added */
    struct err why;
};

/* ---- the defaults ---- */

/* Returns a file with the least that a run needs: the environment, and its agents with
 * their algorithms and sizes; free(). */
static char *bare_file(const struct run_config *c)
{
    const struct algorithm_info *a = algorithm_of(&c->defaults);
    const int is_team = a != NULL && a->team_reward;
    struct xstream text;
    FILE *f = xstream_begin(&text);

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
    return xstream_end(&text);
}

/* ---- the table ---- */

static struct row *row_of(struct table *t, const char *key)
{
    struct row *row;

    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->row[i].key, key) == 0)
            return &t->row[i];
    ARRAY_GROW(t->row, t->n, t->room);
    row = &t->row[t->n++];
    *row = (struct row){.key = xstrdup(key), .value = xcalloc(t->n_runs, sizeof(char *))};
    return row;
}

static void add(struct table *t, const struct config_change *c)
{
    struct row *row = t->n < ROWS_MAX ? row_of(t, c->path) : NULL;

    if (row == NULL)
        return;
    free(row->value[t->now]);
    row->value[t->now] = xstrdup(c->text);
}

static void add_run(struct table *t, const struct html_run *r)
{
    const struct config_options options = {0};
    struct run_config *bare = &t->bare[t->now];
    char *text;

    if (!r->has_config) {
        (void)err_pass(&t->why, &r->config_why);
        return;
    }
    text = bare_file(&r->config);
    if (run_config_parse(bare, text, strlen(text), "the defaults", &options, &t->why) ==
        0) {
        struct config_diff d;

        t->is_known[t->now] = 1;
        run_config_diff(&d, bare, &r->config, 1);
        for (size_t i = 0; i < d.n; i++)
            add(t, &d.list[i]);
        config_diff_done(&d);
    }
    free(text);
}

/* ---- values ---- */

/* The value of a key in a configuration, "-" if it has none; free(). */
static char *value_of(const struct run_config *c, const char *path)
{
    struct schema_place at;
    const void *root = run_config_locate(c, path, &at);

    if (root == NULL || *at.rest != '\0' || schema_below(at.field, root) != NULL ||
        !schema_is_given(at.schema, root, at.section, at.field))
        return xstrdup("-");
    return schema_text_of(at.field, at.value);
}

/* The defaults of all runs, each once: "0.95", or "0.95 or 0.99" with several algorithms. */
static char *defaults_of(const struct table *t, const char *key)
{
    char **text = xcalloc(t->n_runs + 1, sizeof(*text));
    struct xstream all;
    FILE *f = xstream_begin(&all);
    size_t n = 0, n_listed = 0;

    for (size_t i = 0; i < t->n_runs; i++) {
        char *one;
        size_t k = 0;

        if (!t->is_known[i])
            continue;
        one = value_of(&t->bare[i], key);
        while (k < n && strcmp(text[k], one) != 0)
            k++;
        text[n++] = one;
        if (k + 1 == n && strcmp(one, "-") != 0) /* neither listed yet, nor no such key */
            (void)fprintf(f, "%s%s", n_listed++ > 0 ? " or " : "", one);
    }
    for (size_t k = 0; k < n; k++)
        free(text[k]);
    free(text);
    return xstream_end(&all);
}

static void put_value(char *text, int is_standard, FILE *f)
{
    (void)fprintf(f, "<td class=\"v%s\">", is_standard ? " same" : "");
    html_printf(f, "%.*s%s", VALUE_MAX, *text != '\0' ? text : "-",
                strlen(text) > VALUE_MAX ? " ..." : "");
    (void)fputs("</td>", f);
    free(text);
}

static void put_row(const struct table *t, const struct row *row, FILE *f)
{
    (void)fputs("<tr><th><code>", f);
    html_text(row->key, f);
    (void)fputs("</code></th>", f);
    for (size_t i = 0; i < t->n_runs; i++)
        put_value(row->value[i] != NULL  ? xstrdup(row->value[i])
                  : t->run[i].has_config ? value_of(&t->run[i].config, row->key)
                                         : xstrdup("-"),
                  row->value[i] == NULL, f);
    put_value(defaults_of(t, row->key), 1, f);
    (void)fputs("</tr>\n", f);
}

static void put_table(const struct table *t, FILE *f)
{
    const char **heads = xcalloc(t->n_runs + 2, sizeof(*heads));

    heads[0] = "Key";
    for (size_t i = 0; i < t->n_runs; i++)
        heads[i + 1] = t->n_runs == 1 ? "This run" : t->run[i].name;
    heads[t->n_runs + 1] = "Default";
    html_table(heads, t->n_runs + 2, HTML_WIDE, f);
    for (size_t i = 0; i < t->n; i++)
        put_row(t, &t->row[i], f);
    html_table_end(f);
    free(heads);
}

void html_config_put(const struct html_run *runs, size_t n, FILE *f)
{
    struct table t = {.run = runs,
                      .n_runs = n,
                      .bare = xcalloc(n, sizeof(*t.bare)),
                      .is_known = xcalloc(n, sizeof(int))};

    for (t.now = 0; t.now < n; t.now++)
        add_run(&t, &runs[t.now]);
    if (t.why.code < 0)
        html_remark(f, "The defaults could not be found out: %s.", t.why.msg);
    if (t.n > 0)
        put_table(&t, f);
    else if (t.why.code == 0)
        html_remark(f, "All values are the defaults.");
    if (t.n == ROWS_MAX)
        html_remark(f, "The first %d keys.", ROWS_MAX);
    for (size_t i = 0; i < t.n; i++) {
        for (size_t k = 0; k < n; k++)
            free(t.row[i].value[k]);
        free(t.row[i].value);
        free(t.row[i].key);
    }
    for (size_t i = 0; i < n; i++)
        if (t.is_known[i])
            run_config_done(&t.bare[i]);
    free(t.row);
    free(t.is_known);
    free(t.bare);
}
