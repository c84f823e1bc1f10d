#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/tensor.h"
#include "supervisor/env/env_class.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COPIES = 65536, STATE_MAGIC = 0x42524556, STATE_VERSION = 1 };

static const size_t MAX_BYTES = (size_t)2 << 30;

struct vec_env {
    struct arena arena; /* everything below, and this struct's arrays */
    const struct env_class *class;
    void *world;
    struct env_spec spec;
    size_t n_copies;
    enum env_draws draws;
    enum env_reward sharing;
    struct rng_key *keys; /* (E); evaluation: all equal */
    size_t *team;         /* [A]: first agent of the same team */

    /* State, apart from the world's. */
    uint64_t *episode;     /* (E) */
    uint64_t *time;        /* (E) */
    uint8_t *waiting;      /* (E): for its first or, evaluating, its next episode */
    uint8_t **left;        /* [A] (E): the agent's task was over before */
    double **total_return; /* [A] (E) */

    float **obs; /* [A] (E, O_a) */

    /* Results of the last step; see env_step. */
    float **next_obs;
    double **own, **reward; /* the environment's, and as shared */
    uint8_t **terminated, **alive;
    uint8_t *truncated, *first, *ended;
    double **episode_return;
    uint64_t *episode_length;
};

/* Start */

#define DEFINE_PER_AGENT(name, type)                                                     \
    static type **name(struct vec_env *v, size_t n)                                      \
    {                                                                                    \
        type **rows = ARENA_ARRAY(&v->arena, type *, v->spec.n_agents);                  \
                                                                                         \
        for (size_t a = 0; a < v->spec.n_agents; a++)                                    \
            rows[a] = ARENA_ARRAY(&v->arena, type, n);                                   \
        return rows;                                                                     \
    }
DEFINE_PER_AGENT(doubles_per_agent, double)
DEFINE_PER_AGENT(bytes_per_agent, uint8_t)

static float **observations(struct vec_env *v)
{
    float **rows = ARENA_ARRAY(&v->arena, float *, v->spec.n_agents);

    for (size_t a = 0; a < v->spec.n_agents; a++)
        rows[a] = ARENA_ARRAY(&v->arena, float,
                              v->n_copies *(size_t)v->spec.agents[a].obs_width);
    return rows;
}

/* Refuses what would take unreasonable memory: two observations and a scratch row of
 * doubles are nearly all of it. */
static int check_size(const struct vec_env *v, struct err *err)
{
    size_t width = 0, bytes;

    for (size_t a = 0; a < v->spec.n_agents; a++)
        width += (size_t)v->spec.agents[a].obs_width;
    bytes = width * v->n_copies * 2 * (sizeof(float) + sizeof(double));
    if (bytes > MAX_BYTES)
        return err_set(err, ERR_LIMIT,
                       "%zu copies of %zu agents: observations take %zu MiB, more than "
                       "%zu MiB; lower env.copies or env.params",
                       v->n_copies, v->spec.n_agents, bytes >> 20, MAX_BYTES >> 20);
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
    v->left = bytes_per_agent(v, n);
    v->total_return = doubles_per_agent(v, n);
    v->obs = observations(v);
    v->next_obs = observations(v);
    v->own = doubles_per_agent(v, n);
    v->reward = v->sharing == ENV_REWARD_OWN ? v->own : doubles_per_agent(v, n);
    v->terminated = bytes_per_agent(v, n);
    v->alive = bytes_per_agent(v, n);
    v->truncated = ARENA_ARRAY(arena, uint8_t, n);
    v->first = ARENA_ARRAY(arena, uint8_t, n);
    v->ended = ARENA_ARRAY(arena, uint8_t, n);
    v->episode_return = doubles_per_agent(v, n);
    v->episode_length = ARENA_ARRAY(arena, uint64_t, n);
}

static void make_keys(struct vec_env *v, uint64_t seed)
{
    char name[32];

    for (size_t c = 0; c < v->n_copies; c++) {
        (void)snprintf(name, sizeof(name), "env/%zu", c);
        v->keys[c] = rng_key_make(
            seed, v->draws == ENV_DRAWS_EVALUATION ? "evaluation" : name, "reset");
    }
}

static void find_teams(struct vec_env *v)
{
    for (size_t a = 0; a < v->spec.n_agents; a++)
        v->team[a] = env_team_of(&v->spec, a);
}

static int set_up(struct vec_env *v, const struct env_config *config, uint64_t seed,
                  struct err *err)
{
    const void *params;
    int rc = env_class_describe(v->class, config, &v->arena, &params, &v->spec, err);

    if (rc == 0)
        rc = check_size(v, err);
    if (rc < 0)
        return rc;
    (void)snprintf(v->spec.id, sizeof(v->spec.id), "%s", v->class->info.id);
    v->spec.max_steps = config->max_steps;
    allocate(v);
    make_keys(v, seed);
    find_teams(v);
    v->world = v->class->ops->open(v->class, config, params, v->n_copies, &v->arena);
    memset(v->waiting, 1, v->n_copies);
    return 0;
}

int vec_env_new(struct vec_env **ret, const struct env_config *config, uint64_t seed,
                enum env_draws draws, size_t copies, struct err *err)
{
    const struct env_class *class = env_class_find(config->id);
    struct vec_env *v;
    int rc;

    if (class == NULL)
        return err_set(err, ERR_NOT_FOUND, "there is no environment '%s'", config->id);
    if (copies == 0)
        copies = (size_t)config->copies;
    if (copies < 1 || copies > MAX_COPIES)
        return err_set(err, ERR_CONFIG, "env.copies: expected 1 to %d", MAX_COPIES);
    v = xcalloc(1, sizeof(*v));
    v->class = class;
    v->n_copies = copies;
    v->draws = draws;
    v->sharing = config->reward;
    rc = set_up(v, config, seed, err);
    if (rc < 0) {
        vec_env_free(v);
        return rc;
    }
    *ret = v;
    return 0;
}

void vec_env_free(struct vec_env *v)
{
    if (v == NULL)
        return;
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

uint64_t vec_env_episode(const struct vec_env *v, size_t copy)
{
    return v->episode[copy];
}

uint64_t vec_env_time(const struct vec_env *v, size_t copy)
{
    return v->time[copy];
}

/* Episodes */

/* Everything of a new episode but its observations. */
static void begin_episode(struct vec_env *v, size_t copy, uint64_t episode)
{
    v->episode[copy] = episode;
    v->time[copy] = 0;
    v->waiting[copy] = 0;
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        v->left[a][copy] = 0;
        v->total_return[a][copy] = 0.0;
    }
    v->class->ops->reset(v->world, copy,
                         &(struct env_episode){v->keys[copy], episode,
                                               v->draws == ENV_DRAWS_EVALUATION
                                                   ? episode
                                                   : episode * v->n_copies + copy});
}

void vec_env_reset_copy(struct vec_env *v, size_t copy, uint64_t episode)
{
    CHECK(copy < v->n_copies, "copy %zu of %zu", copy, v->n_copies);
    begin_episode(v, copy, episode);
    v->class->ops->observe(v->world, copy, 1, v->obs);
}

void vec_env_reset(struct vec_env *v)
{
    for (size_t c = 0; c < v->n_copies; c++)
        begin_episode(v, c, v->draws == ENV_DRAWS_EVALUATION ? c : 0);
    v->class->ops->observe(v->world, 0, v->n_copies, v->obs);
}

/* Step */

static int refuse_action(const struct vec_env *v, size_t agent, const float *actions,
                         struct err *err)
{
    size_t width = (size_t)v->spec.agents[agent].space.width, i = 0;

    while (isfinite(actions[i]))
        i++;
    return err_set(err, ERR_NONFINITE, "action of %s for copy %zu: entry %zu is %g",
                   v->spec.agents[agent].name, i / width, i % width, (double)actions[i]);
}

static int check_actions(const struct vec_env *v, const float *const *actions,
                         struct err *err)
{
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        size_t n = v->n_copies * (size_t)v->spec.agents[a].space.width;

        if (!tensor_finite_f32(actions[a], n))
            return refuse_action(v, a, actions[a], err);
    }
    return 0;
}

/* Settles who took part: nothing happens to an agent that left, or in a waiting copy. */
static void settle_agents(struct vec_env *v, uint8_t *all_over)
{
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        double *own = v->own[a], *total = v->total_return[a];
        uint8_t *left = v->left[a], *alive = v->alive[a], *over = v->terminated[a];

        for (size_t c = 0; c < v->n_copies; c++) {
            alive[c] = !left[c] & !v->waiting[c];
            own[c] = alive[c] ? own[c] : 0.0;
            total[c] += own[c];
            over[c] = left[c] |= over[c] & alive[c];
            all_over[c] &= left[c];
        }
        memcpy(v->episode_return[a], total, v->n_copies * sizeof(*total));
    }
}

/* `ended` comes in as: every agent's task is over. */
static void settle_copies(struct vec_env *v)
{
    uint64_t limit = v->spec.max_steps > 0 ? (uint64_t)v->spec.max_steps : UINT64_MAX;

    for (size_t c = 0; c < v->n_copies; c++) {
        uint8_t on = !v->waiting[c];

        v->first[c] = on & (v->time[c] == 0);
        v->time[c] += on;
        v->truncated[c] = on & !v->ended[c] & (v->time[c] >= limit);
        v->ended[c] = on & (v->ended[c] | v->truncated[c]);
    }
    memcpy(v->episode_length, v->time, v->n_copies * sizeof(v->time[0]));
}

static void add_row(double *restrict to, const double *restrict from, size_t n)
{
    for (size_t c = 0; c < n; c++)
        to[c] += from[c];
}

/* A team's rewards add up in its first member's row, in agent order. */
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
                add_row(v->reward[a], v->own[b], n);
                size++;
            }
        }
        for (size_t c = 0; v->sharing == ENV_REWARD_TEAM_MEAN && c < n; c++)
            v->reward[a][c] /= size;
    }
}

/* Observations to act on next: the new episode's where one ended. */
static void begin_next(struct vec_env *v)
{
    for (size_t a = 0; a < v->spec.n_agents; a++)
        memcpy(v->obs[a], v->next_obs[a],
               v->n_copies * (size_t)v->spec.agents[a].obs_width * sizeof(float));
    for (size_t c = 0; c < v->n_copies; c++) {
        if (!v->ended[c])
            continue;
        if (v->draws == ENV_DRAWS_TRAINING)
            vec_env_reset_copy(v, c, v->episode[c] + 1);
        else
            v->waiting[c] = 1;
    }
}

static void fill_results(const struct vec_env *v, struct env_step *ret)
{
    *ret = (struct env_step){
        .next_obs = (const float *const *)v->next_obs,
        .reward = (const double *const *)v->reward,
        .terminated = (const uint8_t *const *)v->terminated,
        .alive = (const uint8_t *const *)v->alive,
        .truncated = v->truncated,
        .first = v->first,
        .ended = v->ended,
        .episode_return = (const double *const *)v->episode_return,
        .episode_length = v->episode_length,
    };
}

int vec_env_step(struct vec_env *v, const float *const *actions, struct env_step *ret,
                 struct err *err)
{
    int rc = check_actions(v, actions, err);

    if (rc < 0)
        return rc;
    for (size_t a = 0; a < v->spec.n_agents; a++)
        memset(v->terminated[a], 0, v->n_copies);
    v->class->ops->step(v->world, actions, v->own, v->terminated);
    v->class->ops->observe(v->world, 0, v->n_copies, v->next_obs);
    memset(v->ended, 1, v->n_copies);
    settle_agents(v, v->ended);
    settle_copies(v);
    if (v->sharing != ENV_REWARD_OWN)
        share_rewards(v);
    begin_next(v);
    fill_results(v, ret);
    return 0;
}

void vec_env_draw(const struct vec_env *v, size_t copy, struct scene *ret)
{
    CHECK(copy < v->n_copies, "copy %zu of %zu", copy, v->n_copies);
    CHECK(v->class->ops->draw != NULL, "%s cannot be drawn", v->spec.id);
    scene_clear(ret, v->spec.n_agents);
    v->class->ops->draw(v->world, copy, ret);
}

/* State: header; episode, time (E) u64; returns (A, E) f64; waiting (E), left (A, E) u8;
 * then the world's own. */

struct state_header {
    uint32_t magic, version;
    uint64_t len_bytes; /* of all, this header included */
    uint64_t copies, agents;
    char id[64];
};

size_t vec_env_state_bytes(const struct vec_env *v)
{
    size_t n = v->n_copies, n_agents = v->spec.n_agents;

    return sizeof(struct state_header) + n * 2 * sizeof(uint64_t) +
           n_agents * n * sizeof(double) + n * (1 + n_agents) +
           v->class->ops->state_bytes(v->world);
}

static struct state_header expected_header(const struct vec_env *v)
{
    struct state_header h = {.magic = STATE_MAGIC,
                             .version = STATE_VERSION,
                             .len_bytes = vec_env_state_bytes(v),
                             .copies = v->n_copies,
                             .agents = v->spec.n_agents};

    memcpy(h.id, v->spec.id, sizeof(h.id));
    return h;
}

static char *put(char *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

void vec_env_state_save(const struct vec_env *v, void *dst)
{
    struct state_header h = expected_header(v);
    size_t n = v->n_copies, n_agents = v->spec.n_agents;
    char *p = put(dst, &h, sizeof(h));

    p = put(p, v->episode, n * sizeof(uint64_t));
    p = put(p, v->time, n * sizeof(uint64_t));
    for (size_t a = 0; a < n_agents; a++)
        p = put(p, v->total_return[a], n * sizeof(double));
    p = put(p, v->waiting, n);
    for (size_t a = 0; a < n_agents; a++)
        p = put(p, v->left[a], n);
    v->class->ops->save(v->world, p);
}

static const char *get(void *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return from + n;
}

static const char *get_flags(uint8_t *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] != 0;
    return from + n;
}

static int check_header(const struct vec_env *v, const void *src, size_t len,
                        struct err *err)
{
    struct state_header want = expected_header(v), h;

    if (len < sizeof(h))
        return err_set(err, ERR_CORRUPT, "environment state: only %zu bytes", len);
    memcpy(&h, src, sizeof(h));
    if (h.magic != want.magic)
        return err_set(err, ERR_CORRUPT, "environment state: wrong magic number");
    if (h.version != want.version)
        return err_set(err, ERR_UNSUPPORTED,
                       "environment state: version %u, this build reads %u", h.version,
                       want.version);
    if (memcmp(h.id, want.id, sizeof(h.id)) != 0 || h.copies != want.copies ||
        h.agents != want.agents)
        return err_set(err, ERR_SHAPE,
                       "environment state: %llu copies of %.63s with %llu agents, "
                       "expected %zu of %s with %zu",
                       (unsigned long long)h.copies, h.id, (unsigned long long)h.agents,
                       v->n_copies, v->spec.id, v->spec.n_agents);
    if (h.len_bytes != want.len_bytes || len != want.len_bytes)
        return err_set(err, ERR_CORRUPT, "environment state: %zu bytes, expected %zu",
                       len, (size_t)want.len_bytes);
    return 0;
}

int vec_env_state_load(struct vec_env *v, const void *src, size_t len, struct err *err)
{
    size_t n = v->n_copies, n_agents = v->spec.n_agents;
    const char *p = (const char *)src + sizeof(struct state_header);
    int rc = check_header(v, src, len, err);

    if (rc == 0)
        rc = v->class->ops->load(
            v->world, (const char *)src + len - v->class->ops->state_bytes(v->world),
            err);
    if (rc < 0)
        return rc;
    p = get(v->episode, p, n * sizeof(uint64_t));
    p = get(v->time, p, n * sizeof(uint64_t));
    for (size_t a = 0; a < n_agents; a++)
        p = get(v->total_return[a], p, n * sizeof(double));
    p = get_flags(v->waiting, p, n);
    for (size_t a = 0; a < n_agents; a++)
        p = get_flags(v->left[a], p, n);
    v->class->ops->observe(v->world, 0, n, v->obs);
    return 0;
}
