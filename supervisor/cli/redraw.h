/* redraw.h - a few lines at the foot of a terminal that are redrawn in place, below messages
 * that stay; for the view of a run and that of a study.
 *
 * Wrapping  Terminals wrap lines again when they become narrower, and take rows from above
 *           when they become lower, which come back when they become higher.
 * Owns      nothing but the text that it shows; the descriptor is borrowed.
 */
#ifndef SUPERVISOR_CLI_REDRAW_H
#define SUPERVISOR_CLI_REDRAW_H

#include "common/wire/cursor.h"

#include <stddef.h>

struct redraw {
    int fd;
    int terminal;      /* whether it is one that can redraw */
    int colour, utf8;  /* whether to use them; NO_COLOR is obeyed */
    int columns, rows; /* of the terminal, as of redraw_begin */
    int lines;         /* that are drawn now; 0: none */

    struct wbuf shown; /* private from here on: the lines, kept for redrawing */
    int scrolled_off;  /* rows of earlier views that a lower terminal pushed out above */
};

void redraw_init(struct redraw *r, int fd);
void redraw_done(struct redraw *r); /* what is drawn stays */
/* Moves the cursor to the first line, looks how large the terminal is, and returns an empty
 * buffer for the new lines. */
struct wbuf *redraw_begin(struct redraw *r);
/* Draws the buffer's lines. */
void redraw_show(struct redraw *r, int lines);
/* Prints one line where the lines are drawn; the caller draws them again below. On what is no
 * terminal, just prints it. */
void redraw_message(struct redraw *r, const char *text, size_t len);
/* What is drawn stays, and the next is drawn below it. */
void redraw_keep(struct redraw *r);
/* Where a list is after these keys: arrows, page up and down, home and end; others are
 * ignored. top: how many of n entries are scrolled past now; shown: how many are shown. */
size_t redraw_scroll(size_t top, size_t shown, size_t n, const char *keys, size_t len);

#endif
