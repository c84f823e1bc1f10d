/* page.h - draws an episode on a page: the world, the agents' actions below it, and a
 * panel with texts and the legend beside it. */
#ifndef SUPERVISOR_RENDER_PAGE_H
#define SUPERVISOR_RENDER_PAGE_H

#include "supervisor/render/theme.h"
#include "supervisor/render/view.h"

/* Draws frame i: agents with the last steps of their tracks. */
void page_draw_frame(const struct pen *p, const struct view *v, size_t i);
/* Draws the whole episode on one page: the last frame, every agent's track from the
 * beginning, the things that have disappeared, and all actions. */
void page_draw_whole(const struct pen *p, const struct view *v);

/* Draws the frame's world, for page.c. */
void page_draw_world(const struct pen *p, const struct view *v, size_t i, int is_whole);

#endif
