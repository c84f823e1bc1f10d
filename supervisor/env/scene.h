/* scene.h - a description of one copy of a world, for drawing.
 *
 * A scene is a list of things and every agent's last action. The kind of a thing says
 * what it means and which shape it has; supervisor/render chooses colours, scale and
 * fonts.
 * Units    the world's own: x to the right, y up. Worlds without places (payoff tables)
 *          use the cell as unit.
 * Owns     its two lists; scene_clear keeps their memory for the next scene.
 */
#ifndef SUPERVISOR_ENV_SCENE_H
#define SUPERVISOR_ENV_SCENE_H

#include <stddef.h>
#include <stdint.h>

/* In drawing order: later kinds cover earlier ones. */
enum scene_kind {
    SCENE_UNSAID, /* only in a world's own tables: use the default; never in a scene */
    SCENE_FOREST, /* hides agents inside */
    SCENE_OBSTACLE,
    SCENE_CELL,   /* a cell of a payoff table; value 0 to 1 is its shade */
    SCENE_HEADER, /* an action beside a payoff table; value 1 if it was chosen */
    SCENE_CHOSEN, /* frame around the cell of the joint action */
    SCENE_FOOD,
    SCENE_LANDMARK,
    SCENE_GOAL,    /* ring around what an agent has to reach */
    SCENE_SPEAKER, /* an agent that cannot move */
    SCENE_AGENT,
    SCENE_ADVERSARY,
    SCENE_LEADER,  /* of adversaries */
    SCENE_LOADING, /* around an agent that loads food */
    SCENE_CONTACT, /* where two things touch */
    SCENE_KIND_COUNT
};

struct scene_thing {
    enum scene_kind kind;
    int32_t id;    /* identifies the thing across an episode; -1: only in this scene */
    int32_t agent; /* the agent that it is or belongs to; -1: none */
    double x, y;   /* centre */
    double size;   /* radius, or half the side */
    double value;  /* see scene_kind */
    char text[24]; /* written on it or beside it; longer texts are cut */
};

/* An agent's last action as a letter or two; "": nothing to show. */
struct scene_action {
    char text[8];
    double strength; /* 0 to 1 */
};

struct scene_picture {
    size_t width, height;
    const uint8_t *rgb; /* (height, width, 3); borrowed */
};

#define SCENE_MAX_THINGS 8192 /* contacts beyond it are left out */

struct scene {             /* all-zero is empty */
    double x0, y0, x1, y1; /* the area to draw; extended to things outside it */
    int is_grid;           /* the world consists of cells of side 1 */
    int frame_ms;          /* duration of the frame in an animation */
    const char *verb; /* for a caption of the actions: "says", "plays", "does"; static */
    const char *action_key; /* explains the actions' letters; NULL: no need to; static */
    /* This world's names for kinds, in the legend; NULL: the default; static. */
    const char *name[SCENE_KIND_COUNT];
    struct scene_thing *thing;
    size_t n_things, room;
    struct scene_action *action; /* [A] */
    size_t n_actions;
    /* An external environment's own picture, instead of things; rgb NULL: none. */
    struct scene_picture picture;
};

/* Empties the scene and makes room for the actions of n_agents agents. */
void scene_clear(struct scene *s, size_t n_agents);
void scene_done(struct scene *s);
/* Adds a thing without id, agent, value and text; valid until the next scene_add. */
struct scene_thing *scene_add(struct scene *s, enum scene_kind kind, double x, double y,
                              double size);
void scene_label(struct scene_thing *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void scene_set_action(struct scene *s, size_t agent, double strength, const char *fmt,
                      ...) __attribute__((format(printf, 4, 5)));

#endif
