/* theme.h - what pictures are drawn with: colours, letters, and a pen that has both.
 *
 * Colours  0xrrggbb. Those that tell things apart are told apart by most people
 *          (Okabe & Ito 2008), and everything differs in shape besides.
 * Letters  DejaVu Sans, from its own file: no other font of the machine, and no setting
 *          of it, has a say in a picture.
 */
#ifndef SUPERVISOR_RENDER_THEME_H
#define SUPERVISOR_RENDER_THEME_H

#include "common/err/err.h"

#include <cairo.h>
#include <stddef.h>
#include <stdint.h>

enum {
    THEME_PAPER = 0xffffff,
    THEME_GROUND = 0xf8f8f5, /* the world's */
    THEME_INK = 0x23282d,
    THEME_MUTED = 0x6a727a,
    THEME_LINE = 0xd9dad5,
    THEME_LANDMARK = 0x9aa1a8,
    THEME_OBSTACLE = 0x5b6269,
    THEME_FOOD = 0xb9c840,
    THEME_FOREST = 0xd3e6cd,
    THEME_GOAL = 0xf0c000,
    THEME_CONTACT = 0xf7ee55,
    THEME_CELL = 0x8fbfe0, /* of the highest payoff */
};

/* Of the k-th agent of one team, or of two that are against each other: a few colours,
 * then the same darker, then paler, then again. */
enum theme_team { THEME_ONE_TEAM, THEME_GOOD, THEME_ADVERSE };
uint32_t theme_agent(enum theme_team team, size_t k);
/* All colours that areas are filled with; *ret_n of them. */
const uint32_t *theme_colours(size_t *ret_n);
/* part of a, the rest of b. */
uint32_t theme_mix(uint32_t a, uint32_t b, double part);
/* Of a payoff, 0 to 1: one of THEME_CELLS shades. */
#define THEME_CELLS 9
uint32_t theme_cell(double value);
/* The outline of an area, and letters on it. */
uint32_t theme_outline(uint32_t rgb);
uint32_t theme_letters(uint32_t rgb);

struct theme_fonts; /* opaque */

/* ERR_NOT_FOUND, naming the package. */
int theme_fonts_open(struct theme_fonts **ret, struct err *err);
void theme_fonts_close(struct theme_fonts *f); /* after all that was drawn with them */

struct pen {
    cairo_t *cr;
    const struct theme_fonts *fonts;
    double alpha; /* of all that is drawn with it */
};

#define PEN_PALE 0.35 /* of what is gone */

void pen_colour(const struct pen *p, uint32_t rgb);
/* Fills the path, then draws its outline; 0: no outline. Both forget the path. */
void pen_fill(const struct pen *p, uint32_t rgb, uint32_t outline, double width);
void pen_stroke(const struct pen *p, uint32_t rgb, double width);

enum pen_align { PEN_LEFT, PEN_CENTRE, PEN_RIGHT };
struct pen_text {
    double size; /* of letters, in pixels */
    int is_bold;
    enum pen_align align;
    uint32_t rgb;
    double most;        /* pixels wide; what is longer ends in dots; 0: any */
    double fit;         /* pixels wide; what is longer gets smaller; 0: any */
    int is_over_things; /* a light edge keeps it legible */
};
double pen_text_width(const struct pen *p, const struct pen_text *t, const char *text);
/* At the base line. */
void pen_text(const struct pen *p, const struct pen_text *t, double x, double y,
              const char *text);

#endif
