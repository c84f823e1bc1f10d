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

double svg_plot_x(const struct svg_plot *a, double steps)
{
    return a->left + (a->width - a->left - a->right) * steps / a->steps;
}

double svg_plot_y(const struct svg_plot *a, double value)
{
    return a->height - a->bottom -
           (a->height - a->top - a->bottom) * (value - a->low) / (a->high - a->low);
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
                  "<text x='%d' y='24' font-size='14'>",
                  a->left);
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
    double step = tick_step(a->high - a->low);

    for (double v = ceil(a->low / step) * step; v <= a->high; v += step) {
        (void)fprintf(f,
                      "<path d='M%d %.1fH%d' stroke='#ddd'/><text x='%d' "
                      "y='%.1f' text-anchor='end'>%g</text>\n",
                      a->left, svg_plot_y(a, v), a->width - a->right, a->left - 8,
                      svg_plot_y(a, v) + 4, fabs(v) < step / 1e6 ? 0.0 : v);
        if (v + step <= v) /* a span of a few roundings */
            break;
    }
    step = tick_step(a->steps);
    for (double x = 0; x <= a->steps; x += step)
        (void)fprintf(f,
                      "<path d='M%.1f %dv5' stroke='#333'/><text x='%.1f' "
                      "y='%d' text-anchor='middle'>%g</text>\n",
                      svg_plot_x(a, x), a->height - a->bottom, svg_plot_x(a, x),
                      a->height - a->bottom + 20, x);
    (void)fprintf(f,
                  "<path d='M%d %dV%dH%d' fill='none' stroke='#333'/>"
                  "<text x='%d' y='%d' text-anchor='middle'>environment steps</text>\n",
                  a->left, a->top, a->height - a->bottom, a->width - a->right,
                  (a->left + a->width - a->right) / 2, a->height - 10);
}
