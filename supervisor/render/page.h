/* page.h - an episode on a page: the world, its agents' deeds below, and what is to be
 * said about it beside. */
#ifndef SUPERVISOR_RENDER_PAGE_H
#define SUPERVISOR_RENDER_PAGE_H

#include "supervisor/render/theme.h"
#include "supervisor/render/view.h"

/* The page at frame i: agents with the last steps of their way. */
void page_draw_frame(const struct pen *p, const struct view *v, size_t i);
/* The whole episode on one page: as it ended, with every way from its beginning, what is
 * there no more, and everything that happened. */
void page_draw_whole(const struct pen *p, const struct view *v);

/* Parts of it, for page.c. */
void page_draw_world(const struct pen *p, const struct view *v, size_t i, int is_whole);
void page_draw_panel(const struct pen *p, const struct view *v, size_t i, int is_whole);

#endif
