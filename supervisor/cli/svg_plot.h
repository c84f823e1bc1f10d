/* svg_plot.h - the parts that pictures of curves over environment steps have in common: the
 * page with its title, the axes, and where a point is.
 *
 * Alone or in a page  A picture that stands alone has a title, and looks right without any
 *           style. All its parts have classes (paper, grid, axis, colour-0 ...), by which the
 *           style of a page (html_page.h) gives them other colours in the dark.
 */
#ifndef SUPERVISOR_CLI_SVG_PLOT_H
#define SUPERVISOR_CLI_SVG_PLOT_H

#include <stddef.h>
#include <stdio.h>

struct svg_plot {
    double low, high;             /* the range of values, high above low */
    double steps;                 /* the last step, above 0 */
    int width, height;            /* of the picture, in pixels */
    int left, right, top, bottom; /* its margins, around the axes */
    int is_part;                  /* of a page, which has the title */
};

/* 720 x 420 pixels; for a part of a page 480 x 270. Range and steps are still to be set. */
struct svg_plot svg_plot_of(int is_part);

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
/* Attributes of a line in such a colour: its class and stroke. */
void svg_put_stroke(size_t i, FILE *f);

#endif
