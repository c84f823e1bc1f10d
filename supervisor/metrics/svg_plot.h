/* svg_plot.h - what pictures of values have in common: axes, and of curves the title, the frame,
 * the lines with their bands, and the legend.
 */
#ifndef SUPERVISOR_METRICS_SVG_PLOT_H
#define SUPERVISOR_METRICS_SVG_PLOT_H

#include <math.h>
#include <stddef.h>
#include <stdio.h>

/* Where values are, in pixels: the lowest at `from`, the highest at `to`; on a logarithmic axis
 * by their logarithms. */
struct svg_axis {
    double low, high, from, to;
    int is_log;
};
/* An axis without values yet. */
#define SVG_AXIS(begin, end)                                                             \
    {                                                                                    \
        .low = HUGE_VAL, .high = -HUGE_VAL, .from = (begin), .to = (end)                 \
    }
void svg_axis_take(struct svg_axis *a, double v); /* widens the range; NaN is ignored */
/* If all values are the same, the middle. */
double svg_axis_at(const struct svg_axis *a, double v);

struct svg_plot {
    struct svg_axis x, y; /* high above low */
    const char *x_label;
    int width, height; /* of the picture, in pixels */
};

/* 720 x 420 pixels, over environment steps, from 0. */
#define SVG_PLOT                                                                         \
    ((struct svg_plot){.x = {0, 1, 70, 700, 0},                                          \
                       .y = SVG_AXIS(370, 40),                                           \
                       .x_label = "environment steps",                                   \
                       .width = 720,                                                     \
                       .height = 420})

/* Opens the picture; `note` follows the title. The caller ends it with "</svg>". */
void svg_plot_begin(const struct svg_plot *a, const char *title, const char *note,
                    FILE *f);
void svg_plot_axes(const struct svg_plot *a, FILE *f);
/* A line through the points; unless the first one's low is NaN, a band from low to high, too. */
struct svg_point {
    double x, y, low, high;
};
void svg_plot_curve(const struct svg_plot *a, const struct svg_point *p, size_t n,
                    size_t colour, FILE *f);
/* One row of the legend, at the right border: "name (count)". */
void svg_plot_legend(const struct svg_plot *a, double y, size_t colour, const char *name,
                     size_t count, FILE *f);
/* Text between tags. */
void svg_escaped(FILE *f, const char *text);
/* Colours that most people can tell apart, in turn. */
enum { SVG_COLOURS = 8 };
const char *svg_colour(size_t i);

#endif
