/* vec_env_internal.h - what the files of vec_env share. */
#ifndef SUPERVISOR_ENV_VEC_ENV_INTERNAL_H
#define SUPERVISOR_ENV_VEC_ENV_INTERNAL_H

#include "supervisor/env/env_class.h"
#include "supervisor/env/external.h"
#include "supervisor/env/external_world.h"

/* Whether an agent had left its copy before the step, and how: terminated or cut off. */
enum leaving { LEFT_NOT, LEFT_AT_END, LEFT_CUT };

/* What of a vec_env's state is its own: see below. */
struct vec_env_counts {
    uint64_t *episode, *time;
    uint8_t *waiting, **left;
    double **total_return;
    double **metric_sum, **metric_count;
    char **past;
};

struct vec_env {
    struct arena arena; /* everything below, and this struct's arrays */
    const struct env_class *class;
    const struct world_driver *driver;
    void *world; /* external_driver: struct external_world */
    struct env_spec spec;
    size_t n_copies;
    enum env_draws draws;
    enum env_reward sharing;
    struct rng_key *keys; /* (E); for evaluation draws all are equal */
    size_t *team;         /* [A]: first agent of the same team */

    /* State, in addition to the world's own. */
    uint64_t *episode;     /* (E) */
    uint64_t *time;        /* (E) */
    uint8_t *waiting;      /* (E): no episode yet, or (evaluation) none after the last */
    uint8_t **left;        /* [A] (E): enum leaving */
    double **total_return; /* [A] (E) */
    /* [M] (E): sum of a metric's values in the episode, and their number */
    double **metric_sum, **metric_count;
    /* [A] (E, env.stack - 1) observations before the present one, oldest first; undefined in a
     * copy whose time is 0. NULL: none are kept. */
    char **past;
    char *seen; /* vec_env_seen */

    /* A world in this process writes its observations alternately into two buffers. After
     * a step in which no episode ended, obs and next_obs are the same buffer. */
    float **obs_buffers[2]; /* [A] (E, O_a) each */
    float **obs;            /* [A] (E, O_a) */
    uint8_t **allowed;      /* [A] (E, U_a); NULL: no masks */

    /* Results of the last step; see env_step. */
    float **next_obs;
    uint8_t **next_allowed;
    double **own, **reward; /* the environment's rewards; after sharing in the team */
    uint8_t **terminated, **alive;
    uint8_t *truncated, *first, *ended, *discarded, *skipped;
    double **episode_return;
    uint64_t *episode_length;
    double **metric;         /* [M] (E): in the step; NaN: none */
    double **episode_metric; /* [M] (E) */
    /* [M] numbers of the metrics in the world's list, and whether only the last counts */
    size_t *measures;
    uint8_t *at_end;

    /* Used only by external_driver. */
    struct external external;
    struct env_host *host;
    uint8_t **present;            /* [A] (E): the agent takes part in the next step */
    struct env_step *result;      /* where to put the results of the current step */
    struct vec_env_counts before; /* as they were when that step began */
    int can_undo;
    void (*on_ready)(void *ctx);
    void *ready_ctx;
};

/* How a vec_env drives its world. A function that is NULL has nothing to do. */
struct world_driver {
    /* Makes v->world, once the environment is described and v's arrays are there. params as
     * for env_ops.open. */
    int (*open)(struct vec_env *v, const struct env_config *config, const void *params,
                struct err *err);
    void (*close)(struct vec_env *v);
    /* vec_env_start, vec_env_make_ready, vec_env_step after the check of its actions */
    int (*start)(struct vec_env *v, struct env_host *host, const char *name,
                 struct err *err);
    int (*make_ready)(struct vec_env *v, struct err *err);
    int (*step)(struct vec_env *v, const float *const *actions, struct env_step *ret,
                struct err *err);
    /* Observes copies first .. first+n-1, which have begun an episode, into v->obs. */
    void (*observe)(struct vec_env *v, size_t first, size_t n);
    /* The copy's episode is over, and no other one begins yet. */
    void (*end_episode)(struct vec_env *v, size_t copy);
    /* After a step: begins the next episodes of copies that ended, and fills v->obs. */
    void (*go_on)(struct vec_env *v);
    /* Loads the world's part of a state. ERR_CORRUPT changes nothing. */
    int (*load)(struct vec_env *v, const void *src, size_t len, struct err *err);
    /* The rest of the state is loaded, too. */
    void (*loaded)(struct vec_env *v);
};

extern const struct world_driver local_driver;    /* vec_env_local.c: in this process */
extern const struct world_driver external_driver; /* vec_env_external.c: in others */

/* ---- vec_env.c ---- */

/* Arrays of n for each agent, in the arena. */
double **vec_env_doubles(struct vec_env *v, size_t n);
uint8_t **vec_env_bytes(struct vec_env *v, size_t n);
/* Arrays of E for each metric. */
double **vec_env_metric_rows(struct vec_env *v);
/* Arrays for vec_env.past. */
char **vec_env_past_rows(struct vec_env *v);
/* The bytes of an agent's, (E, env.stack - 1). */
size_t vec_env_past_bytes(const struct vec_env *v, size_t agent);

static inline void vec_env_add_row(double *restrict to, const double *restrict from,
                                   size_t n)
{
    for (size_t c = 0; c < n; c++)
        to[c] += from[c];
}

/* Begins an episode, but does not write its observations. */
void vec_env_begin_episode(struct vec_env *v, size_t copy, uint64_t episode);
/* Begins the next one, in training, in each copy that ended. */
void vec_env_begin_ended(struct vec_env *v);
/* The one of obs_buffers that `obs` is not. */
float **vec_env_other_buffer(const struct vec_env *v, float *const *obs);
/* Makes obs and next_obs different buffers with the same contents. Call it before
 * changing obs alone. */
void vec_env_split_obs(struct vec_env *v);
/* Copies rows first .. first+n-1 of next_obs to obs. */
void vec_env_keep_obs(struct vec_env *v, size_t first, size_t n);
/* Before a step: what is observed now will be the newest of those before. */
void vec_env_keep_past(struct vec_env *v);
/* The steps that an episode has at most; UINT64_MAX: no limit. */
uint64_t vec_env_step_limit(const struct vec_env *v);
/* Counts the step and decides which copies ended. Before the call, `ended` must be 1
 * where every agent has left, `truncated` where one of them was cut off. */
void vec_env_end_copies(struct vec_env *v);
/* The last part of a step: shares team rewards, begins next episodes, fills *ret. */
void vec_env_conclude(struct vec_env *v, struct env_step *ret);

#endif
