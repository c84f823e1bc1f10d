#include "supervisor/metrics/svg_plot.h"

#include <math.h>

enum { TICKS = 5 };

/* Okabe & Ito 2008. */
static const char *const colours[SVG_COLOURS] = {"#0072b2", "#d55e00", "#009e73",
                                                 "#cc79a7", "#e69f00", "#56b4e9",
                                                 "#f0e442", "#000000"};

const char *svg_colour(size_t i)
{
    return colours[i % SVG_COLOURS];
}

void svg_axis_take(struct svg_axis *a, double v)
{
    a->low = fmin(a->low, v); /* fmin ignores a NaN */
    a->high = fmax(a->high, v);
}

double svg_axis_at(const struct svg_axis *a, double v)
{
    if (!(a->high > a->low))
        return a->from + (a->to - a->from) / 2;
    if (a->is_log)
        return a->from + (a->to - a->from) * log(v / a->low) / log(a->high / a->low);
    return a->from + (a->to - a->from) * (v - a->low) / (a->high - a->low);
}

void svg_escaped(FILE *f, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '&' || *text == '<' || *text == '>')
            (void)fprintf(f, "&#%d;", *text);
        else
            (void)fputc(*text, f);
    }
}

void svg_plot_begin(const struct svg_plot *a, const char *title, const char *note,
                    FILE *f)
{
    (void)fprintf(f,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "viewBox='0 0 %d %d' font-family='sans-serif' font-size='12' "
                  "fill='#333'>\n",
                  a->width, a->height, a->width, a->height);
    (void)fprintf(f,
                  "<rect width='100%%' height='100%%' fill='#fff'/>\n"
                  "<text x='%.0f' y='24' font-size='14'>",
                  a->x.from);
    svg_escaped(f, title);
    (void)fprintf(f, "%s</text>\n", note);
}

/* 1, 2 or 5 times a power of ten, so that about TICKS steps cover the span. */
static double tick_step(double span)
{
    double unit = pow(10, floor(log10(span / TICKS)));
    double times = span / TICKS / unit;

    return unit * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

void svg_plot_axes(const struct svg_plot *a, FILE *f)
{
    const double left = a->x.from, right = a->x.to, foot = a->y.from;
    double step = tick_step(a->y.high - a->y.low);

    for (double v = ceil(a->y.low / step) * step; v <= a->y.high; v += step) {
        const double y = svg_axis_at(&a->y, v);

        (void)fprintf(f,
                      "<path d='M%.0f %.1fH%.0f' stroke='#ddd'/><text x='%.0f' "
                      "y='%.1f' text-anchor='end'>%g</text>\n",
                      left, y, right, left - 8, y + 4, fabs(v) < step / 1e6 ? 0.0 : v);
        if (v + step <= v) /* a span of a few roundings */
            break;
    }
    step = tick_step(a->x.high - a->x.low);
    for (double v = ceil(a->x.low / step) * step; v <= a->x.high; v += step) {
        const double x = svg_axis_at(&a->x, v);

        (void)fprintf(f,
                      "<path d='M%.1f %.0fv5' stroke='#333'/><text x='%.1f' "
                      "y='%.0f' text-anchor='middle'>%g</text>\n",
                      x, foot, x, foot + 20, fabs(v) < step / 1e6 ? 0.0 : v);
    }
    (void)fprintf(f,
                  "<path d='M%.0f %.0fV%.0fH%.0f' fill='none' stroke='#333'/>"
                  "<text x='%.0f' y='%d' text-anchor='middle'>%s</text>\n",
                  left, a->y.to, foot, right, (left + right) / 2, a->height - 10,
                  a->x_label);
}

void svg_plot_curve(const struct svg_plot *a, const struct svg_point *p, size_t n,
                    size_t colour, FILE *f)
{
    if (n > 0 && !isnan(p[0].low)) {
        (void)fprintf(f, "<polygon fill='%s' fill-opacity='0.2' points='",
                      svg_colour(colour));
        for (size_t k = 0; k < n; k++)
            (void)fprintf(f, "%.1f,%.1f ", svg_axis_at(&a->x, p[k].x),
                          svg_axis_at(&a->y, p[k].high));
        for (size_t k = n; k > 0; k--)
            (void)fprintf(f, "%.1f,%.1f ", svg_axis_at(&a->x, p[k - 1].x),
                          svg_axis_at(&a->y, p[k - 1].low));
        (void)fputs("'/>\n", f);
    }
    if (n == 1) /* a line would not be seen */
        (void)fprintf(f, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>",
                      svg_axis_at(&a->x, p[0].x), svg_axis_at(&a->y, p[0].y),
                      svg_colour(colour));
    (void)fprintf(f, "<polyline fill='none' stroke='%s' stroke-width='2' points='",
                  svg_colour(colour));
    for (size_t k = 0; k < n; k++)
        (void)fprintf(f, "%.1f,%.1f ", svg_axis_at(&a->x, p[k].x),
                      svg_axis_at(&a->y, p[k].y));
    (void)fputs("'/>\n", f);
}

void svg_plot_legend(const struct svg_plot *a, double y, size_t colour, const char *name,
                     size_t count, FILE *f)
{
    (void)fprintf(f,
                  "<path d='M%.0f %.0fh20' stroke='%s' stroke-width='3'/>"
                  "<text x='%.0f' y='%.0f' text-anchor='end'>",
                  a->x.to - 20, y, svg_colour(colour), a->x.to - 28, y + 4);
    svg_escaped(f, name);
    (void)fprintf(f, " (%zu)</text>\n", count);
}
