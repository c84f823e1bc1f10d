/* shapes.h - draws each kind of thing in its shape and colours. */
#ifndef SUPERVISOR_RENDER_SHAPES_H
#define SUPERVISOR_RENDER_SHAPES_H

#include "supervisor/env/scene.h"
#include "supervisor/render/theme.h"

struct shape {
    enum scene_kind kind;
    double x, y, r;   /* pixels: the centre, and the radius or half the side */
    uint32_t rgb;     /* the agent's colour; ignored by kinds that have their own */
    int has_agent;    /* the thing is an agent or belongs to one; rgb is that agent's */
    double value;     /* scene_thing.value */
    const char *text; /* NULL or "": none */
    int is_pale;      /* an agent drawn pale, so that tracks over it stay visible */
};

/* The radius in pixels to draw with: r, but at least the smallest visible one. */
double shape_radius(enum scene_kind kind, double r);
void shape_draw(const struct pen *p, const struct shape *s);
/* Writes an agent's text so that it is legible over all other drawing. */
void shape_write(const struct pen *p, const struct shape *s);
/* Draws only the edge of a thing that agents can stand on, so that it is visible over
 * them; does nothing for other kinds. */
void shape_draw_edge(const struct pen *p, const struct shape *s);
/* The radius of the ring that marks a goal. Callers write the goal's text themselves. */
double shape_goal_radius(const struct shape *s);
/* The default name of a kind in the legend. */
const char *shape_name(enum scene_kind kind);

#endif
