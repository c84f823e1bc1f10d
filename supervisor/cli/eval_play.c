#include "supervisor/cli/eval_play.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

const char *eval_rules_name(const struct run_config *c, const struct env_spec *spec)
{
    if (!spec->agents[0].space.particle)
        return NULL;
    return c->env.rules == ENV_RULES_MPE2 ? "mpe2" : "openai";
}

const char *eval_run_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void on_result(void *ctx, const struct env_spec *spec,
                      const struct evaluation_result *result)
{
    struct eval_play *p = ctx;

    p->on_result(p, spec, result);
}

static void on_begin(void *ctx, const struct vec_env *env, size_t copy)
{
    eval_picture_begin(&((struct eval_play *)ctx)->picture, env, copy);
}

static void on_step(void *ctx, const struct vec_env *env, const struct env_step *step)
{
    eval_picture_step(&((struct eval_play *)ctx)->picture, env, step);
}

int eval_play(struct eval_play *p, struct err *err)
{
    char *checkpoints = xasprintf("%s/checkpoints", p->path);
    struct policies *policies = NULL;
    struct binaries bin;
    int rc = binaries_find(&bin, err);

    if (rc == 0)
        rc = policies_load(&policies, p->run.config, p->path, err);
    p->run.policies = policies;
    p->run.binaries = &bin;
    p->run.checkpoints = checkpoints;
    p->run.on_result = on_result;
    p->run.on_begin = on_begin;
    p->run.on_step = on_step;
    p->run.ctx = p;
    if (p->picture.is_external)
        p->run.copies = 1; /* whose pictures they are */
    if (rc == 0)
        rc = eval_run(&p->run, err);
    p->run.policies = NULL;
    p->run.binaries = NULL;
    p->run.checkpoints = NULL;
    policies_free(policies);
    free(checkpoints);
    return rc;
}

void eval_play_done(struct eval_play *p)
{
    eval_picture_done(&p->picture);
}
