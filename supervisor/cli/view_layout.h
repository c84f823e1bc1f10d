/* view_layout.h - lays out the view of a run (live_view.h) as lines of text. No I/O.
 *
 * Rows     At most `rows` - 1 lines, so that the line below them, where the cursor is, is
 *          free. If the agents need more, those that do not work are shown first, from the
 *          `top`th on, and a last line counts the others: "+180 more: 178 busy, 2 restarting".
 * Columns  Lines are cut at `columns`, and columns that do not fit are left out: name, state
 *          and return remain.
 * Text     Escape sequences only for colour; all other control characters are escaped.
 */
#ifndef SUPERVISOR_CLI_VIEW_LAYOUT_H
#define SUPERVISOR_CLI_VIEW_LAYOUT_H

#include "common/wire/cursor.h"
#include "supervisor/events/run_status.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* An agent's newest numbers; NaN: not known. */
struct view_numbers {
    double episode_return, critic_loss, actor_loss;
};

/* The newest evaluations of a team, the oldest first. */
enum { VIEW_CURVE_POINTS = 16 };
struct view_curve {
    char *team;
    double value[VIEW_CURVE_POINTS];
    size_t n;
};

struct view_frame {
    const struct run_status *status;
    const struct view_numbers *(*numbers)(void *ctx, const char *agent);
    void *ctx;
    const struct view_curve *curve;
    size_t n_curves;
    int columns, rows; /* of the terminal; rows 0: no limit */
    int colour, utf8;
    int is_over; /* nothing is left to wait for */
    size_t top;  /* how many agents are scrolled past */
};

/* ---- lines, for other views, too ---- */

#define VIEW_GREY  "\033[90m"
#define VIEW_GREEN "\033[32m"
#define VIEW_BOLD  "\033[1m"
#define VIEW_PLAIN "\033[0m"

/* A line that is being written; it is cut where the buffer is full. */
struct view_line {
    char p[1024];
    size_t len;
};
void view_put(struct view_line *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Puts a bar of width characters and two spaces; nothing if width is below 4, or part
 * below 0. part: 0 to 1. */
enum { VIEW_BAR_MAX = 40 };
void view_put_bar(struct view_line *l, double part, int width, int with_colour, int utf8);
/* Appends the line, cut after `columns` characters. Colours do not count. */
void view_put_line(struct wbuf *ret, const struct view_line *l, int columns);

/* ---- the view ---- */

/* Appends the lines to *ret, and returns how many; *ret_shown: how many agents have one. */
int view_layout(const struct view_frame *f, struct wbuf *ret, size_t *ret_shown);
/* How many characters a line has, without its colours. */
int view_width(const char *text, size_t len);
/* Prints the text in a column of that width, in characters; one that is wider is shortened: at its end
 * or, if that tells it from others, in the middle. */
enum view_column { VIEW_LEFT, VIEW_RIGHT, VIEW_NAME };
void view_print_cell(FILE *f, const char *text, int width, enum view_column column);
/* How many rows the lines take on a terminal that is narrower than they are and has
 * wrapped them. */
int view_rows_taken(const char *text, size_t len, int columns);

/* "  42 %  262,400 of 625,000 steps  12,400/s  0:29 left", as wide as there is room
 * (columns 0 or less: no limit). Returns ret. */
const char *view_facts(const struct run_status *s, int is_over, int columns, char *ret,
                       size_t size);
/* "1:02:03" or "0:29", from two days on "12 days", and "more than a year"; returns buf. */
const char *format_duration(double seconds, char *buf, size_t size);
/* "625,000"; returns buf. */
const char *format_count(uint64_t n, char *buf, size_t size);

/* The few characters that draw: those of Unicode, or ASCII where the locale is not UTF-8. */

/* Whether LC_ALL, LC_CTYPE or LANG (the first that is not empty) names UTF-8. The locale need
 * not be installed: the terminal may be on another machine. */
int glyphs_are_utf8(void);

/* One of GLYPH_LEVELS heights, part from 0 to 1; NaN: the lowest. */
enum { GLYPH_LEVELS = 8 };
const char *glyph_level(int utf8, double part);

#endif
