#include "supervisor/study/lineage_report.h"

#include "supervisor/metrics/svg_plot.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The member whose run this member continued at the start of this round. */
static size_t parent(const struct lineage *l, size_t round, size_t member)
{
    return round > 0 ? lineage_from(l, round - 1, member) : member;
}

/* ---- text ---- */

static void print_member(const struct lineage *l, size_t round, size_t member, FILE *f)
{
    const double v = lineage_value(l, round, member);

    (void)fprintf(f, "%zu (", member + 1);
    (void)fprintf(f, isnan(v) ? "failed)" : "%.4g)", v);
}

static void print_fork(const struct lineage *l, size_t round, size_t member, FILE *f)
{
    const size_t from = lineage_from(l, round, member);
    const char *const *was = lineage_settings(l, round, from);
    const char *const *is = lineage_settings(l, round + 1, member);

    (void)fprintf(f, "after step %" PRIu64 ": ", lineage_step(l->study, round));
    print_member(l, round, member, f);
    (void)fputs(" became a fork of ", f);
    print_member(l, round, from, f);
    for (size_t k = 0; k < l->study->n_keys; k++)
        if (strcmp(was[k], is[k]) != 0)
            (void)fprintf(f, ", %s %s -> %s", study_key_short_name(&l->study->key[k]),
                          was[k], is[k]);
    (void)fputc('\n', f);
}

void lineage_report_print(const struct lineage *l, FILE *f)
{
    for (size_t r = 0; r < l->n && r + 1 < l->study->pbt.rounds; r++)
        for (size_t i = 0; i < l->study->trials; i++)
            if (lineage_from(l, r, i) != i)
                print_fork(l, r, i, f);
}

/* ---- CSV and JSON ---- */

void report_csv_text(const char *text, FILE *f)
{
    if (strpbrk(text, ",\"\n") == NULL) {
        (void)fputs(text, f);
        return;
    }
    (void)fputc('"', f);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            (void)fputc('"', f);
        (void)fputc(*text, f);
    }
    (void)fputc('"', f);
}

void report_csv_number(double v, FILE *f)
{
    char text[JSON_NUMBER_MAX];

    (void)fprintf(f, ",%s", isnan(v) ? "" : json_format_f64(v, text));
}

void lineage_report_print_csv(const struct lineage *l, FILE *f)
{
    const struct study *s = l->study;

    (void)fputs("round,env_steps,member,value,from", f);
    for (size_t k = 0; k < s->n_keys; k++) {
        (void)fputc(',', f);
        report_csv_text(s->key[k].path, f);
    }
    (void)fputc('\n', f);
    for (size_t i = 0; i < l->n * s->trials; i++) {
        const size_t round = i / s->trials, member = i % s->trials;

        (void)fprintf(f, "%zu,%" PRIu64 ",%zu", round + 1, lineage_step(s, round),
                      member + 1);
        report_csv_number(lineage_value(l, round, member), f);
        (void)fputc(',', f);
        if (round > 0)
            (void)fprintf(f, "%zu", parent(l, round, member) + 1);
        for (size_t k = 0; k < s->n_keys; k++) {
            (void)fputc(',', f);
            report_csv_text(lineage_settings(l, round, member)[k], f);
        }
        (void)fputc('\n', f);
    }
}

void lineage_report_put(const struct lineage *l, struct json *j)
{
    const struct study *s = l->study;

    json_put_array(j, "lineage");
    for (size_t i = 0; i < l->n * s->trials; i++) {
        const size_t round = i / s->trials, member = i % s->trials;

        json_object(j);
        json_put_u64(j, "round", round + 1);
        json_put_u64(j, "env_steps", lineage_step(s, round));
        json_put_u64(j, "member", member + 1);
        json_put_f64(j, "value", lineage_value(l, round, member));
        json_put_known(j, "from", round > 0, parent(l, round, member) + 1);
        json_put_object(j, "settings");
        for (size_t k = 0; k < s->n_keys; k++)
            json_put_str(j, s->key[k].path, lineage_settings(l, round, member)[k]);
        json_close(j);
        json_close(j);
    }
    json_close(j);
}

/* ---- SVG ---- */

/* "member 3, learning_rate 0.001, discount 0.95: -20.12", shown by a browser over the
 * point; beside a member's last one, its number. */
static void put_point(const struct lineage *l, const struct svg_plot *a, size_t round,
                      size_t member, FILE *f)
{
    const double v = lineage_value(l, round, member);

    if (isnan(v))
        return;
    (void)fprintf(f,
                  "<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'>"
                  "<title>member %zu",
                  svg_axis_at(&a->x, (double)lineage_step(l->study, round)),
                  svg_axis_at(&a->y, v), svg_colour(member), member + 1);
    for (size_t k = 0; k < l->study->n_keys; k++) {
        (void)fprintf(f, ", ");
        svg_escaped(f, study_key_short_name(&l->study->key[k]));
        (void)fputc(' ', f);
        svg_escaped(f, lineage_settings(l, round, member)[k]);
    }
    (void)fprintf(f, ": %.4g</title></circle>\n", v);
    if (round + 1 == l->n)
        (void)fprintf(f, "<text x='%.1f' y='%.1f'>%zu</text>\n",
                      svg_axis_at(&a->x, (double)lineage_step(l->study, round)) + 7,
                      svg_axis_at(&a->y, v) + 4, member + 1);
}

static void put_line(const struct lineage *l, const struct svg_plot *a, size_t round,
                     size_t member, FILE *f)
{
    const size_t from = parent(l, round, member);
    const double was = lineage_value(l, round - 1, from),
                 is = lineage_value(l, round, member);

    if (isnan(was) || isnan(is))
        return;
    (void)fprintf(f,
                  "<path fill='none' stroke='%s' stroke-width='1.5'%s "
                  "d='M%.1f %.1fL%.1f %.1f'/>\n",
                  svg_colour(member), from != member ? " stroke-dasharray='5 4'" : "",
                  svg_axis_at(&a->x, (double)lineage_step(l->study, round - 1)),
                  svg_axis_at(&a->y, was),
                  svg_axis_at(&a->x, (double)lineage_step(l->study, round)),
                  svg_axis_at(&a->y, is));
}

void lineage_report_print_svg(const struct lineage *l, FILE *f)
{
    const struct study *s = l->study;
    struct svg_plot a = SVG_PLOT;

    for (size_t i = 0; i < l->n * s->trials; i++)
        svg_axis_take(&a.y, lineage_value(l, i / s->trials, i % s->trials));
    if (l->n > 0)
        a.x.high = (double)lineage_step(s, l->n - 1);
    if (!(a.y.high > a.y.low)) {
        a.y.low = l->n > 0 ? a.y.low - 1 : 0;
        a.y.high = a.y.low + 2;
    }

    svg_plot_begin(&a, s->column != NULL ? s->column : "the team's return",
                   " of the members; dashed: became a fork", f);
    svg_plot_axes(&a, f);
    for (size_t i = s->trials; i < l->n * s->trials; i++)
        put_line(l, &a, i / s->trials, i % s->trials, f);
    for (size_t i = 0; i < l->n * s->trials; i++)
        put_point(l, &a, i / s->trials, i % s->trials, f);
    (void)fputs("</svg>\n", f);
}
