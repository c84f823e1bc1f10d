#include "supervisor/env/particle_world.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* Describes a particle world as a scene. Ids are the entities' numbers. */

static const double ARENA_HALF = 1.1; /* a reset places everything within 1 */
static const double CONTACT_SIZE = 0.04;
static const int FRAME_MS = 120;

static enum scene_kind kind_of(const struct particle_world *w, size_t entity)
{
    if (w->entities[entity].look != SCENE_UNSAID)
        return w->entities[entity].look;
    return entity < w->n_agents ? SCENE_AGENT : SCENE_LANDMARK;
}

static struct scene_thing *add_entity(const struct particle_world *w, size_t copy,
                                      size_t entity, enum scene_kind kind,
                                      struct scene *ret)
{
    return scene_add(ret, kind, particle_pos(w, entity, 0)[copy],
                     particle_pos(w, entity, 1)[copy], w->entities[entity].size);
}

/* Labels an agent with its number in the team; the only agent of a team with its
 * initial. */
static void label_agent(const struct particle_world *w, size_t agent,
                        struct scene_thing *t)
{
    const struct env_agent *me = &w->agents[agent];
    size_t size = 0;

    for (size_t a = 0; a < w->n_agents; a++)
        size += strcmp(w->agents[a].team, me->team) == 0;
    if (size == 1)
        scene_label(t, "%c", toupper((unsigned char)me->team[0]));
    else
        scene_label(t, "%s", me->name + strlen(me->team) + 1);
}

/* Lets the scenario change what was added last, or remove it. */
static void dress(const struct particle_world *w, size_t copy, size_t entity,
                  struct scene *ret)
{
    if (w->scenario->draw != NULL &&
        !w->scenario->draw(w, copy, entity, ret, &ret->thing[ret->n_things - 1]))
        ret->n_things--;
}

static void draw_agents(const struct particle_world *w, size_t copy, struct scene *ret)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        struct scene_thing *t = add_entity(w, copy, a, kind_of(w, a), ret);

        t->id = t->agent = (int32_t)a;
        label_agent(w, a, t);
        dress(w, copy, a, ret);
    }
}

/* Landmarks are numbered if the scenario has goals, which refer to them. */
static void draw_landmarks(const struct particle_world *w, size_t copy, struct scene *ret)
{
    for (size_t e = w->n_agents; e < particle_n_entities(w); e++) {
        struct scene_thing *t = add_entity(w, copy, e, kind_of(w, e), ret);

        t->id = (int32_t)e;
        if (w->n_goals > 0)
            scene_label(t, "%zu", e - w->n_agents);
        dress(w, copy, e, ret);
    }
}

static void draw_goals(const struct particle_world *w, size_t copy, struct scene *ret)
{
    const struct particle_goal *goal = w->scenario->goals;

    for (size_t i = 0; i < w->n_goals; i++) {
        size_t landmark = w->n_agents + (size_t)particle_goal(w, i)[copy];
        struct scene_thing *t = add_entity(w, copy, landmark, SCENE_GOAL, ret);

        t->id = (int32_t)(particle_n_entities(w) + i);
        t->agent = goal[i].agent;
        t->value = (double)i;
        scene_label(t, "%s", goal[i].name);
    }
    ret->name[SCENE_GOAL] = w->scenario->goals_are;
}

static void draw_contact(const struct particle_world *w, size_t copy,
                         const struct particle_pair *p, struct scene *ret)
{
    double x = particle_pos(w, p->a, 0)[copy], y = particle_pos(w, p->a, 1)[copy];
    double dx = particle_pos(w, p->b, 0)[copy] - x;
    double dy = particle_pos(w, p->b, 1)[copy] - y;
    double reach = particle_reach(w, p->a, p->b);
    double part = w->entities[p->a].size / reach;

    if (sqrt(dx * dx + dy * dy) < reach && ret->n_things < SCENE_MAX_THINGS)
        (void)scene_add(ret, SCENE_CONTACT, x + part * dx, y + part * dy, CONTACT_SIZE);
}

/* Each agent's action: the word with the largest value, the first of equals. */
static void draw_speech(const struct particle_world *w, size_t copy, struct scene *ret)
{
    for (size_t a = 0; a < w->n_agents; a++) {
        double loudness;
        size_t word = 0;

        if (w->entities[a].silent || w->dim_c == 0)
            continue;
        ret->verb = "says";
        for (size_t i = 1; i < w->dim_c; i++) {
            if (particle_comm(w, a, i)[copy] > particle_comm(w, a, word)[copy])
                word = i;
        }
        loudness = particle_comm(w, a, word)[copy];
        if (loudness > 0.0)
            scene_set_action(ret, a, fmin(loudness, 1.0), "%zu", word);
    }
}

void particle_world_draw(const struct particle_world *w, size_t copy, struct scene *ret)
{
    ret->x0 = ret->y0 = -ARENA_HALF;
    ret->x1 = ret->y1 = ARENA_HALF;
    ret->frame_ms = FRAME_MS;
    draw_landmarks(w, copy, ret);
    draw_goals(w, copy, ret);
    if (w->places != NULL)
        particle_places_draw(w, copy, ret);
    draw_agents(w, copy, ret);
    for (size_t p = 0; p < w->n_pairs; p++)
        draw_contact(w, copy, &w->pairs[p], ret);
    draw_speech(w, copy, ret);
}
