/* redraw.h - a few lines at the foot of a terminal that are redrawn in place, below messages
 * that stay; for the view of a run and that of a study.
 *
 * Wrapping  A terminal that becomes narrower wraps its lines again. One that becomes
 *           lower pushes rows out at the top, which come back when it becomes higher.
 * Owns      nothing but the text that it shows; the descriptor is borrowed.
 */
#ifndef SUPERVISOR_CLI_REDRAW_H
#define SUPERVISOR_CLI_REDRAW_H

#include "common/wire/cursor.h"

#include <stddef.h>

struct redraw {
    int fd;
    int terminal;      /* whether fd is a terminal that can redraw */
    int colour, utf8;  /* whether to use them; NO_COLOR is obeyed */
    int columns, rows; /* of the terminal, as of redraw_begin */
    int lines;         /* that are drawn now; 0: none */

    struct wbuf shown; /* private from here on: the lines, kept for redrawing */
    int scrolled_off;  /* rows of earlier views that a lower terminal pushed out above */
};

/* How many columns the terminal has; 0: fd is none. */
int redraw_columns(int fd);

void redraw_init(struct redraw *r, int fd);
void redraw_done(struct redraw *r); /* what is drawn stays */
/* Moves the cursor to the first line, looks how large the terminal is, and returns an empty
 * buffer for the new lines. */
struct wbuf *redraw_begin(struct redraw *r);
/* Draws the buffer's lines. */
void redraw_show(struct redraw *r, int lines);
/* Prints one line where the lines are drawn; the caller draws them again below. If fd is
 * not a terminal that can redraw, only prints it. */
void redraw_message(struct redraw *r, const char *text, size_t len);
/* Leaves the drawn lines on the screen; the next ones are drawn below them. */
void redraw_keep(struct redraw *r);
/* Returns how many entries of a list are scrolled past after these keys: arrows, page up
 * and down, home and end; others are ignored. top: how many of n are scrolled past now;
 * shown: how many are shown. */
size_t redraw_scroll(size_t top, size_t shown, size_t n, const char *keys, size_t len);

#endif
