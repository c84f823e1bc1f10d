/* view.h - the layout of an episode's page, and its agents' colours.
 *
 * One view is used for all frames of an episode, so that nothing jumps between frames.
 * Units    pixels, y down; scale: pixels per unit of the world.
 */
#ifndef SUPERVISOR_RENDER_VIEW_H
#define SUPERVISOR_RENDER_VIEW_H

#include "supervisor/render/episode.h"

struct view_agent {
    uint32_t rgb;
    enum scene_kind kind; /* SCENE_UNSAID: the agent has no place in the world */
    int has_actions;      /* it has an action to show in some frame */
    const char *text;     /* written on the agent; "": none */
    int is_moving;        /* its place changes during the episode */
};

struct view {
    const struct episode *episode; /* borrowed; at least one frame */
    struct view_agent *agent;      /* [A] */
    size_t *team_first;            /* [teams] the first agent of each */
    size_t n_teams;
    int is_present[SCENE_KIND_COUNT]; /* in some frame */
    int is_tiled;                     /* the world consists of cells */
    int is_moving;                    /* some agent moves */
    enum scene_kind gone; /* a kind of which things disappear during the episode */

    double width, height;        /* of the page */
    double x, y, side;           /* the square in which the world is drawn */
    double scale;                /* pixels per unit of the world */
    double world_x, world_y;     /* where the world's origin is on the page */
    double strip_y;              /* top of the strip of actions; 0: none */
    size_t strip_rows;           /* agents in the strip */
    double strip_cell;           /* width of one action */
    double panel_x, panel_width; /* the panel beside the world */
};

enum {
    VIEW_MAX_ROWS = 12,      /* agents with a line of their own in the panel */
    VIEW_MAX_STRIP_ROWS = 8, /* agents in the strip of actions */
    VIEW_ROW = 20,
    VIEW_STRIP_ROW = 19,
    VIEW_STRIP_LEFT = 26, /* space before the first action */
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

int view_is_agent(enum scene_kind kind);
/* The thing with that id in a scene, or NULL. near: the index to try first. */
const struct scene_thing *view_find(const struct scene *s, int32_t id, size_t near);
/* Whether this thing of the first frame is missing in the last one. */
int view_is_gone(const struct view *v, const struct scene_thing *t, size_t near);

/* The number of agents with a line of their own in the panel; the others share one. */
size_t view_agent_rows(const struct view *v);
/* Whether a return of each team is written below those of the agents. */
int view_has_team_rows(const struct view *v);
size_t view_legend_rows(const struct view *v, int is_whole);
/* The offset in pixels of an agent's track, so that tracks through the same cells are
 * drawn side by side. */
double view_track_offset(const struct view *v, int32_t agent);

#endif
