#include "supervisor/cli/eval_play.h"

#include <math.h>

static void on_recorded(void *ctx, const struct env_spec *spec,
                        const struct evaluation_result *result)
{
    struct eval_play *p = ctx;

    if (p->on_recorded != NULL)
        p->on_recorded(p, spec);
}

/* The number of the episode that is picked; of equal ones the first. */
static uint64_t pick(enum eval_pick how, const struct env_spec *spec,
                     const struct evaluation_result *r)
{
    const double sign = how == EVAL_PICK_BEST ? 1 : -1;
    double most = -(double)INFINITY;
    uint64_t ret = r->episode_numbers[0];

    for (uint64_t k = 0; k < r->episodes; k++) {
        const double value =
            sign * env_team_mean(spec, 0, r->episode_returns + k * r->n_agents);

        if (value > most) {
            most = value;
            ret = r->episode_numbers[k];
        }
    }
    return ret;
}

static void on_result(void *ctx, const struct env_spec *spec,
                      const struct evaluation_result *result)
{
    struct eval_play *p = ctx;

    p->on_result(p, spec, result);
    if (p->pick != EVAL_PICK_NUMBER)
        p->recording.number = pick(p->pick, spec, result);
    else if (p->records)
        on_recorded(p, spec, result);
}

static void on_begin(void *ctx, const struct vec_env *env, size_t copy)
{
    recording_begin(&((struct eval_play *)ctx)->recording, env, copy);
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

/* Plays episodes, and records the one of recording.number. */
static int record(struct eval_play *p, struct eval_args run, struct err *err)
{
    p->recording.is_external = env_config_is_external(&run.config->env);
    if (p->recording.is_external)
        run.copies = 1; /* the pictures are those of one copy */
    run.on_begin = on_begin;
    run.on_step = on_step;
    return eval_run(&run, err);
}

/* Plays the first episodes again, up to the one that is picked. */
static int play_picked(struct eval_play *p, struct err *err)
{
    struct eval_args again = p->run;

    again.episodes = p->recording.number + 1;
    again.on_result = on_recorded;
    return record(p, again, err);
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
    p->run.ctx = p;
    if (rc == 0 && p->records && p->pick == EVAL_PICK_NUMBER)
        rc = record(p, p->run, err);
    else if (rc == 0)
        rc = eval_run(&p->run, err);
    if (rc == 0 && p->pick != EVAL_PICK_NUMBER)
        rc = play_picked(p, err);
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
