/* Prints a report as text, CSV, JSON and SVG. */
#include "common/mem/xmalloc.h"
#include "common/text/number_text.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/report.h"
#include "supervisor/cli/view_layout.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/svg_plot.h"
#include "supervisor/study/lineage_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPARKS = 24, NAME_LEAST = 20, NUMBERS_WIDTH = 64 };

/* Takes the values of bands and means of a group. */
static void take_range(struct svg_axis *a, const struct report_group *g)
{
    for (size_t k = 0; k < g->n_points; k++) {
        svg_axis_take(a, g->point[k].over.mean);
        svg_axis_take(a, g->point[k].over.low);
        svg_axis_take(a, g->point[k].over.high);
    }
}

/* ---- text ---- */

static void print_spark(const struct report_group *g, FILE *f)
{
    const int utf8 = glyphs_are_utf8();
    const size_t n = g->n_points < SPARKS ? g->n_points : SPARKS;
    struct svg_axis height = SVG_AXIS(0, 1);

    take_range(&height, g);
    if (height.high <= height.low) /* all at the foot */
        height.high = height.low + 1;
    for (size_t i = 0; i < n; i++) {
        double mean = g->point[(i + 1) * g->n_points / n - 1].over.mean;

        (void)fputs(glyph_level(utf8, svg_axis_at(&height, mean)), f);
    }
}

static void print_number(FILE *f, int width, double x)
{
    char text[NUMBER_TEXT_BYTES];

    (void)fprintf(f, " %*s", width - 1, isnan(x) ? "-" : number_text(x, 3, text));
}

void report_print_text(const struct report *r, int columns, FILE *f)
{
    char text[PROCESS_COUNT_TEXT_BYTES];
    const int left = columns - NUMBERS_WIDTH - SPARKS;
    const int room = left > NAME_LEAST ? left : NAME_LEAST;
    int width = 6;

    for (size_t i = 0; i < r->n_groups; i++) {
        const char *name = PLAIN_NAME(r->group[i].name);

        if (view_width(name, strlen(name)) > width)
            width = view_width(name, strlen(name));
    }
    if (columns > 0 && width > room)
        width = room;
    (void)fprintf(f, "%s, the last tenth of each run\n", PLAIN_NAME(r->metric));
    (void)fprintf(f, "  %-*s %5s %10s %9s %21s %10s  %s\n", width, "runs", "n", "mean",
                  "std", "95 % interval", "iqm", "curve");
    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];
        const struct seed_stats *s = &g->final;

        (void)fputs("  ", f);
        view_print_cell(f, PLAIN_NAME(g->name), width, VIEW_NAME);
        (void)fprintf(f, " %5zu", g->n_runs);
        print_number(f, 11, s->mean);
        print_number(f, 10, s->std);
        print_number(f, 11, s->low);
        print_number(f, 11, s->high);
        print_number(f, 11, s->iqm);
        (void)fputs("  ", f);
        print_spark(g, f);
        (void)fputc('\n', f);
    }
    for (size_t i = 0; i < r->n_groups; i++) /* of runs whose processes came to harm */
        if (*process_count_text(&r->group[i].count, text) != '\0')
            (void)fprintf(f, "  %s: %s\n", PLAIN_NAME(r->group[i].name), text);
}

/* ---- CSV ---- */

void report_print_csv(const struct report *r, FILE *f)
{
    (void)fputs("runs,metric,n,env_steps,mean,std,low,high,iqm\n", f);
    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];

        for (size_t k = 0; k < g->n_points; k++) {
            const struct seed_stats *s = &g->point[k].over;

            (void)fprintf(f, "%s,%s,%zu", PLAIN_NAME(g->name), PLAIN_NAME(r->metric),
                          g->n_runs);
            report_csv_number(g->point[k].steps, f);
            report_csv_number(s->mean, f);
            report_csv_number(s->std, f);
            report_csv_number(s->low, f);
            report_csv_number(s->high, f);
            report_csv_number(s->iqm, f);
            (void)fputc('\n', f);
        }
    }
}

/* ---- JSON ---- */

void report_put_group(const struct report *r, const struct report_group *g,
                      struct json *j)
{
    json_put_str(j, "runs", g->name);
    json_put_str(j, "metric", r->metric);
    json_put_u64(j, "n", g->n_runs);
    json_put_f64(j, "mean", g->final.mean);
    json_put_f64(j, "std", g->final.std);
    json_put_f64(j, "low", g->final.low);
    json_put_f64(j, "high", g->final.high);
    json_put_f64(j, "iqm", g->final.iqm);
    json_put_u64(j, "restarts", g->count.restarts);
    json_put_u64(j, "hangs", g->count.hangs);
    json_put_u64(j, "slow_answers", g->count.slow);
    json_put_u64(j, "skipped_episodes", g->count.skipped);
    json_put_f64(j, "lost_seconds", g->count.lost_s);
}

void report_print_json(const struct report *r, FILE *f)
{
    for (size_t i = 0; i < r->n_groups; i++) {
        struct json j = {0};

        json_object(&j);
        report_put_group(r, &r->group[i], &j);
        json_print(&j, f);
    }
}

/* ---- SVG ---- */

static void put_curve(const struct svg_plot *a, const struct report_group *g,
                      size_t colour, FILE *f)
{
    struct svg_point *point = xcalloc(g->n_points, sizeof(*point));

    for (size_t k = 0; k < g->n_points; k++) {
        const struct report_point *from = &g->point[k];

        point[k] = (struct svg_point){from->steps, from->over.mean, from->over.low,
                                      from->over.high};
    }
    svg_plot_curve(a, point, g->n_points, colour, f);
    free(point);
}

void report_print_svg(const struct report *r, FILE *f)
{
    struct svg_plot a = SVG_PLOT;

    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];

        take_range(&a.y, g);
        if (g->n_points > 0)
            svg_axis_take(&a.x, g->point[g->n_points - 1].steps);
    }
    if (a.y.high <= a.y.low)
        a.y.high = a.y.low + 1;
    svg_plot_begin(&a, r->metric, " (mean and 95 % interval over runs)", f);
    svg_plot_axes(&a, f);
    for (size_t i = 0; i < r->n_groups; i++)
        put_curve(&a, &r->group[i], i, f);
    for (size_t i = 0; i < r->n_groups; i++)
        svg_plot_legend(&a, a.y.from - 18 * (double)(r->n_groups - i) + 4, i,
                        r->group[i].name, r->group[i].n_runs, f);
    (void)fputs("</svg>\n", f);
}
