/* svg_plot.h - the parts that pictures of curves over environment steps have in common: the
 * title, the axes, and where a point is.
 */
#ifndef SUPERVISOR_METRICS_SVG_PLOT_H
#define SUPERVISOR_METRICS_SVG_PLOT_H

#include <stddef.h>
#include <stdio.h>

struct svg_plot {
    double low, high;             /* the range of values, high above low */
    double steps;                 /* the last step, above 0 */
    int width, height;            /* of the picture, in pixels */
    int left, right, top, bottom; /* its margins, around the axes */
};

/* 720 x 420 pixels. Range and steps are still to be set. */
#define SVG_PLOT                                                                         \
    ((struct svg_plot){.steps = 1,                                                       \
                       .width = 720,                                                     \
                       .height = 420,                                                    \
                       .left = 70,                                                       \
                       .right = 20,                                                      \
                       .top = 40,                                                        \
                       .bottom = 50})

/* Opens the picture; `note` follows the title. The caller ends it with "</svg>". */
void svg_plot_begin(const struct svg_plot *a, const char *title, const char *note,
                    FILE *f);
void svg_plot_axes(const struct svg_plot *a, FILE *f);
double svg_plot_x(const struct svg_plot *a, double steps);
double svg_plot_y(const struct svg_plot *a, double value);
/* Text between tags. */
void svg_escaped(FILE *f, const char *text);
/* Colours that most people can tell apart, in turn. */
enum { SVG_COLOURS = 8 };
const char *svg_colour(size_t i);

#endif
