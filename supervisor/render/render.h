/* render.h - writes an episode to a file: an animation, a single picture, or data.
 *
 *   .gif    animated, one frame per step; the last one is shown longer
 *           of an environment's own pictures, only them
 *   .mp4    the same animation as a video, which ffmpeg makes; .webm, too
 *   .svg    the whole episode on one page
 *   .jsonl  one object for the episode and its page, then one for each frame
 *
 * The same episode gives the same bytes, except that an SVG contains a counter of the
 * SVGs that the process has drawn. A file is written completely or not at all. The first
 * call that draws loads the drawing module (draw.h), which stays loaded.
 * Threads  any, one at a time.
 */
#ifndef SUPERVISOR_RENDER_RENDER_H
#define SUPERVISOR_RENDER_RENDER_H

#include "common/err/err.h"
#include "common/wire/cursor.h"
#include "supervisor/render/draw.h"
#include "supervisor/render/episode.h"

/* Checks, before an episode is played, that the file can be drawn and written. ERR_ARG:
 * no format has the extension of this name; ERR_NOT_FOUND: the drawing module, one of its
 * libraries, a font, or the ffmpeg of a video is missing. */
int render_check(const char *path, struct err *err);
/* Checks that the environment can be drawn in that format. ERR_UNSUPPORTED, ERR_ARG. */
int render_check_env(const char *path, const struct env_config *env, struct err *err);
/* Checks that this machine can draw. ERR_NOT_FOUND, as above. */
int render_check_machine(struct err *err);
/* e: at least one step. */
int render_write(const struct episode *e, const char *path, struct err *err);

/* The bytes of such a file, appended. */
int render_bytes(const struct episode *e, enum draw_format format, struct wbuf *ret,
                 struct err *err);

#endif
