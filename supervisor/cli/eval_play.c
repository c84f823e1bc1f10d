#include "supervisor/cli/eval_play.h"

static void on_result(void *ctx, const struct env_spec *spec,
                      const struct evaluation_result *result)
{
    struct eval_play *p = ctx;

    p->on_result(p, spec, result);
}

static void on_begin(void *ctx, const struct vec_env *env, size_t copy)
{
    struct eval_play *p = ctx;

    if (p->records)
        recording_begin(&p->recording, env, copy);
}

static void on_step(void *ctx, const struct vec_env *env, const struct env_step *step)
{
    recording_step(&((struct eval_play *)ctx)->recording, env, step);
}

int eval_play_check(const struct eval_play *p, const char *file, struct err *err)
{
    const struct env_config *env = &p->run.config->env;
    int rc;

    if (file == NULL)
        rc = env_check_drawable(env, err);
    else
        rc = render_check_env(file, env, err);
    if (rc < 0)
        return rc;
    return file == NULL ? render_check_machine(err) : render_check(file, err);
}

struct recording_source eval_play_source(const struct eval_play *p, const char *name,
                                         const struct env_spec *spec)
{
    return (struct recording_source){.rules = recording_rules(&p->run.config->env, spec),
                                     .spec = spec,
                                     .run = name,
                                     .step = p->run.step,
                                     .seed = p->run.seed,
                                     .is_greedy = p->run.mode == ACT_GREEDY};
}

int eval_play(struct eval_play *p, struct err *err)
{
    struct policies *policies = NULL;
    struct binaries bin;
    int rc = binaries_find(&bin, err);

    if (rc == 0)
        rc = policies_load(&policies, p->run.config, p->path, err);
    p->run.policies = policies;
    p->run.binaries = &bin;
    p->run.weights = p->weights;
    p->run.step = weights_step(p->weights);
    p->run.on_result = on_result;
    p->run.on_begin = on_begin;
    p->run.on_step = on_step;
    p->run.ctx = p;
    p->recording.is_external = env_config_is_external(&p->run.config->env);
    if (p->records && p->recording.is_external)
        p->run.copies = 1; /* the pictures are those of one copy */
    if (rc == 0)
        rc = eval_run(&p->run, err);
    p->run.policies = NULL;
    p->run.binaries = NULL;
    policies_free(policies);
    return rc;
}

void eval_play_done(struct eval_play *p)
{
    recording_done(&p->recording);
    weights_free(p->weights);
}
