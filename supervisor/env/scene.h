/* scene.h - what one copy of a world looks like, as data.
 *
 * A scene is a list of things, each of a kind (which tells its shape and meaning), and
 * what every agent did last. Whoever draws decides on colours, scale and letters.
 * Units    the world's own: x to the right, y up. Worlds without places (games that are
 *          tables) lay themselves out in units of a cell.
 * Owns     its two lists: scene_clear keeps their memory for the next scene.
 */
#ifndef SUPERVISOR_ENV_SCENE_H
#define SUPERVISOR_ENV_SCENE_H

#include <stddef.h>
#include <stdint.h>

/* In the order in which they cover each other. */
enum scene_kind {
    SCENE_UNSAID, /* in a world's own tables: what it is by default; never in a scene */
    SCENE_FOREST, /* hides who is in it */
    SCENE_OBSTACLE,
    SCENE_CELL,   /* of a table: a square; value 0 to 1 is its shade */
    SCENE_HEADER, /* an action beside a table: value 1 where it was chosen */
    SCENE_CHOSEN, /* the frame of a cell: the joint action */
    SCENE_FOOD,
    SCENE_LANDMARK,
    SCENE_GOAL,    /* around what is to be reached */
    SCENE_SPEAKER, /* an agent that cannot move */
    SCENE_AGENT,
    SCENE_ADVERSARY,
    SCENE_LEADER,  /* of adversaries */
    SCENE_LOADING, /* around an agent */
    SCENE_CONTACT, /* where two touch */
    SCENE_KIND_COUNT
};

struct scene_thing {
    enum scene_kind kind;
    int32_t id;    /* the same thing in every scene of an episode; -1: only in this one */
    int32_t agent; /* which agent it is, or belongs to; -1: none */
    double x, y;   /* centre */
    double size;   /* radius, or half the side */
    double value;
    char text[24]; /* written on it, or beside it; cut where it is longer */
};

/* What an agent's last action was, in a letter or two; "": nothing worth showing. */
struct scene_deed {
    char text[8];
    double strength; /* 0 to 1 */
};

#define SCENE_MAX_THINGS 8192 /* contacts beyond it are left out */

struct scene {             /* all-zero is empty */
    double x0, y0, x1, y1; /* is seen in any case; what lies beyond may be, too */
    int is_grid;           /* cells end at whole numbers */
    int frame_ms;          /* how long it is looked at */
    const char *deeds;     /* what deeds are: "says", "plays", "does"; static */
    const char *deeds_key; /* what their letters mean; NULL: what they say; static */
    /* What a kind is called here, where not by its own name; static. */
    const char *name[SCENE_KIND_COUNT];
    struct scene_thing *thing;
    size_t n_things, room;
    struct scene_deed *deed; /* [A] */
    size_t n_deeds;
};

/* Empties it, for a world of so many agents. */
void scene_clear(struct scene *s, size_t n_agents);
void scene_done(struct scene *s);
/* A new thing without id, agent, value and text: valid until the next one. */
struct scene_thing *scene_add(struct scene *s, enum scene_kind kind, double x, double y,
                              double size);
void scene_label(struct scene_thing *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void scene_did(struct scene *s, size_t agent, double strength, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#endif
