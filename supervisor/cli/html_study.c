/* The page of a study. */
#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/html_page.h"
#include "supervisor/cli/html_report.h"
#include "supervisor/cli/lineage_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS_MAX = 100 };

static const char *const methods[] = {
    [STUDY_GRID] = "grid",
    [STUDY_RANDOM] = "random draws",
    [STUDY_ASHA] = "successive halving (asha)",
    [STUDY_PBT] = "population based training",
};

static void put_fact(const char *label, FILE *f, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void put_fact(const char *label, FILE *f, const char *fmt, ...)
{
    va_list ap;
    char *text;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    (void)fputs("<div>", f);
    html_element("dt", label, f);
    html_element("dd", text, f);
    (void)fputs("</div>\n", f);
    free(text);
}

static size_t count_failed(const struct study_report *r)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += r->row[i].failure != NULL;
    return n;
}

static void put_head(const struct study_report *r, FILE *f)
{
    const struct study *s = r->study;
    const size_t failed = count_failed(r);

    (void)fputs("<header>\n", f);
    html_element("h1", r->name, f);
    (void)fputs("\n<nav><a href=\"#trials\">Trials</a>\n"
                "<a href=\"#pictures\">Pictures</a>\n",
                f);
    if (s->method == STUDY_PBT)
        (void)fputs("<a href=\"#lineage\">Lineage</a>\n", f);
    (void)fputs("<a href=\"#failed\">Failed</a>\n<a href=\"#files\">Files</a></nav>\n"
                "</header>\n<dl class=\"facts\">\n",
                f);
    put_fact("Method", f, "%s", methods[s->method]);
    put_fact(s->method == STUDY_PBT ? "Members" : "Trials", f, "%zu", s->trials);
    if (s->method == STUDY_PBT)
        put_fact("Rounds over", f, "%zu of %zu", r->lineage.n, s->pbt.rounds);
    put_fact("Seeds of each", f, "%zu", s->n_seeds);
    put_fact("Metric", f, "%s, %s", s->column != NULL ? s->column : "the team's return",
             s->is_max ? "higher is better" : "lower is better");
    if (r->n > 0 && r->row[0].is_reached)
        put_fact("Best value", f, "%.5g (%s %zu)", r->row[0].value.mean,
                 s->method == STUDY_PBT ? "member" : "trial", r->row[0].trial + 1);
    put_fact("Failed", f, "%zu", failed);
    (void)fputs("</dl>\n", f);
}

/* ---- the table ---- */

static void put_row(const struct study_report *r, const struct study_row *row, FILE *f)
{
    struct arena arena = ARENA_ZERO;

    (void)fputs("<tr>", f);
    html_cell_count(row->trial + 1, f);
    html_cell(row->value.mean, f);
    if (r->study->n_seeds > 1)
        html_interval(row->value.low, row->value.high, f);
    if (study_report_has_steps(r->study) && row->is_reached)
        html_cell_count(study_report_step(r->study, row), f);
    else if (study_report_has_steps(r->study))
        html_cell((double)NAN, f);
    for (size_t k = 0; k < r->study->n_keys; k++) {
        (void)fputs("<td class=\"v\">", f);
        html_text(study_report_setting(r, row->trial, k, &arena), f);
        (void)fputs("</td>", f);
    }
    (void)fputs("</tr>\n", f);
    arena_done(&arena);
}

static void put_trials(const struct study_report *r, FILE *f)
{
    const struct study *s = r->study;
    const char *heads[STUDY_MAX_KEYS + 4] = {
        s->method == STUDY_PBT ? "#Member" : "#Trial", "#Value"};
    size_t n = 2;

    if (s->n_seeds > 1)
        heads[n++] = "#95 % interval";
    if (study_report_has_steps(s))
        heads[n++] = "#At step";
    for (size_t k = 0; k < s->n_keys; k++)
        heads[n++] = s->key[k].path;
    html_section("trials", "The best first", f);
    html_table(heads, n, HTML_WIDE, f);
    for (size_t i = 0; i < r->n && i < TRIALS_MAX; i++)
        put_row(r, &r->row[i], f);
    html_table_end(f);
    if (r->n > TRIALS_MAX)
        html_remark(f, "and %zu more: `brood report %s`", r->n - TRIALS_MAX, r->name);
    (void)fputs("</section>\n", f);
}

/* ---- the other sections ---- */

static void put_lineage(const struct study_report *r, FILE *f)
{
    struct xstream text;

    lineage_report_print(&r->lineage, xstream_begin(&text));
    (void)xstream_end(&text);
    html_section("lineage", "Who became a fork of whom", f);
    if (text.len > 0)
        html_fold("All forks", text.text, text.len, f);
    else
        html_remark(f, "No member became a fork yet.");
    (void)fputs("</section>\n", f);
    free(text.text);
}

static void put_failures(const struct study_report *r, FILE *f)
{
    static const char *const heads[] = {"#Trial", "Its first run that failed"};

    html_section("failed", "Failed trials", f);
    if (count_failed(r) == 0) {
        html_remark(f, "None failed.");
    } else {
        html_table(heads, sizeof(heads) / sizeof(heads[0]), HTML_WIDE, f);
        for (size_t i = 0; i < r->n; i++) {
            if (r->row[i].failure == NULL)
                continue;
            (void)fputs("<tr>", f);
            html_cell_count(r->row[i].trial + 1, f);
            (void)fputs("<td class=\"w\">", f);
            html_text(r->row[i].failure, f);
            (void)fputs("</td></tr>\n", f);
        }
        html_table_end(f);
    }
    (void)fputs("</section>\n", f);
}

/* A file that is a link, perhaps to a secret, is not followed: the folder is held. */
static void put_file(const char *dir, const char *name, const char *title, FILE *f)
{
    char *path = xasprintf("%s/%s", dir, name);
    struct wbuf text = {0};

    if (wbuf_read_file(&text, path, YAML_MAX_BYTES, NULL) == 0)
        html_fold(title, (const char *)text.data, text.len, f);
    wbuf_done(&text);
    free(path);
}

/* Puts the colours of the members, which repeat from the ninth on. */
static void put_members(size_t n, FILE *f)
{
    (void)fputs("<div class=\"legend\">", f);
    for (size_t i = 0; i < n; i++) {
        char name[40];

        (void)snprintf(name, sizeof(name), "member %zu", i + 1);
        html_legend(i, name, f);
    }
    (void)fputs("</div>\n", f);
}

void html_report_study(const struct study_report *r, const char *dir, FILE *f)
{
    char *title = xasprintf("%s - brood", r->name);
    int is_held;

    html_begin(title, f);
    put_head(r, f);
    put_trials(r, f);
    html_section("pictures",
                 r->study->method == STUDY_PBT ? "Values of the members"
                                               : "Settings and values",
                 f);
    (void)fputs("<div class=\"card wide\">", f);
    if (r->study->method == STUDY_PBT)
        put_members(r->study->trials, f);
    study_report_print_svg(r, f);
    (void)fputs("</div></section>\n", f);
    if (r->study->method == STUDY_PBT)
        put_lineage(r, f);
    put_failures(r, f);
    html_section("files", "Files of the study", f);
    is_held = beneath_hold(dir, NULL) == 0;
    if (is_held) {
        put_file(dir, "study.yaml", "study.yaml", f);
        put_file(dir, "base.yaml", "base.yaml, which every trial is with other values",
                 f);
        beneath_release(dir);
    }
    (void)fputs("</section>\n", f);
    html_end(f);
    free(title);
}
