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
    step = tick_step(a->x.high);
    for (double v = 0; v <= a->x.high; v += step) {
        const double x = svg_axis_at(&a->x, v);

        (void)fprintf(f,
                      "<path d='M%.1f %.0fv5' stroke='#333'/><text x='%.1f' "
                      "y='%.0f' text-anchor='middle'>%g</text>\n",
                      x, foot, x, foot + 20, v);
    }
    (void)fprintf(f,
                  "<path d='M%.0f %.0fV%.0fH%.0f' fill='none' stroke='#333'/>"
                  "<text x='%.0f' y='%d' text-anchor='middle'>environment steps</text>\n",
                  left, a->y.to, foot, right, (left + right) / 2, a->height - 10);
}
