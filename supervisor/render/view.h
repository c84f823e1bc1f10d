/* view.h - where things of an episode are on a page, and in which colours.
 *
 * One view serves all frames of an episode: nothing jumps from frame to frame.
 * Units    pixels, y down; scale is pixels for a unit of the world.
 */
#ifndef SUPERVISOR_RENDER_VIEW_H
#define SUPERVISOR_RENDER_VIEW_H

#include "supervisor/render/episode.h"

struct view_agent {
    uint32_t rgb;
    enum scene_kind kind; /* SCENE_UNSAID: it has no place in the world */
    int has_deeds;        /* somewhere in the episode */
    const char *text;     /* written on it; "" */
    int is_moving;        /* it is not always where it was at the beginning */
};

struct view {
    const struct episode *episode; /* borrowed; at least one frame */
    struct view_agent *agent;      /* [A] */
    size_t *team_first;            /* [teams] the first agent of each */
    size_t n_teams;
    int is_present[SCENE_KIND_COUNT]; /* somewhere in the episode */
    int is_tiled;                     /* made of cells */
    int is_moving;                    /* an agent is */
    enum scene_kind gone; /* a kind of things that are there at the beginning alone */

    double width, height;        /* of the page */
    double x, y, side;           /* the square that the world is shown in */
    double scale;                /* world to page: */
    double world_x, world_y;     /* where the world's 0, 0 is */
    double strip_y;              /* top of the deeds; 0: there are none */
    size_t strip_rows;           /* agents whose deeds are shown */
    double strip_cell;           /* width of one */
    double panel_x, panel_width; /* what is written beside the world */
};

enum {
    VIEW_MAX_ROWS = 12,      /* agents with a line of their own */
    VIEW_MAX_STRIP_ROWS = 8, /* agents whose deeds are shown */
    VIEW_ROW = 20,
    VIEW_STRIP_ROW = 19,
    VIEW_STRIP_LEFT = 26, /* before the first deed */
};

void view_init(struct view *v, const struct episode *e);
void view_done(struct view *v);

static inline double view_x(const struct view *v, double x)
{
    return v->world_x + x * v->scale;
}
static inline double view_y(const struct view *v, double y)
{
    return v->world_y - y * v->scale;
}

/* The thing of that id in a scene, NULL if it is not there. near: where in the list it
 * may be. */
const struct scene_thing *view_find(const struct scene *s, int32_t id, size_t near);
/* The thing of the first frame is not there in the last one. */
int view_is_gone(const struct view *v, const struct scene_thing *t, size_t near);

/* The lines of agents that are written out; the others share one. */
size_t view_agent_rows(const struct view *v);
/* Whether a return of each team is written below those of the agents. */
int view_has_team_rows(const struct view *v);
size_t view_legend_rows(const struct view *v, int is_whole);
/* Tracks of agents that share cells stand side by side: how far off, in pixels. */
double view_track_offset(const struct view *v, int32_t agent);

#endif
