#include "supervisor/render/recording.h"

#include <inttypes.h>
#include <stdio.h>

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
        return err_set(err, ERR_UNSUPPORTED,
                       "%s sent no pictures: its program does not draw (env_protocol.h)",
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
