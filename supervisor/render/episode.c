#include "supervisor/render/episode.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>

void episode_add(struct episode *e, const struct vec_env *env, size_t copy,
                 const double *const *returns)
{
    const struct scene *s = &e->scratch;
    struct episode_frame *f;
    size_t bytes;

    vec_env_draw(env, copy, &e->scratch);
    bytes = s->n_things * sizeof(*s->thing) +
            s->n_actions * (sizeof(*s->action) + sizeof(double)) +
            s->picture.width * s->picture.height * 3;
    if (e->n_frames == EPISODE_MAX_FRAMES || bytes > EPISODE_MAX_BYTES - e->kept_bytes) {
        e->is_cut = 1;
        return;
    }
    e->kept_bytes += bytes;
    ARRAY_GROW(e->frame, e->n_frames, e->room);
    f = &e->frame[e->n_frames++];
    f->scene = *s;
    f->scene.thing = arena_memdup(&e->arena, s->thing, s->n_things * sizeof(*s->thing));
    f->scene.action =
        arena_memdup(&e->arena, s->action, s->n_actions * sizeof(*s->action));
    if (s->picture.rgb != NULL)
        f->scene.picture.rgb = arena_memdup(&e->arena, s->picture.rgb,
                                            3 * s->picture.width * s->picture.height);
    f->returns = ARENA_ARRAY(&e->arena, double, e->spec->n_agents);
    for (size_t a = 0; returns != NULL && a < e->spec->n_agents; a++)
        f->returns[a] = returns[a][copy];
}

void episode_done(struct episode *e)
{
    free(e->frame);
    scene_done(&e->scratch);
    arena_done(&e->arena);
}
