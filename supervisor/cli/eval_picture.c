#include "supervisor/cli/eval_picture.h"

#include <stdio.h>
#include <string.h>

int eval_picture_check(const struct eval_picture *p, const struct env_config *env,
                       struct err *err)
{
    const int rc = env_check_drawable(env, err);
    const char *end;

    if (rc == 0 && p->path == NULL)
        return render_check_machine(err);
    if (rc < 0 || !env_config_is_external(env))
        return rc < 0 ? rc : render_check(p->path, err);
    end = strrchr(p->path, '.');
    if (end != NULL && (strcmp(end, ".svg") == 0 || strcmp(end, ".jsonl") == 0))
        return err_set(err, ERR_ARG,
                       "%s: expected .gif: an environment's own pictures are animated",
                       p->path);
    return render_check(p->path, err);
}

void eval_picture_begin(struct eval_picture *p, const struct vec_env *env, size_t copy)
{
    if (!p->is_wanted || vec_env_episode(env, copy) != p->number)
        return;
    p->copy = copy;
    p->is_played = 1;
    p->episode.spec = vec_env_spec(env);
    if (!p->is_external) /* its first picture comes with the first step */
        episode_add(&p->episode, env, copy, NULL);
}

void eval_picture_step(struct eval_picture *p, const struct vec_env *env,
                       const struct env_step *step)
{
    if (!p->is_played)
        return;
    episode_add(&p->episode, env, p->copy, step->episode_return);
    p->is_played = !step->ended[p->copy];
}

/* Writes what stands beside the episode. */
static int describe(struct eval_picture *p, const struct eval_args *args,
                    const char *rules, const struct env_spec *spec, struct err *err)
{
    struct episode *e = &p->episode;

    if (p->is_external && (e->n_frames == 0 || e->frame[0].scene.picture.rgb == NULL))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s sent no pictures: its program does not draw (env_protocol.h)",
                       spec->id);
    e->spec = spec;
    e->title = spec->id;
    e->number = p->number;
    e->seed = args->seed;
    (void)snprintf(p->line[0], sizeof(p->line[0]), "%s%s%s actions",
                   rules != NULL ? rules : "", rules != NULL ? " rules, " : "",
                   args->mode == ACT_GREEDY ? "greedy" : "stochastic");
    (void)snprintf(p->line[1], sizeof(p->line[1]), "run %s", p->run);
    (void)snprintf(p->line[2], sizeof(p->line[2]), "checkpoint of step %llu",
                   (unsigned long long)args->step);
    for (int i = 0; i < EPISODE_LINES; i++)
        e->line[i] = p->line[i];
    return 0;
}

int eval_picture_write(struct eval_picture *p, const struct eval_args *args,
                       const char *rules, const struct env_spec *spec, struct err *err)
{
    const int rc = describe(p, args, rules, spec, err);

    return rc < 0 ? rc : render_write(&p->episode, p->path, err);
}

int eval_picture_bytes(struct eval_picture *p, const struct eval_args *args,
                       const char *rules, const struct env_spec *spec,
                       enum draw_format format, struct wbuf *ret, struct err *err)
{
    const int rc = describe(p, args, rules, spec, err);

    return rc < 0 ? rc : render_bytes(&p->episode, format, ret, err);
}

void eval_picture_done(struct eval_picture *p)
{
    episode_done(&p->episode);
}
