#include "supervisor/cli/redraw.h"

#include "common/io/write_all.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/view_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DEFAULT_COLUMNS = 80, DEFAULT_ROWS = 24 };

static const char CLEAR_LINE[] = "\033[K", CLEAR_REST[] = "\033[J";

void redraw_init(struct redraw *r, int fd)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    *r = (struct redraw){.fd = fd, .utf8 = glyphs_are_utf8()};
    r->terminal = isatty(fd) && term != NULL && strcmp(term, "dumb") != 0;
    r->colour = r->terminal && (no_colour == NULL || *no_colour == '\0');
}

void redraw_done(struct redraw *r)
{
    wbuf_done(&r->shown);
}

/* Writes the text and `end` at once. Ignores errors: they mean that the reader has
 * exited. */
static void write_plain(int fd, const char *p, size_t len, const char *end)
{
    char shown[2048 * PLAIN_TEXT_GROWTH + 8];
    size_t n = plain_text(shown, sizeof(shown) - 8, p, len);

    (void)memcpy(shown + n, end, strlen(end));
    (void)write_all(fd, shown, n + strlen(end));
}

static void window_size(int fd, int *ret_columns, int *ret_rows)
{
    struct winsize w;

    *ret_columns = DEFAULT_COLUMNS;
    *ret_rows = DEFAULT_ROWS;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 && w.ws_row > 0) {
        *ret_columns = w.ws_col;
        *ret_rows = w.ws_row;
    }
}

int redraw_columns(int fd)
{
    int columns = 0, rows;

    if (isatty(fd))
        window_size(fd, &columns, &rows);
    return columns;
}

/* Moves the cursor to the beginning of the drawn lines. If the terminal has echoed a
 * Ctrl-C, the cursor is after "^C". */
static void go_up(struct redraw *r)
{
    char head[32];
    int columns, rows, up = r->lines;

    window_size(r->fd, &columns, &rows);
    if (up > 0 && columns < r->columns)
        up = view_rows_taken((const char *)r->shown.data, r->shown.len, columns);
    if (up > 0 && rows > r->rows && r->scrolled_off > 0) {
        const int back =
            rows - r->rows < r->scrolled_off ? rows - r->rows : r->scrolled_off;

        up += back;
        r->scrolled_off -= back;
    }
    if (up > rows - 1) {
        r->scrolled_off += up - (rows - 1);
        up = rows - 1;
    }
    r->columns = columns;
    r->rows = rows;
    r->lines = 0;
    (void)snprintf(head, sizeof(head), up > 0 ? "\r\033[%dA" : "\r", up);
    (void)write_all(r->fd, head, strlen(head));
}

struct wbuf *redraw_begin(struct redraw *r)
{
    go_up(r);
    wbuf_clear(&r->shown);
    return &r->shown;
}

/* Draws over the lines below the cursor, one by one, and clears the rest. Clearing all
 * of them first would flicker, and tmux stores a screen that is cleared from its first
 * row in its history. */
void redraw_show(struct redraw *r, int lines)
{
    struct wbuf out = {0};

    r->lines = lines;
    for (size_t at = 0, len; at < r->shown.len; at += len) {
        const uint8_t *line = r->shown.data + at;

        len = (size_t)((const uint8_t *)memchr(line, '\n', r->shown.len - at) + 1 - line);
        wbuf_bytes(&out, CLEAR_LINE, strlen(CLEAR_LINE));
        wbuf_bytes(&out, line, len);
    }
    wbuf_bytes(&out, CLEAR_REST, strlen(CLEAR_REST));
    (void)write_all(r->fd, out.data, out.len);
    wbuf_done(&out);
}

void redraw_message(struct redraw *r, const char *text, size_t len)
{
    if (!r->terminal) {
        write_plain(r->fd, text, len, "\n");
        return;
    }
    go_up(r);
    /* After text that fills its last line, the cursor is still on the last character. */
    write_plain(r->fd, text, len,
                view_width(text, len) % r->columns != 0 ? "\033[J\n" : "\n\033[J");
    r->scrolled_off = 0; /* the line above is the message now */
}

void redraw_keep(struct redraw *r)
{
    r->lines = 0;
}

/* ---- keys ---- */

/* How far a key scrolls; 0: another key. *ret_len: its bytes. */
static long scroll_of(long page, long all, const char *p, size_t n, size_t *ret_len)
{
    const struct {
        const char *bytes;
        long by;
    } keys[] = {{"\033[A", -1},     {"\033OA", -1},    {"\033[B", 1},    {"\033OB", 1},
                {"\033[5~", -page}, {"\033[6~", page}, {"\033[H", -all}, {"\033OH", -all},
                {"\033[F", all},    {"\033OF", all}};

    *ret_len = 1;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const size_t len = strlen(keys[i].bytes);

        if (len <= n && memcmp(p, keys[i].bytes, len) == 0) {
            *ret_len = len;
            return keys[i].by;
        }
    }
    return 0;
}

size_t redraw_scroll(size_t top, size_t shown, size_t n, const char *keys, size_t len)
{
    const long max = n > shown ? (long)(n - shown) : 0;
    long at = (long)top;
    size_t used;

    for (size_t i = 0; i < len; i += used) {
        at +=
            scroll_of(shown > 1 ? (long)shown - 1 : 1, (long)n, keys + i, len - i, &used);
        at = at < 0 ? 0 : at > max ? max : at;
    }
    return (size_t)at;
}
