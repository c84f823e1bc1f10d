/* Prints a report as text, CSV, JSON and SVG. */
#include "common/mem/xmalloc.h"
#include "supervisor/cli/glyphs.h"
#include "supervisor/cli/report.h"
#include "supervisor/metrics/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPARKS = 24 };

/* The least and greatest value of bands and means, of one group or (NULL) of all. */
static void find_range(const struct report *r, const struct report_group *only,
                       double *low, double *high)
{
    *low = HUGE_VAL;
    *high = -HUGE_VAL;
    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];

        for (size_t k = 0; (only == NULL || only == g) && k < g->n_points; k++) {
            const struct seed_stats *s = &g->point[k].over;

            *low = fmin(*low, fmin(s->mean, s->low)); /* fmin ignores a NaN */
            *high = fmax(*high, fmax(s->mean, s->high));
        }
    }
    if (*high <= *low)
        *high = *low + 1;
}

/* ---- text ---- */

static void print_spark(const struct report *r, const struct report_group *g, FILE *f)
{
    const int utf8 = glyphs_are_utf8();
    const size_t n = g->n_points < SPARKS ? g->n_points : SPARKS;
    double low, high;

    find_range(r, g, &low, &high);
    for (size_t i = 0; i < n; i++) {
        double mean = g->point[(i + 1) * g->n_points / n - 1].over.mean;

        (void)fputs(glyph_level(utf8, (mean - low) / (high - low)), f);
    }
}

static void print_number(FILE *f, int width, double x)
{
    if (isnan(x))
        (void)fprintf(f, "%*s", width, "-");
    else
        (void)fprintf(f, "%*.3f", width, x);
}

void report_print_text(const struct report *r, FILE *f)
{
    int width = 6;

    for (size_t i = 0; i < r->n_groups; i++) {
        if ((int)strlen(r->group[i].name) > width)
            width = (int)strlen(r->group[i].name);
    }
    (void)fprintf(f, "%s, the last tenth of each run\n", r->metric);
    (void)fprintf(f, "  %-*s %5s %10s %9s %21s %10s  %s\n", width, "runs", "n", "mean",
                  "std", "95 % interval", "iqm", "curve");
    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];
        const struct seed_stats *s = &g->final;

        (void)fprintf(f, "  %-*s %5zu", width, g->name, g->n_runs);
        print_number(f, 11, s->mean);
        print_number(f, 10, s->std);
        print_number(f, 11, s->low);
        print_number(f, 11, s->high);
        print_number(f, 11, s->iqm);
        (void)fputs("  ", f);
        print_spark(r, g, f);
        (void)fputc('\n', f);
    }
}

/* ---- CSV ---- */

static void put_cell(FILE *f, double x)
{
    char number[JSON_NUMBER_MAX];

    (void)fputc(',', f);
    if (!isnan(x))
        (void)fputs(json_format_f64(x, number), f);
}

void report_print_csv(const struct report *r, FILE *f)
{
    (void)fputs("runs,metric,n,env_steps,mean,std,low,high,iqm\n", f);
    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];

        for (size_t k = 0; k < g->n_points; k++) {
            const struct seed_stats *s = &g->point[k].over;

            (void)fprintf(f, "%s,%s,%zu", g->name, r->metric, g->n_runs);
            put_cell(f, g->point[k].steps);
            put_cell(f, s->mean);
            put_cell(f, s->std);
            put_cell(f, s->low);
            put_cell(f, s->high);
            put_cell(f, s->iqm);
            (void)fputc('\n', f);
        }
    }
}

/* ---- JSON ---- */

static void put_number(struct json *j, const char *key, double x)
{
    json_key(j, key);
    json_f64(j, x);
}

void report_print_json(const struct report *r, FILE *f)
{
    struct json j = {0};

    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];
        const char *line;
        size_t len;

        json_begin(&j);
        json_object(&j);
        json_key(&j, "runs");
        json_str(&j, g->name);
        json_key(&j, "metric");
        json_str(&j, r->metric);
        json_key(&j, "n");
        json_u64(&j, g->n_runs);
        put_number(&j, "mean", g->final.mean);
        put_number(&j, "std", g->final.std);
        put_number(&j, "low", g->final.low);
        put_number(&j, "high", g->final.high);
        put_number(&j, "iqm", g->final.iqm);
        json_close(&j);
        line = json_line(&j, &len);
        (void)fwrite(line, 1, len, f);
    }
    json_done(&j);
}

/* ---- SVG ---- */

enum {
    WIDTH = 720,
    HEIGHT = 420,
    LEFT = 70,
    RIGHT = 20,
    TOP = 40,
    BOTTOM = 50,
    TICKS = 5
};

/* Colours that most people can tell apart (Okabe & Ito 2008). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#f0e442", "#000000"};
enum { N_COLOURS = sizeof(colours) / sizeof(colours[0]) };

struct frame {
    double low, high, steps; /* values; the last step */
};

static double at_x(const struct frame *a, double steps)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * steps / a->steps;
}

static double at_y(const struct frame *a, double value)
{
    return HEIGHT - BOTTOM -
           (HEIGHT - TOP - BOTTOM) * (value - a->low) / (a->high - a->low);
}

static void put_escaped(FILE *f, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&' || *text == '<' || *text == '>')
            (void)fprintf(f, "&#%d;", *text);
        else
            (void)fputc(*text, f);
    }
}

/* 1, 2 or 5 times a power of ten, so that about TICKS steps cover the span. */
static double tick_step(double span)
{
    double unit = pow(10, floor(log10(span / TICKS)));
    double times = span / TICKS / unit;

    return unit * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

static void put_axes(const struct frame *a, FILE *f)
{
    double step = tick_step(a->high - a->low);

    for (double v = ceil(a->low / step) * step; v <= a->high; v += step)
        (void)fprintf(f,
                      "<path d='M%d %.1fH%d' stroke='#ddd'/><text x='%d' y='%.1f' "
                      "text-anchor='end'>%g</text>\n",
                      LEFT, at_y(a, v), WIDTH - RIGHT, LEFT - 8, at_y(a, v) + 4,
                      fabs(v) < step / 1e6 ? 0.0 : v);
    step = tick_step(a->steps);
    for (double x = 0; x <= a->steps; x += step)
        (void)fprintf(f,
                      "<path d='M%.1f %dv5' stroke='#333'/><text x='%.1f' y='%d' "
                      "text-anchor='middle'>%g</text>\n",
                      at_x(a, x), HEIGHT - BOTTOM, at_x(a, x), HEIGHT - BOTTOM + 20, x);
    (void)fprintf(f,
                  "<path d='M%d %dV%dH%d' fill='none' stroke='#333'/>"
                  "<text x='%d' y='%d' text-anchor='middle'>environment steps</text>\n",
                  LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT, (LEFT + WIDTH - RIGHT) / 2,
                  HEIGHT - 10);
}

static void put_band(const struct frame *a, const struct report_group *g,
                     const char *colour, FILE *f)
{
    (void)fprintf(f, "<polygon fill='%s' fill-opacity='0.2' points='", colour);
    for (size_t k = 0; k < g->n_points; k++)
        (void)fprintf(f, "%.1f,%.1f ", at_x(a, g->point[k].steps),
                      at_y(a, g->point[k].over.high));
    for (size_t k = g->n_points; k > 0; k--)
        (void)fprintf(f, "%.1f,%.1f ", at_x(a, g->point[k - 1].steps),
                      at_y(a, g->point[k - 1].over.low));
    (void)fputs("'/>\n", f);
}

static void put_curve(const struct frame *a, const struct report_group *g,
                      const char *colour, FILE *f)
{
    if (g->n_runs > 1)
        put_band(a, g, colour, f);
    (void)fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='2' points='",
                  colour);
    for (size_t k = 0; k < g->n_points; k++)
        (void)fprintf(f, "%.1f,%.1f ", at_x(a, g->point[k].steps),
                      at_y(a, g->point[k].over.mean));
    (void)fputs("'/>\n", f);
}

static void put_legend(const struct report *r, FILE *f)
{
    for (size_t i = 0; i < r->n_groups; i++) {
        int y = HEIGHT - BOTTOM - 18 * (int)(r->n_groups - i) + 4;

        (void)fprintf(f,
                      "<path d='M%d %dh20' stroke='%s' stroke-width='3'/>"
                      "<text x='%d' y='%d' text-anchor='end'>",
                      WIDTH - RIGHT - 20, y, colours[i % N_COLOURS], WIDTH - RIGHT - 28,
                      y + 4);
        put_escaped(f, r->group[i].name);
        (void)fprintf(f, " (%zu)</text>\n", r->group[i].n_runs);
    }
}

void report_print_svg(const struct report *r, FILE *f)
{
    struct frame a = {.steps = 1};

    find_range(r, NULL, &a.low, &a.high);
    for (size_t i = 0; i < r->n_groups; i++) {
        const struct report_group *g = &r->group[i];

        if (g->n_points > 0)
            a.steps = fmax(a.steps, g->point[g->n_points - 1].steps);
    }
    (void)fprintf(f,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "viewBox='0 0 %d %d' font-family='sans-serif' font-size='12' "
                  "fill='#333'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n"
                  "<text x='%d' y='24' font-size='14'>",
                  WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    put_escaped(f, r->metric);
    (void)fputs(" (mean and 95 % interval over runs)</text>\n", f);
    put_axes(&a, f);
    for (size_t i = 0; i < r->n_groups; i++)
        put_curve(&a, &r->group[i], colours[i % N_COLOURS], f);
    put_legend(r, f);
    (void)fputs("</svg>\n", f);
}
