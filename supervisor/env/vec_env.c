#include "common/err/check.h"
#include "common/mem/copy_short.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/tensor/tensor.h"
#include "supervisor/env/vec_env_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COPIES = 65536 };

static const size_t MAX_BYTES = (size_t)2 << 30;
static const size_t MAX_SEEN = (size_t)1 << 24; /* numbers, as agents take them */

/* Start */

#define DEFINE_PER_AGENT(name, type)                                                     \
    type **name(struct vec_env *v, size_t n)                                             \
    {                                                                                    \
        type **rows = ARENA_ARRAY(&v->arena, type *, v->spec.n_agents);                  \
                                                                                         \
        for (size_t a = 0; a < v->spec.n_agents; a++)                                    \
            rows[a] = ARENA_ARRAY(&v->arena, type, n);                                   \
        return rows;                                                                     \
    }
DEFINE_PER_AGENT(vec_env_doubles, double)
DEFINE_PER_AGENT(vec_env_bytes, uint8_t)

double **vec_env_metric_rows(struct vec_env *v)
{
    double **rows = ARENA_ARRAY(&v->arena, double *, v->spec.n_metrics);

    for (size_t m = 0; m < v->spec.n_metrics; m++)
        rows[m] = ARENA_ARRAY(&v->arena, double, v->n_copies);
    return rows;
}

static void allocate_metrics(struct vec_env *v)
{
    const struct env_metric *known = env_metrics(v->class->info.id);

    v->metric = vec_env_metric_rows(v);
    v->metric_sum = vec_env_metric_rows(v);
    v->metric_count = vec_env_metric_rows(v);
    v->episode_metric = vec_env_metric_rows(v);
    v->measures = ARENA_ARRAY(&v->arena, size_t, v->spec.n_metrics);
    v->at_end = ARENA_ARRAY(&v->arena, uint8_t, v->spec.n_metrics);
    for (size_t m = 0; known != NULL && m < v->spec.n_metrics; m++) {
        size_t i = 0;

        while (strcmp(known[i].name, v->spec.metrics[m]) != 0)
            i++;
        v->measures[m] = i;
        v->at_end[m] = known[i].at_end != 0;
    }
}

size_t vec_env_past_bytes(const struct vec_env *v, size_t agent)
{
    return v->n_copies * (env_stack(&v->spec) - 1) *
           env_obs_bytes(&v->spec.agents[agent]);
}

char **vec_env_past_rows(struct vec_env *v)
{
    char **rows = ARENA_ARRAY(&v->arena, char *, v->spec.n_agents);

    for (size_t a = 0; a < v->spec.n_agents; a++)
        rows[a] = ARENA_ARRAY(&v->arena, char, vec_env_past_bytes(v, a));
    return rows;
}

static void allocate_stack(struct vec_env *v)
{
    size_t most = 0;

    if (env_stack(&v->spec) == 1)
        return;
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const size_t bytes =
            env_seen_width(&v->spec, a) * dtype_size(env_obs_dtype(&v->spec.agents[a]));

        most = bytes > most ? bytes : most;
    }
    v->past = vec_env_past_rows(v);
    v->seen =
        (char *)ARENA_ARRAY(&v->arena, double, v->n_copies *most / sizeof(double) + 1);
}

static uint8_t **masks(struct vec_env *v)
{
    uint8_t **rows = ARENA_ARRAY(&v->arena, uint8_t *, v->spec.n_agents);

    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const size_t bytes = v->n_copies * (size_t)v->spec.agents[a].space.width;

        rows[a] = ARENA_ARRAY(&v->arena, uint8_t, bytes);
        memset(rows[a], 1, bytes);
    }
    return rows;
}

static float **observations(struct vec_env *v)
{
    float **rows = ARENA_ARRAY(&v->arena, float *, v->spec.n_agents);

    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const size_t bytes = v->n_copies * env_obs_bytes(&v->spec.agents[a]);

        rows[a] =
            ARENA_ARRAY(&v->arena, float, (bytes + sizeof(float) - 1) / sizeof(float));
    }
    return rows;
}

/* Refuses what cannot be stacked or clipped. */
static int check_seen(const struct vec_env *v, const struct env_config *config,
                      struct err *err)
{
    const size_t asked = config->copies > 0 ? (size_t)config->copies : 1;
    const size_t copies = v->n_copies > asked ? v->n_copies : asked;

    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const struct env_agent *agent = &v->spec.agents[a];
        const size_t bytes = copies * env_stack(&v->spec) * env_obs_bytes(agent);

        if (v->spec.clip_observations > 0 && env_has_bytes(agent))
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.clip_observations"),
                              "is for numbers, but %s observes bytes", agent->name);
        if (v->spec.stack > 1 &&
            (env_seen_width(&v->spec, a) > MAX_SEEN || bytes > FRAME_MAX_BYTES / 2))
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.stack"),
                              "%d observations of %s, of %d numbers each, in %zu copies "
                              "are too many for a message",
                              v->spec.stack, agent->name, (int)agent->obs_width, copies);
    }
    return 0;
}

/* Refuses an environment that would take too much memory. Nearly all of it is two buffers
 * of observations and, if these are floats, as many scratch rows of doubles; and with
 * env.stack what was observed before. */
static int check_size(const struct vec_env *v, struct err *err)
{
    size_t bytes = 0;

    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const struct env_agent *agent = &v->spec.agents[a];

        bytes += env_obs_bytes(agent);
        if (v->spec.stack > 1)
            bytes += env_obs_bytes(agent) * env_stack(&v->spec);
        if (!agent->obs_is_u8)
            bytes += (size_t)agent->obs_width * sizeof(double);
        if (v->spec.masks)
            bytes += (size_t)agent->space.width;
    }
    bytes *= v->n_copies * 2;
    if (bytes > MAX_BYTES)
        return err_set(err, ERR_LIMIT,
                       "%zu copies of %zu agents: %s take %zu MiB, more than "
                       "%zu MiB; lower env.copies or env.params",
                       v->n_copies, v->spec.n_agents,
                       v->spec.masks ? "observations and masks" : "observations",
                       bytes >> 20, MAX_BYTES >> 20);
    return 0;
}

static void allocate(struct vec_env *v)
{
    struct arena *arena = &v->arena;
    size_t n = v->n_copies;

    v->keys = ARENA_ARRAY(arena, struct rng_key, n);
    v->team = ARENA_ARRAY(arena, size_t, v->spec.n_agents);
    v->episode = ARENA_ARRAY(arena, uint64_t, n);
    v->time = ARENA_ARRAY(arena, uint64_t, n);
    v->waiting = ARENA_ARRAY(arena, uint8_t, n);
    v->left = vec_env_bytes(v, n);
    v->total_return = vec_env_doubles(v, n);
    v->obs_buffers[0] = observations(v);
    v->obs_buffers[1] = observations(v);
    v->obs = v->obs_buffers[0];
    v->next_obs = v->obs_buffers[1];
    v->allowed = v->spec.masks ? masks(v) : NULL;
    v->next_allowed = v->spec.masks ? masks(v) : NULL;
    v->own = vec_env_doubles(v, n);
    v->reward = v->sharing == ENV_REWARD_OWN ? v->own : vec_env_doubles(v, n);
    v->terminated = vec_env_bytes(v, n);
    v->alive = vec_env_bytes(v, n);
    v->truncated = ARENA_ARRAY(arena, uint8_t, n);
    v->first = ARENA_ARRAY(arena, uint8_t, n);
    v->ended = ARENA_ARRAY(arena, uint8_t, n);
    v->discarded = ARENA_ARRAY(arena, uint8_t, n);
    v->skipped = ARENA_ARRAY(arena, uint8_t, n);
    v->episode_return = vec_env_doubles(v, n);
    v->episode_length = ARENA_ARRAY(arena, uint64_t, n);
    allocate_metrics(v);
    allocate_stack(v);
}

static int set_up(struct vec_env *v, const struct env_config *config, uint64_t seed,
                  struct err *err)
{
    char name[32];
    const void *params;
    int rc = env_class_describe(v->class, config, &v->arena, &params, &v->spec, err);

    v->spec.copies = v->n_copies;
    v->spec.stack = (int32_t)config->stack;
    v->spec.clip_observations = config->clip_observations;
    v->spec.clip_rewards = config->clip_rewards;
    if (rc == 0)
        rc = check_seen(v, config, err);
    if (rc == 0)
        rc = check_size(v, err);
    if (rc < 0)
        return rc;
    if (config->max_steps > 0)
        v->spec.max_steps = config->max_steps;
    allocate(v);
    for (size_t c = 0; c < v->n_copies; c++) {
        (void)snprintf(name, sizeof(name), "env/%zu", c);
        v->keys[c] = rng_key_make(
            seed, v->draws == ENV_DRAWS_EVALUATION ? "evaluation" : name, "reset");
    }
    for (size_t a = 0; a < v->spec.n_agents; a++)
        v->team[a] = env_team_of(&v->spec, a);
    memset(v->waiting, 1, v->n_copies);
    return v->driver->open(v, config, params, err);
}

int vec_env_new(struct vec_env **ret, const struct env_config *config, uint64_t seed,
                enum env_draws draws, size_t copies, struct err *err)
{
    const struct env_class *class = env_class_find(config->id);
    struct vec_env *v;
    int rc;

    if (class == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "there is no environment '%s'", config->id);
        return env_info_add_nearest(config->id, err);
    }
    if (copies == 0)
        copies = (size_t)config->copies;
    if (copies < 1 || copies > MAX_COPIES)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.copies"),
                          "expected 1 to %d", MAX_COPIES);
    v = xcalloc(1, sizeof(*v));
    v->class = class;
    v->driver = class->ops->open != NULL ? &local_driver : &external_driver;
    v->n_copies = copies;
    v->draws = draws;
    v->sharing = config->reward;
    rc = set_up(v, config, seed, err);
    if (rc < 0)
        vec_env_free(v);
    else
        *ret = v;
    return rc;
}

void vec_env_free(struct vec_env *v)
{
    if (v == NULL)
        return;
    if (v->driver->close != NULL)
        v->driver->close(v);
    arena_done(&v->arena);
    free(v);
}

const struct env_spec *vec_env_spec(const struct vec_env *v)
{
    return &v->spec;
}

size_t vec_env_copies(const struct vec_env *v)
{
    return v->n_copies;
}

const float *vec_env_obs(const struct vec_env *v, size_t agent)
{
    return v->obs[agent];
}

const uint8_t *vec_env_allowed(const struct vec_env *v, size_t agent)
{
    return v->allowed != NULL ? v->allowed[agent] : NULL;
}

uint64_t vec_env_episode(const struct vec_env *v, size_t copy)
{
    return v->episode[copy];
}

uint64_t vec_env_time(const struct vec_env *v, size_t copy)
{
    return v->time[copy];
}

/* Episodes */

void vec_env_begin_episode(struct vec_env *v, size_t copy, uint64_t episode)
{
    const struct env_episode e = {
        v->keys[copy], episode,
        v->draws == ENV_DRAWS_EVALUATION ? episode : episode * v->n_copies + copy};

    v->episode[copy] = episode;
    v->time[copy] = 0;
    v->waiting[copy] = 0;
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        v->left[a][copy] = 0;
        v->total_return[a][copy] = 0.0;
    }
    for (size_t m = 0; m < v->spec.n_metrics; m++)
        v->metric_sum[m][copy] = v->metric_count[m][copy] = 0.0;
    v->class->ops->reset(v->world, copy, &e);
}

static void vec_env_observe(struct vec_env *v, size_t first, size_t n)
{
    if (v->driver->observe != NULL)
        v->driver->observe(v, first, n);
}

float **vec_env_other_buffer(const struct vec_env *v, float *const *obs)
{
    return v->obs_buffers[obs == v->obs_buffers[0]];
}

void vec_env_keep_obs(struct vec_env *v, size_t first, size_t n)
{
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const size_t bytes = env_obs_bytes(&v->spec.agents[a]);

        memcpy((char *)v->obs[a] + first * bytes, (char *)v->next_obs[a] + first * bytes,
               n * bytes);
    }
}

void vec_env_split_obs(struct vec_env *v)
{
    if (v->obs != v->next_obs)
        return;
    v->obs = vec_env_other_buffer(v, v->next_obs);
    vec_env_keep_obs(v, 0, v->n_copies);
}

void vec_env_reset_copy(struct vec_env *v, size_t copy, uint64_t episode)
{
    CHECK(copy < v->n_copies, "copy %zu of %zu", copy, v->n_copies);
    vec_env_split_obs(v);
    vec_env_begin_episode(v, copy, episode);
    vec_env_observe(v, copy, 1);
}

void vec_env_reset(struct vec_env *v)
{
    vec_env_split_obs(v);
    for (size_t c = 0; c < v->n_copies; c++)
        vec_env_begin_episode(v, c, v->draws == ENV_DRAWS_EVALUATION ? c : 0);
    vec_env_observe(v, 0, v->n_copies);
}

/* Stacks of observations */

void vec_env_keep_past(struct vec_env *v)
{
    const size_t n = env_stack(&v->spec) - 1;

    for (size_t a = 0; n > 0 && a < v->spec.n_agents; a++) {
        const size_t bytes = env_obs_bytes(&v->spec.agents[a]);
        const char *obs = (const char *)v->obs[a];
        char *past = v->past[a];

        for (size_t c = 0; c < v->n_copies; c++, past += n * bytes, obs += bytes) {
            if (v->time[c] > 0)
                memmove(past, past + bytes, (n - 1) * bytes);
            for (size_t k = v->time[c] > 0 ? n - 1 : 0; k < n; k++)
                memcpy(past + k * bytes, obs, bytes);
        }
    }
}

/* Puts observation k of `stack` where agents see it: `together` bytes of it side by side. */
static void put_seen(char *seen, const char *obs, size_t bytes, size_t k, size_t stack,
                     size_t together)
{
    seen += k * together;
    for (size_t i = 0; i < bytes; i += together, seen += stack * together)
        copy_short(seen, obs + i, together);
}

const float *vec_env_seen(const struct vec_env *v, size_t agent)
{
    const struct env_agent *who = &v->spec.agents[agent];
    const size_t bytes = env_obs_bytes(who), stack = env_stack(&v->spec);
    const size_t together = env_together(who) * dtype_size(env_obs_dtype(who));

    if (stack == 1)
        return v->obs[agent];
    for (size_t c = 0; c < v->n_copies; c++) {
        const char *now = (const char *)v->obs[agent] + c * bytes;
        const char *past = v->past[agent] + c * (stack - 1) * bytes;

        for (size_t k = 0; k < stack; k++)
            put_seen(v->seen + c * stack * bytes,
                     v->time[c] > 0 && k + 1 < stack ? past + k * bytes : now, bytes, k,
                     stack, together);
    }
    return (const float *)(const void *)v->seen;
}

/* Step */

uint64_t vec_env_step_limit(const struct vec_env *v)
{
    return v->spec.max_steps > 0 ? (uint64_t)v->spec.max_steps : UINT64_MAX;
}

static void end_copies(size_t n, uint64_t limit, const uint8_t *restrict waiting,
                       const uint8_t *restrict discarded, uint64_t *restrict time,
                       uint8_t *restrict first, uint8_t *restrict ended,
                       uint8_t *restrict truncated)
{
    for (size_t c = 0; c < n; c++) {
        uint8_t on = !waiting[c] & !discarded[c];
        uint8_t cut = ended[c] & truncated[c];

        first[c] = on & (time[c] == 0);
        time[c] += on;
        cut |= !ended[c] & (time[c] >= limit);
        ended[c] = on & (ended[c] | cut);
        truncated[c] = (on & cut) | discarded[c];
    }
}

/* Adds what the step has of each metric to the episodes that it is part of. */
static void count_metrics(struct vec_env *v)
{
    for (size_t m = 0; m < v->spec.n_metrics; m++) {
        double *sum = v->metric_sum[m], *count = v->metric_count[m];

        for (size_t c = 0; c < v->n_copies; c++) {
            const double x = v->metric[m][c];

            if (!isnan(x) && !v->waiting[c] && !v->discarded[c]) {
                sum[c] = v->at_end[m] ? x : sum[c] + x;
                count[c] = v->at_end[m] ? 1.0 : count[c] + 1.0;
            }
            v->episode_metric[m][c] = count[c] > 0 ? sum[c] / count[c] : (double)NAN;
        }
    }
}

void vec_env_end_copies(struct vec_env *v)
{
    count_metrics(v);
    end_copies(v->n_copies, vec_env_step_limit(v), v->waiting, v->discarded, v->time,
               v->first, v->ended, v->truncated);
    memcpy(v->episode_length, v->time, v->n_copies * sizeof(v->time[0]));
}

/* Adds up a team's rewards in the row of its first agent, in the order of agents. */
static void share_rewards(struct vec_env *v)
{
    size_t n_agents = v->spec.n_agents, n = v->n_copies, row = n * sizeof(double);

    for (size_t a = 0; a < n_agents; a++) {
        double size = 0.0;

        if (v->team[a] != a) {
            memcpy(v->reward[a], v->reward[v->team[a]], row);
            continue;
        }
        memset(v->reward[a], 0, row);
        for (size_t b = a; b < n_agents; b++) {
            if (v->team[b] == a) {
                vec_env_add_row(v->reward[a], v->own[b], n);
                size++;
            }
        }
        for (size_t c = 0; v->sharing == ENV_REWARD_TEAM_MEAN && c < n; c++)
            v->reward[a][c] /= size;
    }
}

void vec_env_begin_ended(struct vec_env *v)
{
    for (size_t c = 0; c < v->n_copies; c++) {
        if (!(v->ended[c] | v->discarded[c]))
            continue;
        if (v->draws == ENV_DRAWS_TRAINING) {
            vec_env_begin_episode(v, c, v->episode[c] + 1);
            continue;
        }
        v->waiting[c] = 1;
        if (v->driver->end_episode != NULL)
            v->driver->end_episode(v, c);
    }
}

static void fill_results(const struct vec_env *v, struct env_step *ret)
{
    *ret = (struct env_step){
        .next_obs = (const float *const *)v->next_obs,
        .next_allowed = (const uint8_t *const *)v->next_allowed,
        .reward = (const double *const *)v->reward,
        .terminated = (const uint8_t *const *)v->terminated,
        .alive = (const uint8_t *const *)v->alive,
        .truncated = v->truncated,
        .first = v->first,
        .ended = v->ended,
        .discarded = v->discarded,
        .skipped = v->skipped,
        .episode_return = (const double *const *)v->episode_return,
        .episode_length = v->episode_length,
        .episode_metric = (const double *const *)v->episode_metric,
    };
}

void vec_env_conclude(struct vec_env *v, struct env_step *ret)
{
    if (v->sharing != ENV_REWARD_OWN)
        share_rewards(v);
    v->driver->go_on(v);
    fill_results(v, ret);
}

int vec_env_step(struct vec_env *v, const float *const *actions, struct env_step *ret,
                 struct err *err)
{
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const size_t width = (size_t)v->spec.agents[a].space.width;
        size_t i = 0;

        if (tensor_finite_f32(actions[a], v->n_copies * width))
            continue;
        while (isfinite(actions[a][i]))
            i++;
        return err_set(err, ERR_NONFINITE, "action of %s for copy %zu: entry %zu is %g",
                       v->spec.agents[a].name, i / width, i % width,
                       (double)actions[a][i]);
    }
    return v->driver->step(v, actions, ret, err);
}

int vec_env_start(struct vec_env *v, struct env_host *host, const char *name,
                  struct err *err)
{
    return v->driver->start != NULL ? v->driver->start(v, host, name, err) : 0;
}

int vec_env_make_ready(struct vec_env *v, struct err *err)
{
    return v->driver->make_ready != NULL ? v->driver->make_ready(v, err) : 0;
}

void vec_env_draw(const struct vec_env *v, size_t copy, struct scene *ret)
{
    CHECK(copy < v->n_copies, "copy %zu of %zu", copy, v->n_copies);
    scene_clear(ret, v->spec.n_agents);
    CHECK(v->class->ops->draw != NULL, "%s cannot be drawn", v->spec.id);
    v->class->ops->draw(v->world, copy, ret);
}
