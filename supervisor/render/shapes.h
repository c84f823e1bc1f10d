/* shapes.h - the shape and colours of each kind of thing. */
#ifndef SUPERVISOR_RENDER_SHAPES_H
#define SUPERVISOR_RENDER_SHAPES_H

#include "supervisor/env/scene.h"
#include "supervisor/render/theme.h"

struct shape {
    enum scene_kind kind;
    double x, y, r;   /* pixels: its centre, and radius or half the side */
    uint32_t rgb;     /* the agent's; of kinds that have a colour of their own unread */
    int has_agent;    /* rgb is one's */
    double value;     /* as the thing's */
    const char *text; /* NULL or "": none */
    int is_pale;      /* an agent's: lines over it stay to be seen */
};

/* The radius that a thing of that size is drawn with: at least what can be seen. */
double shape_radius(enum scene_kind kind, double r);
void shape_draw(const struct pen *p, const struct shape *s);
/* What is written on an agent, legible over all that is there. */
void shape_write(const struct pen *p, const struct shape *s);
/* The edge alone of what agents can stand on, so that it is seen over them; of other
 * kinds nothing. */
void shape_draw_edge(const struct pen *p, const struct shape *s);
/* Of the ring around what is to be reached; what is written on a goal is left to others. */
double shape_goal_radius(const struct shape *s);
/* What the kind is called, where the world has no name for it. */
const char *shape_name(enum scene_kind kind);

#endif
