/* html_page.h - writes a page that is one file: it loads nothing, has no script, and follows
 * the reader's choice of light or dark, and the width of the screen.
 *
 * Policy   The page's Content-Security-Policy allows styles that are in the file and images
 *          that are data: URIs, and nothing else.
 * Text     Everything that comes from a run is written by html_text (or svg_escaped): it can
 *          be neither tag nor attribute, and control characters are visible (plain_text.h).
 * Values   Attributes are constants and numbers only; ids are the caller's, and unique.
 * Errors   those of the stream; the caller checks it.
 */
#ifndef SUPERVISOR_CLI_HTML_PAGE_H
#define SUPERVISOR_CLI_HTML_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

void html_begin(const char *title, FILE *f);
/* The line that names the program, and the end of the page. */
void html_end(FILE *f);

/* Text between tags. */
void html_text(const char *text, FILE *f);
void html_printf(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An element with that text: <tag>text</tag>. */
void html_element(const char *tag, const char *text, FILE *f);

/* <section id="id"><h2>title</h2>; the caller ends it with "</section>". id NULL: none. */
void html_section(const char *id, const char *title, FILE *f);
/* A paragraph in the colour of remarks. */
void html_remark(FILE *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A cell of a table with a number, "-" for NaN. */
void html_cell(double v, FILE *f);
/* "low to high" */
void html_interval(double low, double high, FILE *f);
void html_cell_count(uint64_t n, FILE *f);
/* Opens a table in a box that scrolls sideways. heads: those of its columns; one that
 * begins with '#' is that of a column of numbers; if all are empty, there is no row of
 * heads. End it with html_table_end. */
enum html_width { HTML_WIDE, HTML_NARROW };
void html_table(const char *const *heads, size_t n, enum html_width width, FILE *f);
void html_table_end(FILE *f);
/* A fold with the whole text in it; title is constant. */
void html_fold(const char *title, const char *text, size_t len, FILE *f);

/* An image as a data: URI. type: "image/gif"; alt is escaped. */
void html_image(const char *type, const void *bytes, size_t len, const char *alt,
                FILE *f);
/* A sample of svg_colour(i) with its name. */
void html_legend(size_t i, const char *name, FILE *f);

/* "2026-01-31 12:00:00" of a time as the journal has it, "-" without one. */
void html_time(const char *time, FILE *f);

#endif
