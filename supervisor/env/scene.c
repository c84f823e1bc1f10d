#include "supervisor/env/scene.h"

#include "common/mem/xmalloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void scene_clear(struct scene *s, size_t n_agents)
{
    struct scene_thing *thing = s->thing;
    size_t room = s->room;
    struct scene_action *action = xreallocarray(s->action, n_agents, sizeof(*action));

    memset(action, 0, n_agents * sizeof(*action));
    *s = (struct scene){
        .thing = thing, .room = room, .action = action, .n_actions = n_agents};
}

void scene_done(struct scene *s)
{
    free(s->thing);
    free(s->action);
    *s = (struct scene){0};
}

struct scene_thing *scene_add(struct scene *s, enum scene_kind kind, double x, double y,
                              double size)
{
    struct scene_thing *t;

    ARRAY_GROW(s->thing, s->n_things, s->room);
    t = &s->thing[s->n_things++];
    *t = (struct scene_thing){
        .kind = kind, .id = -1, .agent = -1, .x = x, .y = y, .size = size};
    return t;
}

void scene_label(struct scene_thing *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(t->text, sizeof(t->text), fmt, ap);
    va_end(ap);
}

void scene_set_action(struct scene *s, size_t agent, double strength, const char *fmt,
                      ...)
{
    struct scene_action *d = &s->action[agent];
    va_list ap;

    d->strength = strength;
    va_start(ap, fmt);
    (void)vsnprintf(d->text, sizeof(d->text), fmt, ap);
    va_end(ap);
}
