#include "supervisor/cli/html_report.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/cli/html_config.h"
#include "supervisor/cli/html_page.h"
#include "supervisor/cli/svg_plot.h"
#include "supervisor/cli/view_layout.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 300, KINDS_MAX = 24, NAMES_MAX = 4096, FACT_BYTES = 600 };

struct names {
    const char *name[NAMES_MAX];
    size_t n;
};

struct page {
    struct html_run *run;
    size_t n;
    const struct report *curves; /* NULL: none */
    const struct err *why;
    const char *column;    /* of the return, NULL: none */
    struct names *returns; /* of all teams: of evaluations or, without any, of training */
    FILE *f;
};

/* The last part of a column's name. */
static const char *kind_of(const char *column)
{
    const char *slash = strrchr(column, '/');

    return slash != NULL ? slash + 1 : column;
}

/* Whether no earlier run of the page has the same name but for its number or seed. */
static int is_first_of_group(const struct page *p, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (report_same_group(p->run[k].name, p->run[i].name))
            return 0;
    return 1;
}

static size_t count_groups(const struct page *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        n += is_first_of_group(p, i);
    return n;
}

/* ---- the head ---- */

struct fact {
    const char *label;
    const char *of; /* follows the label, NULL: nothing */
    char value[FACT_BYTES];
};
enum { HEAD_FACTS = 10, BUILD_FACTS = 10 };

#define PUT(fact, ...) (void)snprintf((fact).value, sizeof((fact).value), __VA_ARGS__)

static void put_value_at(struct fact *fact, double v, uint64_t step)
{
    char count[32];

    if (isnan(v))
        PUT(*fact, "-");
    else
        PUT(*fact, "%.5g at step %s", v, format_count(step, count, sizeof(count)));
}

static void put_steps(struct fact *fact, const struct run_status *s)
{
    char is[32], total[32];

    fact->label = "Steps";
    if (s->total_steps > 0)
        PUT(*fact, "%s of %s", format_count(s->env_steps, is, sizeof(is)),
            format_count(s->total_steps, total, sizeof(total)));
    else
        PUT(*fact, "%s", format_count(s->env_steps, is, sizeof(is)));
}

static void head_facts(const struct page *p, const struct html_run *r, struct fact *ret)
{
    const struct run_status *s = &r->facts.status;
    struct arena arena = ARENA_ZERO;
    uint64_t last_step = 0, best_step = 0;
    double last = (double)NAN, best = (double)NAN;
    char text[32];

    ret[0].label = "State";
    PUT(ret[0], "%s", s->state);
    put_steps(&ret[1], s);
    if (p->column != NULL) {
        last = html_run_last(r, p->column, &last_step);
        best = html_run_best(r, p->column, &best_step);
    }
    ret[2].label = "Newest return";
    ret[3].label = "Best return";
    if (p->returns->n > 1)
        ret[2].of = ret[3].of = kind_of(p->column);
    put_value_at(&ret[2], last, last_step);
    put_value_at(&ret[3], best, best_step);
    ret[4].label = "Algorithm";
    PUT(ret[4], "%s", html_run_algorithms(r, &arena));
    ret[5].label = "Environment";
    PUT(ret[5], "%s, %zu agent%s",
        r->has_config && r->config.env.id != NULL ? r->config.env.id : "-",
        r->has_config ? r->config.n_agents : 0,
        r->has_config && r->config.n_agents == 1 ? "" : "s");
    ret[6].label = "Seed";
    if (r->has_config)
        PUT(ret[6], "%" PRIu64, r->config.run.seed);
    else
        PUT(ret[6], "-");
    ret[7].label = "Time taken";
    if (r->sessions > 1)
        PUT(ret[7], "%s, %zu starts", format_duration(r->seconds, text, sizeof(text)),
            r->sessions);
    else if (r->seconds < 60)
        PUT(ret[7], "%.1f s", r->seconds);
    else
        PUT(ret[7], "%s", format_duration(r->seconds, text, sizeof(text)));
    ret[8].label = "Begun (UTC)";
    if (strlen(r->began) > 19)
        PUT(ret[8], "%.10s %.8s", r->began, r->began + 11);
    else
        PUT(ret[8], "-");
    ret[9].label = "Deaths";
    PUT(ret[9], "%zu", r->deaths);
    arena_done(&arena);
}

static void build_facts(const struct page *p, const struct html_run *r, struct fact *ret)
{
    static const struct {
        const char *label, *key;
    } lines[] = {{"brood", "brood"},       {"Agent's build", "agent build id"},
                 {"Numerics", "numerics"}, {"Kernels", "kernels"},
                 {"CPU", "cpu"},           {"System", "kernel"},
                 {"Compiler", "compiler"}, {"OpenBLAS", "OpenBLAS"},
                 {"Command", "command"}};
    const struct run_status *s = &r->facts.status;
    struct arena arena = ARENA_ZERO;

    _Static_assert(sizeof(lines) / sizeof(lines[0]) + 1 == BUILD_FACTS, "");
    for (size_t i = 0; i + 1 < BUILD_FACTS; i++) {
        ret[i].label = lines[i].label;
        PUT(ret[i], "%s", html_run_provenance(r, lines[i].key, &arena));
    }
    ret[BUILD_FACTS - 1].label = "Exact";
    PUT(ret[BUILD_FACTS - 1], "%s%s%s",
        s->exact ? "yes: the bytes of an undisturbed run" : "no: see its deaths",
        s->not_portable != NULL ? "; only on this kind of machine: " : "",
        s->not_portable != NULL ? s->not_portable : "");
    arena_done(&arena);
}

static void put_label(const struct fact *fact, FILE *f)
{
    html_text(fact->label, f);
    if (fact->of != NULL) {
        (void)fputs(" of ", f);
        html_text(fact->of, f);
    }
}

static void put_cards(const struct fact *fact, size_t n, FILE *f)
{
    (void)fputs("<dl class=\"facts\">\n", f);
    for (size_t i = 0; i < n; i++) {
        (void)fputs("<div><dt>", f);
        put_label(&fact[i], f);
        (void)fputs("</dt>", f);
        html_element("dd", fact[i].value, f);
        (void)fputs("</div>\n", f);
    }
    (void)fputs("</dl>\n", f);
}

/* A row for each fact, a column for each run. */
static void put_fact_table(const struct page *p,
                           void (*get)(const struct page *p, const struct html_run *r,
                                       struct fact *ret),
                           size_t n_facts)
{
    struct fact *all = xcalloc(p->n * n_facts, sizeof(*all));
    const char **heads = xcalloc(p->n + 1, sizeof(*heads));

    heads[0] = "";
    for (size_t i = 0; i < p->n; i++) {
        heads[i + 1] = p->n > 1 ? p->run[i].name : "";
        get(p, &p->run[i], &all[i * n_facts]);
    }
    html_table(heads, p->n + 1, HTML_WIDE, p->f);
    for (size_t k = 0; k < n_facts; k++) {
        (void)fputs("<tr><th>", p->f);
        put_label(&all[k], p->f);
        (void)fputs("</th>", p->f);
        for (size_t i = 0; i < p->n; i++) {
            (void)fputs("<td class=\"w\">", p->f);
            html_text(all[i * n_facts + k].value, p->f);
            (void)fputs("</td>", p->f);
        }
        (void)fputs("</tr>\n", p->f);
    }
    html_table_end(p->f);
    free(heads);
    free(all);
}

static void put_notes(const struct html_run *r, int with_name, FILE *f)
{
    const struct run_tags *t = &r->facts.tags;
    const char *name = with_name ? r->name : "", *colon = with_name ? ": " : "";

    if (t->n > 0)
        (void)fputs("<p>", f);
    for (size_t i = 0; i < t->n; i++) {
        (void)fputs("<span class=\"tag\">", f);
        html_printf(f, "%s%s%s", name, colon, t->tag[i]);
        (void)fputs("</span>", f);
    }
    if (t->n > 0)
        (void)fputs("</p>\n", f);
    if (t->note != NULL)
        html_remark(f, "%s%s%s", name, colon, t->note);
    if (r->failure != NULL) {
        (void)fputs("<p class=\"bad\">", f);
        html_printf(f, "%s%s%s", name, colon, r->failure);
        (void)fputs("</p>\n", f);
    }
}

static void put_link(const char *id, const char *text, FILE *f)
{
    (void)fprintf(f, "<a href=\"#%s\">%s</a>\n", id, text);
}

static void put_head(const struct page *p)
{
    FILE *f = p->f;

    (void)fputs("<header>\n", f);
    if (p->n == 1)
        html_element("h1", p->run[0].name, f);
    else
        (void)fprintf(f, "<h1>%zu runs</h1>", p->n);
    for (size_t i = 0; i < p->n; i++)
        put_notes(&p->run[i], p->n > 1, f);
    (void)fputs("\n<nav>", f);
    put_link("curves", "Curves", f);
    put_link("evaluation", "Results", f);
    if (p->n > 1) {
        put_link("run-1", "Each run", f);
    } else {
        put_link("episode-1", "Episode", f);
        put_link("changes-1", "Changes", f);
        put_link("deaths-1", "Deaths", f);
        put_link("checkpoints-1", "Checkpoints", f);
    }
    put_link("configuration", "Configuration", f);
    put_link("build", "Build", f);
    (void)fputs("</nav>\n</header>\n", f);
    if (p->n == 1) {
        struct fact fact[HEAD_FACTS] = {0};

        head_facts(p, &p->run[0], fact);
        put_cards(fact, HEAD_FACTS, f);
    } else {
        (void)fputs("<section>\n", f);
        put_fact_table(p, head_facts, HEAD_FACTS);
        (void)fputs("</section>\n", f);
    }
}

/* ---- curves ---- */

static void add_name(struct names *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->name[i], name) == 0)
            return;
    if (list->n < NAMES_MAX)
        list->name[list->n++] = name;
}

/* Finds the columns with that prefix in all runs, each once, in the order in which they
 * come. */
static void find_columns(const struct page *p, const char *prefix, struct names *ret)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct progress *g = p->run[i].progress;

        for (size_t c = 0; g != NULL && c < progress_n_columns(g); c++)
            if (text_after(progress_name(g, c), prefix) != NULL)
                add_name(ret, progress_name(g, c));
    }
}

/* Makes the thinned curves of a column. ERR_NOT_FOUND: no run has values. */
static int make_curves(const struct page *p, const char *column, struct report **ret)
{
    struct report_run *runs = xcalloc(p->n, sizeof(*runs));
    int rc;

    for (size_t i = 0; i < p->n; i++)
        runs[i] = (struct report_run){p->run[i].path, p->run[i].progress};
    rc = report_make_thin(ret, runs, p->n, column, POINTS);
    free(runs);
    return rc;
}

static void put_chart(const struct report *r, const char *title, const char *note,
                      int has_legend, FILE *f)
{
    (void)fputs("<figure class=\"card\">", f);
    html_element("figcaption", title, f);
    (void)fputs("<div class=\"legend\">", f);
    for (size_t i = 0; has_legend && i < r->n_groups; i++) {
        char *name = r->group[i].n_runs > 1 ? xasprintf("%s (%zu runs)", r->group[i].name,
                                                        r->group[i].n_runs)
                                            : xstrdup(r->group[i].name);

        html_legend(i, name, f);
        free(name);
    }
    html_element("span", note, f);
    (void)fputs("</div>\n", f);
    report_print_plot(r, f);
    (void)fputs("</figure>\n", f);
}

static int has_bands(const struct report *r)
{
    for (size_t i = 0; i < r->n_groups; i++)
        if (r->group[i].n_runs > 1)
            return 1;
    return 0;
}

static int is_flat(const struct report *r)
{
    for (size_t i = 0; i < r->n_groups; i++)
        for (size_t k = 0; k < r->group[i].n_points; k++)
            if (r->group[i].point[k].over.mean != r->group[0].point[0].over.mean)
                return 0;
    return 1;
}

/* Puts a chart of one column; a flat one only if is_main. */
static void put_column(const struct page *p, const char *column, int is_main)
{
    struct report *r;

    if (make_curves(p, column, &r) < 0)
        return;
    if (is_main || !is_flat(r))
        put_chart(r, column, has_bands(r) ? "mean and 95 % interval" : "", p->n > 1,
                  p->f);
    report_free(r);
}

/* Adds the groups of one agent's column to *all, which may be NULL. */
static void add_agent(const struct page *p, const char *column, struct report **all)
{
    const size_t begin = strlen("train/");
    const int len = (int)(kind_of(column) - 1 - (column + begin));
    struct report *r;
    char **names;
    size_t n;

    if (make_curves(p, column, &r) < 0)
        return;
    n = r->n_groups;
    names = xcalloc(n, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = count_groups(p) == 1
                       ? xasprintf("%.*s", len, column + begin)
                       : xasprintf("%s %.*s", r->group[i].name, len, column + begin);
    if (*all == NULL) {
        *all = xcalloc(1, sizeof(**all));
        (*all)->metric = xstrdup(kind_of(column));
    }
    report_add(*all, r, names);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* Puts one chart of a metric of all agents: train/agent_0/critic_loss,
 * train/agent_1/... */
static void put_kind(const struct page *p, const struct names *columns, const char *kind)
{
    struct report *all = NULL;
    size_t n = 0, shown = 0;
    char *note;

    for (size_t i = 0; i < columns->n; i++) {
        if (strcmp(kind_of(columns->name[i]), kind) != 0)
            continue;
        n++;
        if (all == NULL || all->n_groups < SVG_COLOURS) {
            add_agent(p, columns->name[i], &all);
            shown++;
        }
    }
    if (all == NULL)
        return;
    note = shown < n ? xasprintf("the first %zu of %zu agents", shown, n) : xstrdup("");
    if (!is_flat(all))
        put_chart(all, kind, note, 1, p->f);
    free(note);
    report_free(all);
}

static void put_losses(const struct page *p)
{
    struct names *columns = xcalloc(1, sizeof(*columns));
    struct names *kinds = xcalloc(1, sizeof(*kinds));

    find_columns(p, "train/", columns);
    for (size_t i = 0; i < columns->n; i++)
        add_name(kinds, kind_of(columns->name[i]));
    for (size_t i = 0; i < kinds->n && i < KINDS_MAX; i++)
        put_kind(p, columns, kinds->name[i]);
    free(kinds);
    free(columns);
}

static void put_curves(const struct page *p)
{
    static const char *const others[] = {"eval/team_return/",   "rollout/team_return/",
                                         "eval/episode_length", "rollout/episode_length",
                                         "eval/metric/",        "rollout/metric/"};
    struct names *names = xcalloc(1, sizeof(*names));
    const char *metric = p->curves != NULL ? p->curves->metric : NULL;

    html_section("curves", "Curves", p->f);
    if (p->curves == NULL) /* there may still be losses */
        html_remark(p->f, "None of a return: %s.", p->why->msg);
    (void)fputs("<div class=\"charts\">\n", p->f);
    if (metric != NULL)
        put_column(p, metric, 1);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        find_columns(p, others[i], names);
    for (size_t i = 0; i < names->n && i < KINDS_MAX; i++)
        if (metric == NULL || strcmp(names->name[i], metric) != 0)
            put_column(p, names->name[i], 0);
    put_losses(p);
    (void)fputs("</div>\n", p->f);
    (void)fputs("</section>\n", p->f);
    free(names);
}

/* ---- results ---- */

static void put_result(const struct page *p, const struct html_run *r, const char *column)
{
    uint64_t last_step = 0, best_step = 0;
    const double last = html_run_last(r, column, &last_step);
    const double best = html_run_best(r, column, &best_step);

    if (isnan(last))
        return;
    (void)fputs("<tr>", p->f);
    if (p->n > 1)
        html_element("th", r->name, p->f);
    html_element("td", column, p->f);
    html_cell(last, p->f);
    html_cell_count(last_step, p->f);
    html_cell(best, p->f);
    html_cell_count(best_step, p->f);
    (void)fputs("</tr>\n", p->f);
}

/* Puts a row for each group: over its seeds, the last tenth of each run. */
static void put_groups(const struct page *p)
{
    static const char *const heads[] = {"Runs",           "#n",  "#Mean", "#Deviation",
                                        "#95 % interval", "#IQM"};
    const struct report *r = p->curves;

    html_remark(p->f,
                "%s: each run contributes the mean of its last tenth; the interval "
                "is bootstrapped, and IQM is the mean without the lowest and the "
                "highest quarter.",
                r->metric);
    html_table(heads, sizeof(heads) / sizeof(heads[0]), HTML_WIDE, p->f);
    for (size_t i = 0; i < r->n_groups; i++) {
        const struct seed_stats *s = &r->group[i].final;

        (void)fputs("<tr>", p->f);
        html_element("th", r->group[i].name, p->f);
        html_cell_count(r->group[i].n_runs, p->f);
        html_cell(s->mean, p->f);
        html_cell(s->std, p->f);
        html_interval(s->low, s->high, p->f);
        html_cell(s->iqm, p->f);
        (void)fputs("</tr>\n", p->f);
    }
    html_table_end(p->f);
    (void)fputs("<h3>Each run</h3>\n", p->f);
}

static void put_results(const struct page *p)
{
    static const char *const heads[] = {"Run",      "Column", "#Newest",
                                        "#at step", "#Best",  "#at step"};
    const size_t first = p->n > 1 ? 0 : 1;
    const int is_evaluated = p->column != NULL && text_after(p->column, "eval/") != NULL;

    html_section("evaluation", is_evaluated ? "Evaluation" : "Results in training", p->f);
    if (p->curves != NULL && p->n > 1)
        put_groups(p);
    if (p->column == NULL) {
        html_remark(p->f, "There is no return yet.");
    } else {
        html_table(heads + first, sizeof(heads) / sizeof(heads[0]) - first, HTML_WIDE,
                   p->f);
        for (size_t i = 0; i < p->n; i++)
            for (size_t k = 0; k < p->returns->n && k < KINDS_MAX; k++)
                put_result(p, &p->run[i], p->returns->name[k]);
        html_table_end(p->f);
    }
    (void)fputs("</section>\n", p->f);
}

/* ---- each run ---- */

static void open_part(const struct page *p, size_t i, const char *id, const char *title)
{
    if (p->n > 1)
        (void)fprintf(p->f, "<h3 id=\"%s-%zu\">%s</h3>\n", id, i + 1, title);
    else
        (void)fprintf(p->f, "<section id=\"%s-%zu\">\n<h2>%s</h2>\n", id, i + 1, title);
}

static void close_part(const struct page *p)
{
    if (p->n == 1)
        (void)fputs("</section>\n", p->f);
}

static void put_run(const struct page *p, size_t i, enum html_play play)
{
    struct html_run *r = &p->run[i];

    if (p->n > 1) {
        (void)fprintf(p->f, "<section id=\"run-%zu\">\n", i + 1);
        html_element("h2", r->name, p->f);
    }
    if (is_first_of_group(p, i)) {
        open_part(p, i, "episode", "An episode");
        html_run_play(r, play, p->f);
        close_part(p);
    }
    open_part(p, i, "changes", "Changes while it ran");
    html_run_put_changes(r, p->f);
    close_part(p);
    open_part(p, i, "deaths", "Deaths and respawns");
    html_run_put_ends(r, p->f);
    close_part(p);
    open_part(p, i, "checkpoints", "Checkpoints");
    html_run_put_checkpoints(r, p->returns->name, p->returns->n < 4 ? p->returns->n : 4,
                             p->f);
    close_part(p);
    if (p->n > 1) {
        html_fold("The whole configuration", (const char *)r->text.data, r->text.len,
                  p->f);
        (void)fputs("</section>\n", p->f);
    }
}

static void put_configuration(const struct page *p)
{
    const struct html_run *r = &p->run[0];

    html_section("configuration", "Configuration", p->f);
    html_config_put(p->run, p->n, p->f);
    if (p->n == 1)
        html_fold("The whole configuration", (const char *)r->text.data, r->text.len,
                  p->f);
    (void)fputs("</section>\n", p->f);
}

/* The column of the return, from the first run that has one. */
static const char *return_column(const struct page *p)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct progress *g = p->run[i].progress;
        const size_t c = g != NULL ? progress_find_return(g, progress_n_rows(g)) : 0;

        if (g != NULL && c < progress_n_columns(g))
            return progress_name(g, c);
    }
    return NULL;
}

void html_report_runs(char *const *paths, size_t n, const struct report *r,
                      const struct err *why, enum html_play play, FILE *f)
{
    struct page p = {
        .run = xcalloc(n, sizeof(*p.run)), .n = n, .curves = r, .why = why, .f = f};
    char *title;

    for (size_t i = 0; i < n; i++)
        html_run_read(&p.run[i], paths[i]);
    p.column = return_column(&p);
    p.returns = xcalloc(1, sizeof(*p.returns));
    if (p.column != NULL)
        find_columns(&p,
                     text_after(p.column, "eval/") != NULL ? "eval/team_return/"
                                                           : "rollout/team_return/",
                     p.returns);
    title = n == 1 ? xasprintf("%s - brood", p.run[0].name)
                   : xasprintf("%s and %zu more - brood", p.run[0].name, n - 1);
    html_begin(title, f);
    put_head(&p);
    put_curves(&p);
    put_results(&p);
    for (size_t i = 0; i < n; i++)
        put_run(&p, i, play);
    put_configuration(&p);
    html_section("build", "Build and machine", f);
    put_fact_table(&p, build_facts, BUILD_FACTS);
    (void)fputs("</section>\n", f);
    html_end(f);
    free(title);
    free(p.returns);
    for (size_t i = 0; i < n; i++)
        html_run_done(&p.run[i]);
    free(p.run);
}
