/* theme.h - colours, fonts, and the pen that draws with them.
 *
 * Colours  0xrrggbb. Colours that distinguish things are distinguishable with colour
 *          blindness, too (Okabe & Ito 2008), and kinds also differ in shape.
 * Fonts    DejaVu Sans, loaded from its file: a picture does not depend on the machine's
 *          other fonts or its font settings.
 */
#ifndef SUPERVISOR_RENDER_THEME_H
#define SUPERVISOR_RENDER_THEME_H

#include "common/err/err.h"

#include <cairo.h>
#include <stddef.h>
#include <stdint.h>

enum {
    THEME_PAPER = 0xffffff,
    THEME_GROUND = 0xf8f8f5, /* background of the world */
    THEME_INK = 0x23282d,
    THEME_MUTED = 0x6a727a,
    THEME_LINE = 0xd9dad5,
    THEME_LANDMARK = 0x9aa1a8,
    THEME_OBSTACLE = 0x5b6269,
    THEME_FOOD = 0xb9c840,
    THEME_FOREST = 0xd3e6cd,
    THEME_GOAL = 0xf0c000,
    THEME_CONTACT = 0xf7ee55,
    THEME_CELL = 0x8fbfe0, /* the cell of the highest payoff */
};

/* The colour of the k-th agent of its team: a few base colours, then the same darker,
 * then paler, then from the start. */
enum theme_team { THEME_ONE_TEAM, THEME_GOOD, THEME_ADVERSE };
uint32_t theme_agent(enum theme_team team, size_t k);
/* All colours that areas are filled with, [*ret_n]. */
const uint32_t *theme_colours(size_t *ret_n);
/* part * a + (1 - part) * b. */
uint32_t theme_mix(uint32_t a, uint32_t b, double part);
/* The shade of a payoff, scaled to 0 .. 1: one of THEME_CELLS. */
#define THEME_CELLS 9
uint32_t theme_cell(double value);
/* The colours of the outline of an area, and of text on it. */
uint32_t theme_outline(uint32_t rgb);
uint32_t theme_letters(uint32_t rgb);

struct theme_fonts; /* opaque */

/* ERR_NOT_FOUND names the missing package. */
int theme_fonts_open(struct theme_fonts **ret, struct err *err);
void theme_fonts_close(struct theme_fonts *f); /* after all surfaces that used them */

struct pen {
    cairo_t *cr;
    const struct theme_fonts *fonts;
    double alpha; /* opacity of everything drawn with the pen */
};

#define PEN_PALE 0.35 /* alpha for things that have disappeared */

void pen_colour(const struct pen *p, uint32_t rgb);
/* Fills the path, then draws its outline; width 0: no outline. Both functions clear the
 * path. */
void pen_fill(const struct pen *p, uint32_t rgb, uint32_t outline, double width);
void pen_stroke(const struct pen *p, uint32_t rgb, double width);

enum pen_align { PEN_LEFT, PEN_CENTRE, PEN_RIGHT };
struct pen_text {
    double size; /* font size in pixels */
    int is_bold;
    enum pen_align align;
    uint32_t rgb;
    double most;        /* width in pixels; longer text is cut and ends in dots; 0: any */
    double fit;         /* width in pixels; longer text is drawn smaller; 0: any */
    int is_over_things; /* draw a light edge to keep the text legible */
};
double pen_text_width(const struct pen *p, const struct pen_text *t, const char *text);
/* y: the base line. */
void pen_text(const struct pen *p, const struct pen_text *t, double x, double y,
              const char *text);

#endif
