/* svg_plot.h - what pictures of values have in common: axes, and of curves over environment steps
 * the title and the frame.
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
    struct svg_axis x, y; /* the steps, from 0; the values, high above low */
    int width, height;    /* of the picture, in pixels */
};

/* 720 x 420 pixels. */
#define SVG_PLOT                                                                         \
    ((struct svg_plot){                                                                  \
        .x = {0, 1, 70, 700, 0}, .y = SVG_AXIS(370, 40), .width = 720, .height = 420})

/* Opens the picture; `note` follows the title. The caller ends it with "</svg>". */
void svg_plot_begin(const struct svg_plot *a, const char *title, const char *note,
                    FILE *f);
void svg_plot_axes(const struct svg_plot *a, FILE *f);
/* Text between tags. */
void svg_escaped(FILE *f, const char *text);
/* Colours that most people can tell apart, in turn. */
enum { SVG_COLOURS = 8 };
const char *svg_colour(size_t i);

#endif
