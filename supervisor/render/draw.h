/* draw.h - what the drawing module offers.
 *
 * Cairo and what it brings take longer to load than most commands take to run. So all that
 * draws is a module of its own, which stands beside the executable and is loaded when
 * something is drawn (render.c). It has its own copy of what it uses of common/, none of
 * which keeps state; the memory of a wbuf is the C library's, one for both.
 */
#ifndef SUPERVISOR_RENDER_DRAW_H
#define SUPERVISOR_RENDER_DRAW_H

#include "common/err/err.h"
#include "common/wire/cursor.h"
#include "supervisor/render/episode.h"

#define DRAW_MODULE "brood-draw.so"
#define DRAW_SYMBOL "draw_calls" /* the one name that the module shows */

enum draw_format { DRAW_GIF, DRAW_SVG, DRAW_JSONL };

struct draw_calls {
    /* Whether anything can be drawn here. ERR_NOT_FOUND: a font is missing. */
    int (*check)(struct err *err);
    /* Appends the bytes of such a file. e: at least one step. */
    int (*episode)(const struct episode *e, enum draw_format format, struct wbuf *ret,
                   struct err *err);
};
extern const struct draw_calls draw_calls;

/* The formats, for draw.c: append the file's bytes. */
struct theme_fonts;
struct view;
int draw_gif(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
             struct err *err);
int draw_svg(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
             struct err *err);
int draw_jsonl(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
               struct err *err);

#endif
