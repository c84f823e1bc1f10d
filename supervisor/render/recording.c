#include "supervisor/render/recording.h"

#include "common/mem/xmalloc.h"

#include <inttypes.h>
#include <stdio.h>
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

void recording_begin(struct recording *r, const struct vec_env *env, size_t copy)
{
    if (vec_env_episode(env, copy) != r->number)
        return;
    r->copy = copy;
    r->is_played = 1;
    r->episode.spec = vec_env_spec(env);
    if (!r->is_external)
        episode_add(&r->episode, env, copy, NULL);
}

void recording_step(struct recording *r, const struct vec_env *env,
                    const struct env_step *step)
{
    if (!r->is_played)
        return;
    if (step->discarded[r->copy]) { /* the episode is played again, unless it failed */
        episode_done(&r->episode);
        r->episode = (struct episode){.spec = vec_env_spec(env)};
        r->is_played = !step->skipped[r->copy];
        return;
    }
    episode_add(&r->episode, env, r->copy, step->episode_return);
    r->is_played = !step->ended[r->copy];
}

int recording_is_whole(const struct recording *r)
{
    return r->episode.n_frames > 0 && !r->is_played;
}

const char *recording_rules(const struct env_config *env, const struct env_spec *spec)
{
    if (!spec->agents[0].space.particle)
        return NULL;
    return env->rules == ENV_RULES_MPE2 ? "mpe2" : "openai";
}

/* Writes the facts about the episode. */
static int describe(struct recording *r, const struct recording_source *from,
                    struct err *err)
{
    struct episode *e = &r->episode;

    if (r->is_external && (e->n_frames == 0 || e->frame[0].scene.picture.rgb == NULL))
        return err_set(
            err, ERR_UNSUPPORTED,
            "%s sent no pictures: its program does not draw; one in Python needs "
            "render_mode=\"rgb_array\"",
            from->spec->id);
    e->spec = from->spec;
    e->title = from->spec->id;
    e->number = r->number;
    e->seed = from->seed;
    (void)snprintf(r->line[0], sizeof(r->line[0]), "%s%s%s actions",
                   from->rules != NULL ? from->rules : "",
                   from->rules != NULL ? " rules, " : "",
                   from->is_greedy ? "greedy" : "stochastic");
    (void)snprintf(r->line[1], sizeof(r->line[1]), "run %s", from->run);
    (void)snprintf(r->line[2], sizeof(r->line[2]), "checkpoint of step %" PRIu64,
                   from->step);
    for (int i = 0; i < EPISODE_LINES; i++)
        e->line[i] = r->line[i];
    return 0;
}

int recording_write(struct recording *r, const struct recording_source *from,
                    const char *path, struct err *err)
{
    const int rc = describe(r, from, err);

    return rc < 0 ? rc : render_write(&r->episode, path, err);
}

int recording_bytes(struct recording *r, const struct recording_source *from,
                    enum draw_format format, struct wbuf *ret, struct err *err)
{
    const int rc = describe(r, from, err);

    return rc < 0 ? rc : render_bytes(&r->episode, format, ret, err);
}

void recording_done(struct recording *r)
{
    episode_done(&r->episode);
    *r = (struct recording){.is_external = r->is_external};
}
