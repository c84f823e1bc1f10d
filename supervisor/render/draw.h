/* draw.h - the interface of the drawing module.
 *
 * Loading Cairo and its dependencies takes longer than most commands take to run. So all
 * drawing code is in a shared object beside the executable, which render.c loads when
 * something is drawn. The module links its own copy of the parts of common/ that it uses;
 * they keep no state. The memory of a wbuf comes from the C library's malloc, which both
 * share, so that either side may free it.
 */
#ifndef SUPERVISOR_RENDER_DRAW_H
#define SUPERVISOR_RENDER_DRAW_H

#include "common/err/err.h"
#include "common/wire/cursor.h"
#include "supervisor/render/episode.h"

#define DRAW_MODULE "brood-draw.so"
#define DRAW_SYMBOL "draw_calls" /* the only symbol that the module exports */

enum draw_format { DRAW_GIF, DRAW_SVG, DRAW_JSONL };

struct draw_calls {
    /* Checks that this machine can draw. ERR_NOT_FOUND: a font is missing. */
    int (*check)(struct err *err);
    /* Appends the bytes of a file of that format. e: at least one step. */
    int (*episode)(const struct episode *e, enum draw_format format, struct wbuf *ret,
                   struct err *err);
};
/* Linked into a program without shared libraries; otherwise the module's symbol. */
extern const struct draw_calls draw_calls;

/* Functions of formats, for draw.c: appends the file's bytes. */
struct theme_fonts;
struct view;
int draw_gif(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
             struct err *err);
int draw_jsonl(const struct view *v, const struct theme_fonts *fonts, struct wbuf *ret,
               struct err *err);

#endif
