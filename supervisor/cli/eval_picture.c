#include "supervisor/cli/eval_picture.h"

#include "supervisor/render/render.h"

#include <stdio.h>

int eval_picture_check(const struct eval_picture *p, const struct env_config *env,
                       struct err *err)
{
    int rc = render_check(p->path, err);

    return rc < 0 ? rc : env_check_drawable(env, err);
}

void eval_picture_begin(struct eval_picture *p, const struct vec_env *env, size_t copy)
{
    if (p->path == NULL || vec_env_episode(env, copy) != p->number)
        return;
    p->copy = copy;
    p->is_played = 1;
    p->episode.spec = vec_env_spec(env);
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

int eval_picture_write(struct eval_picture *p, const struct eval_args *args,
                       const char *rules, const struct env_spec *spec, struct err *err)
{
    struct episode *e = &p->episode;

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
    return render_write(e, p->path, err);
}

void eval_picture_done(struct eval_picture *p)
{
    episode_done(&p->episode);
}
