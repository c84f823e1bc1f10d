/* A vec_env whose world is in this process. */
#include "supervisor/env/vec_env_internal.h"

#include <stdio.h>
#include <string.h>

static int open_world(struct vec_env *v, const struct env_config *config,
                      const void *params, struct err *err)
{
    (void)snprintf(v->spec.id, sizeof(v->spec.id), "%s", v->class->info.id);
    v->world = v->class->ops->open(v->class, config, params, v->n_copies, &v->arena);
    return 0;
}

static void observe_to(struct vec_env *v, size_t first, size_t n, float *const *obs)
{
    v->class->ops->observe(v->world, first, n, obs);
    for (size_t a = 0; a < v->spec.n_agents; a++)
        env_clip(&v->spec, a, n,
                 (char *)obs[a] + first * env_obs_bytes(&v->spec.agents[a]));
}

static void vec_env_local_observe(struct vec_env *v, size_t first, size_t n)
{
    observe_to(v, first, n, v->obs);
}

/* ---- the step ---- */

/* Updates an agent's flags after a step. It takes no part where it has left or the copy
 * is waiting. Returns 1 if it took part in all copies. */
static uint8_t end_flags(size_t n, const uint8_t *restrict waiting,
                         uint8_t *restrict left, uint8_t *restrict alive,
                         uint8_t *restrict over, uint8_t *restrict all_over)
{
    uint8_t all = 1;

    for (size_t c = 0; c < n; c++) {
        uint8_t here = !left[c] & !waiting[c], gone = left[c] | (over[c] & here);

        alive[c] = here;
        left[c] = gone;
        over[c] = gone;
        all_over[c] &= gone;
        all &= here;
    }
    return all;
}

static void end_agents(struct vec_env *v, uint8_t *all_over)
{
    const size_t n = v->n_copies;

    for (size_t a = 0; a < v->spec.n_agents; a++) {
        double *own = v->own[a], *total = v->total_return[a];
        const uint8_t *alive = v->alive[a];
        const uint8_t all =
            end_flags(n, v->waiting, v->left[a], v->alive[a], v->terminated[a], all_over);

        for (size_t c = 0; !all && c < n; c++)
            own[c] = alive[c] ? own[c] : 0.0;
        vec_env_add_row(total, own, n);
        memcpy(v->episode_return[a], total, n * sizeof(*total));
    }
}

static int step(struct vec_env *v, const float *const *actions, struct env_step *ret,
                struct err *err)
{
    const uint64_t limit = vec_env_step_limit(v);
    const struct env_ops *ops = v->class->ops;

    vec_env_keep_past(v);
    for (size_t a = 0; a < v->spec.n_agents; a++)
        memset(v->terminated[a], 0, v->n_copies);
    ops->step(v->world, actions, v->own, v->terminated);
    for (size_t m = 0; m < v->spec.n_metrics; m++)
        ops->measure(v->world, v->measures[m], v->metric[m]);
    /* a step that reaches the limit terminates no agent (env_class.h: limit_first) */
    for (size_t c = 0; v->class->ops->limit_first && c < v->n_copies; c++)
        for (size_t a = 0; v->time[c] + 1 >= limit && a < v->spec.n_agents; a++)
            v->terminated[a][c] = 0;
    v->next_obs = vec_env_other_buffer(v, v->obs);
    observe_to(v, 0, v->n_copies, v->next_obs);
    memset(v->ended, 1, v->n_copies);
    memset(v->truncated, 0, v->n_copies);
    end_agents(v, v->ended);
    vec_env_end_copies(v);
    vec_env_conclude(v, ret);
    return 0;
}

static int has_begun(const struct vec_env *v, size_t copy)
{
    return copy < v->n_copies && (v->ended[copy] | v->discarded[copy]) &&
           !v->waiting[copy];
}

/* Fills obs with the step's observations, or with a new episode's where one began. Copies
 * often end together, so adjacent ones are observed in one call. */
static void keep_or_observe(struct vec_env *v)
{
    size_t c = 0, n;

    while (c < v->n_copies) {
        for (n = 0; has_begun(v, c + n);)
            n++;
        if (n != 0)
            vec_env_local_observe(v, c, n);
        c += n;
        for (n = 0; c + n < v->n_copies && !has_begun(v, c + n);)
            n++;
        vec_env_keep_obs(v, c, n);
        c += n;
    }
}

static void go_on(struct vec_env *v)
{
    v->obs = v->next_obs;
    if (memchr(v->ended, 1, v->n_copies) == NULL)
        return;
    v->obs = vec_env_other_buffer(v, v->next_obs);
    vec_env_begin_ended(v);
    keep_or_observe(v);
}

/* ---- the state ---- */

static int load(struct vec_env *v, const void *src, size_t len, struct err *err)
{
    const size_t expected = v->class->ops->state_bytes(v->world);

    return len == expected ? v->class->ops->load(v->world, src, err)
                           : err_set(err, ERR_CORRUPT,
                                     "environment state: %zu bytes of the world's, "
                                     "expected %zu",
                                     len, expected);
}

static void observe_loaded(struct vec_env *v)
{
    vec_env_split_obs(v);
    vec_env_local_observe(v, 0, v->n_copies);
}

const struct world_driver local_driver = {
    .open = open_world,
    .step = step,
    .observe = vec_env_local_observe,
    .go_on = go_on,
    .load = load,
    .loaded = observe_loaded,
};
