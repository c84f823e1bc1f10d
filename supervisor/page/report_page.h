/* report_page.h - the page as one document that loads nothing (embed.py), in pieces. Between
 * them go its title, its facts as JSON (page/net.js) in which no '<' stands, and what is seen
 * without a script; title and the latter are HTML. */
#ifndef SUPERVISOR_PAGE_REPORT_PAGE_H
#define SUPERVISOR_PAGE_REPORT_PAGE_H

enum { REPORT_PAGE_PIECES = 4 };
extern const char *const report_page[REPORT_PAGE_PIECES];

#endif
