#include "supervisor/rollout/evaluation.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rollout/acting.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct evaluation {
    struct evaluation_args args;
    struct vec_env *env;
    const struct env_spec *spec;
    size_t copies;
    struct description *descriptions; /* [A] */
    struct acting *acting;
    uint64_t trained_steps; /* of the run */
    int started_env;
    int steps; /* 1: a step is in progress; 0: resets are in progress */
    int is_cancelled;
    struct env_step step;
    uint8_t *ended; /* (E) ended in the current step, also by max_steps */

    uint64_t *episode; /* (E) each copy's episode; past the last one: the copy is idle */
    uint64_t *time;    /* (E) */
    uint64_t started, finished; /* finished: also the skipped ones */

    double *returns;   /* (episodes, A) */
    uint64_t *lengths; /* (episodes); 0: the episode was skipped, because it failed */
    uint64_t *numbers; /* (episodes) of those that were played */
    double *mean, *std, *se;
    double *metrics;     /* (episodes, M) */
    double *metric_mean; /* [M] */
};

static int play_step(struct evaluation *e, struct err *err);

static void evaluation_fail(void *ctx, const struct err *err)
{
    struct evaluation *e = ctx;

    e->args.on_failed(e->args.ctx, err);
}

/* ---- results ---- */

static void reduce_agent(struct evaluation *e, size_t agent, uint64_t played)
{
    size_t n_agents = e->spec->n_agents;
    double n = (double)played, sum = 0, squares = 0, mean;

    for (uint64_t k = 0; k < played; k++)
        sum += e->returns[k * n_agents + agent];
    mean = sum / n;
    for (uint64_t k = 0; k < played; k++) {
        double d = e->returns[k * n_agents + agent] - mean;
        squares += d * d;
    }
    e->mean[agent] = mean;
    e->std[agent] = played > 1 ? sqrt(squares / (n - 1)) : 0;
    e->se[agent] = e->std[agent] / sqrt(n);
}

/* Moves the results of the episodes that were played to the front; returns their number. */
static uint64_t drop_skipped(struct evaluation *e)
{
    const size_t n_agents = e->spec->n_agents;
    uint64_t n = 0;

    for (uint64_t k = 0; k < e->args.episodes; k++) {
        if (e->lengths[k] == 0)
            continue;
        memmove(e->returns + n * n_agents, e->returns + k * n_agents,
                n_agents * sizeof(*e->returns));
        memmove(e->metrics + n * e->spec->n_metrics, e->metrics + k * e->spec->n_metrics,
                e->spec->n_metrics * sizeof(*e->metrics));
        e->numbers[n] = k;
        e->lengths[n++] = e->lengths[k];
    }
    return n;
}

static int report(struct evaluation *e, struct err *err)
{
    const uint64_t played = drop_skipped(e);
    double lengths = 0;

    if (played == 0)
        return err_set(err, ERR_AGENT,
                       "evaluation: the environment failed in each of the %" PRIu64
                       " episodes",
                       e->args.episodes);
    for (size_t a = 0; a < e->spec->n_agents; a++)
        reduce_agent(e, a, played);
    for (size_t m = 0; m < e->spec->n_metrics; m++) {
        double sum = 0, n = 0;

        for (uint64_t k = 0; k < played; k++) {
            const double x = e->metrics[k * e->spec->n_metrics + m];

            sum += isnan(x) ? 0 : x;
            n += !isnan(x);
        }
        e->metric_mean[m] = n > 0 ? sum / n : (double)NAN;
    }
    for (uint64_t k = 0; k < played; k++)
        lengths += (double)e->lengths[k];
    e->args.on_done(e->args.ctx, &(struct evaluation_result){
                                     .episodes = played,
                                     .n_agents = e->spec->n_agents,
                                     .return_mean = e->mean,
                                     .return_std = e->std,
                                     .return_se = e->se,
                                     .length_mean = lengths / (double)played,
                                     .n_metrics = e->spec->n_metrics,
                                     .metrics = e->spec->metrics,
                                     .metric_mean = e->metric_mean,
                                     .episode_returns = e->returns,
                                     .episode_numbers = e->numbers,
                                 });
    return 0;
}

/* ---- playing ---- */

static int is_idle(const struct evaluation *e, size_t copy)
{
    return e->episode[copy] >= e->args.episodes;
}

/* Starts the copy's next episode. If none is left, the copy becomes idle, with an episode
 * number that no other copy has. */
static void next_episode(struct evaluation *e, size_t copy)
{
    if (e->started == e->args.episodes) {
        e->episode[copy] = UINT64_MAX - copy;
        return;
    }
    e->episode[copy] = e->started++;
    vec_env_reset_copy(e->env, copy, e->episode[copy]);
    if (e->args.on_begin != NULL)
        e->args.on_begin(e->args.ctx, e->env, copy);
}

static void take_step(struct evaluation *e)
{
    struct env_step *step = &e->step;

    for (size_t copy = 0; copy < e->copies; copy++)
        e->ended[copy] =
            step->ended[copy] || (e->args.max_steps > 0 && !step->discarded[copy] &&
                                  step->episode_length[copy] >= e->args.max_steps);
    step->ended = e->ended;
    if (e->args.on_step != NULL)
        e->args.on_step(e->args.ctx, e->env, step);
    for (size_t copy = 0; copy < e->copies; copy++) {
        const uint64_t k = e->episode[copy];

        if (is_idle(e, copy))
            continue;
        if (step->skipped[copy]) {
            e->lengths[k] = 0;
            e->finished++;
            next_episode(e, copy);
            continue;
        }
        if (step->discarded[copy]) /* play this episode again from its beginning */
            vec_env_reset_copy(e->env, copy, k);
        if (!step->ended[copy])
            continue;
        for (size_t a = 0; a < e->spec->n_agents; a++)
            e->returns[k * e->spec->n_agents + a] = step->episode_return[a][copy];
        for (size_t m = 0; m < e->spec->n_metrics; m++)
            e->metrics[k * e->spec->n_metrics + m] = step->episode_metric[m][copy];
        e->lengths[k] = step->episode_length[copy];
        e->finished++;
        next_episode(e, copy);
    }
}

/* Continues after a step or resets of the environments, which returned rc. Returns 0 or
 * an error. */
static int continue_playing(struct evaluation *e, int rc, struct err *err)
{
    if (rc == 0 && e->is_cancelled) {
        e->args.on_cancelled(e->args.ctx);
        return 0;
    }
    if (rc == 0 && e->steps) {
        e->steps = 0;
        take_step(e);
        if (e->finished == e->args.episodes) {
            return report(e, err);
        }
        rc = vec_env_make_ready(e->env, err);
    }
    if (rc == 0)
        rc = play_step(e, err);
    return rc == ENV_LATER ? 0 : rc;
}

static void on_env_ready(void *ctx)
{
    struct evaluation *e = ctx;
    struct err err = {0};

    if (continue_playing(e, 0, &err) < 0)
        evaluation_fail(e, &err);
}

static void on_acted(void *ctx)
{
    struct evaluation *e = ctx;
    struct err err = {0};
    int rc = 0;

    if (!e->is_cancelled) {
        rc = vec_env_step(e->env, acting_actions(e->acting), &e->step, &err);
        e->steps = 1;
    }
    if (continue_playing(e, rc, &err) < 0)
        evaluation_fail(e, &err);
}

static int play_step(struct evaluation *e, struct err *err)
{
    struct acting_call call = {.mode = e->args.mode,
                               .step = e->trained_steps,
                               .env = e->env,
                               .episode = e->episode,
                               .time = e->time,
                               .seed = e->args.seed};

    /* Agents act for idle copies, too. Their time advances, so that no random key is used
     * twice. */
    for (size_t copy = 0; copy < e->copies; copy++)
        e->time[copy] = is_idle(e, copy) ? e->time[copy] + 1 : vec_env_time(e->env, copy);
    return acting_begin(e->acting, &call, err);
}

int evaluation_start(struct evaluation *e, uint64_t step, struct err *err)
{
    int rc = 0;

    e->trained_steps = step;
    e->started = e->finished = 0;
    e->steps = e->is_cancelled = 0;
    for (size_t copy = 0; copy < e->copies; copy++)
        next_episode(e, copy);
    if (!e->started_env)
        rc = vec_env_start(e->env, e->args.env_host, "eval_env", err);
    e->started_env = 1;
    return rc < 0 ? rc : continue_playing(e, vec_env_make_ready(e->env, err), err);
}

void evaluation_cancel(struct evaluation *e)
{
    e->is_cancelled = 1;
}

/* ---- creating, starting, freeing ---- */

static void allocate(struct evaluation *e)
{
    size_t n = e->spec->n_agents;
    struct acting_args acting = {.agents = e->args.agents,
                                 .spec = e->spec,
                                 .descriptions = e->descriptions,
                                 .config = e->args.config,
                                 .copies = e->copies,
                                 .on_done = on_acted,
                                 .on_failed = evaluation_fail,
                                 .ctx = e};

    e->acting = acting_new(&acting);
    e->episode = xcalloc(e->copies, sizeof(*e->episode));
    e->time = xcalloc(e->copies, sizeof(*e->time));
    e->ended = xcalloc(e->copies, sizeof(*e->ended));
    e->returns = xcalloc(e->args.episodes * n, sizeof(*e->returns));
    e->lengths = xcalloc(e->args.episodes, sizeof(*e->lengths));
    e->numbers = xcalloc(e->args.episodes, sizeof(*e->numbers));
    e->metrics = xcalloc(e->args.episodes * e->spec->n_metrics + 1, sizeof(*e->metrics));
    e->metric_mean = xcalloc(e->spec->n_metrics + 1, sizeof(*e->metric_mean));
    e->mean = xcalloc(n, sizeof(*e->mean));
    e->std = xcalloc(n, sizeof(*e->std));
    e->se = xcalloc(n, sizeof(*e->se));
}

int evaluation_new(struct evaluation **ret, const struct evaluation_args *args,
                   struct err *err)
{
    struct evaluation *e;
    int rc;

    if (args->episodes == 0 || args->episodes > EVALUATION_MAX_EPISODES)
        return err_set(err, ERR_LIMIT, "the number of episodes must be 1 to %u",
                       EVALUATION_MAX_EPISODES);
    e = xcalloc(1, sizeof(*e));
    e->args = *args;
    e->copies = args->copies != 0 ? args->copies : (size_t)args->env->copies;
    if (e->copies > args->episodes)
        e->copies = args->episodes;
    rc =
        vec_env_new(&e->env, args->env, args->seed, ENV_DRAWS_EVALUATION, e->copies, err);
    if (rc == 0) {
        e->spec = vec_env_spec(e->env);
        CHECK(agent_table_count(e->args.agents) >= e->spec->n_agents);
        e->descriptions = xcalloc(e->spec->n_agents, sizeof(*e->descriptions));
        for (size_t a = 0; a < e->spec->n_agents && rc == 0; a++)
            rc = description_parse(&e->descriptions[a],
                                   &agent_table_description(e->args.agents, a)->body,
                                   e->spec->agents[a].name, err);
    }
    if (rc < 0) {
        evaluation_free(e);
        return rc;
    }
    allocate(e);
    vec_env_on_ready(e->env, on_env_ready, e);
    *ret = e;
    return 0;
}

void evaluation_free(struct evaluation *e)
{
    if (e == NULL)
        return;
    acting_free(e->acting);
    vec_env_free(e->env);
    free(e->descriptions);
    free(e->episode);
    free(e->time);
    free(e->ended);
    free(e->returns);
    free(e->lengths);
    free(e->numbers);
    free(e->metrics);
    free(e->metric_mean);
    free(e->mean);
    free(e->std);
    free(e->se);
    free(e);
}
