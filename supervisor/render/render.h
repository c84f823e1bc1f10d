/* render.h - an episode as a file: pictures that move, one that does not, or data.
 *
 *   .gif    animated, a frame for each step; the last one stays for a while
 *   .svg    the whole episode on one page
 *   .jsonl  an object for the episode and its page, then one for each frame
 *
 * The same episode gives the same bytes (an SVG names its place among all that the
 * process drew). Files appear whole or not at all. The module that draws (draw.h) is
 * loaded by the first call that gets so far, and stays.
 */
#ifndef SUPERVISOR_RENDER_RENDER_H
#define SUPERVISOR_RENDER_RENDER_H

#include "common/err/err.h"
#include "supervisor/render/episode.h"

/* Whether the file can be made and written here; tells before an episode is played.
 * ERR_ARG: its name asks for nothing that can be made; ERR_NOT_FOUND: the module, a
 * library of it, or a font is missing. */
int render_check(const char *path, struct err *err);
/* e: at least one step. */
int render_write(const struct episode *e, const char *path, struct err *err);

#endif
