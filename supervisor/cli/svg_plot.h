/* svg_plot.h - the parts that pictures of curves over environment steps have in common: the
 * page with its title, the axes, and where a point is. */
#ifndef SUPERVISOR_CLI_SVG_PLOT_H
#define SUPERVISOR_CLI_SVG_PLOT_H

#include <stddef.h>
#include <stdio.h>

enum {
    SVG_WIDTH = 720,
    SVG_HEIGHT = 420,
    SVG_LEFT = 70,
    SVG_RIGHT = 20,
    SVG_TOP = 40,
    SVG_BOTTOM = 50
};

struct svg_plot {
    double low, high; /* the range of values, high above low */
    double steps;     /* the last step, above 0 */
};

/* Opens the page; `note` follows the title. The caller ends it with "</svg>". */
void svg_plot_begin(const char *title, const char *note, FILE *f);
void svg_plot_axes(const struct svg_plot *a, FILE *f);
double svg_plot_x(const struct svg_plot *a, double steps);
double svg_plot_y(const struct svg_plot *a, double value);
/* Text between tags. */
void svg_escaped(FILE *f, const char *text);
/* Colours that most people can tell apart, in turn. */
const char *svg_colour(size_t i);

#endif
