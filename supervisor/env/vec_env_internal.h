/* vec_env_internal.h - what the files of vec_env share. */
#ifndef SUPERVISOR_ENV_VEC_ENV_INTERNAL_H
#define SUPERVISOR_ENV_VEC_ENV_INTERNAL_H

#include "supervisor/env/env_class.h"
#include "supervisor/env/far_world.h"
#include "supervisor/env/foreign.h"

/* How an agent left its copy, before the step: its task was over, or it was cut off. */
enum leaving { LEFT_NOT, LEFT_AT_END, LEFT_CUT };

struct vec_env {
    struct arena arena; /* everything below, and this struct's arrays */
    const struct env_class *class;
    void *world; /* NULL: it is far */
    struct foreign foreign;
    struct far_world *far; /* NULL: it is here */
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
    uint8_t **left;        /* [A] (E): enum leaving */
    double **total_return; /* [A] (E) */

    /* A world that is here writes its observations into two buffers in turn. obs and
     * next_obs are the same buffer after a step in which no episode ended. */
    float **obs_buffers[2]; /* [A] (E, O_a) each */
    float **obs;            /* [A] (E, O_a) */
    uint8_t **allowed;      /* [A] (E, U_a); NULL: no masks */

    /* Results of the last step; see env_step. */
    float **next_obs;
    uint8_t **next_allowed;
    double **own, **reward; /* the environment's, and as shared */
    uint8_t **terminated, **alive;
    uint8_t *truncated, *first, *ended, *discarded;
    double **episode_return;
    uint64_t *episode_length;

    /* A far world's. */
    struct env_host *host;
    uint8_t **present;       /* [A] (E): takes part in the next step */
    struct env_step *result; /* of the step under way */
    void (*on_settled)(void *ctx);
    void *settled_ctx;
};

/* ---- vec_env.c ---- */

/* Begins an episode: everything of it but its observations. */
void vec_env_begin_episode(struct vec_env *v, size_t copy, uint64_t episode);
/* Gives obs and next_obs a buffer each, before obs alone changes. */
void vec_env_part_obs(struct vec_env *v);
/* Counts the step. `ended` comes in as: every agent has left; `truncated` as: one of them
 * was cut off. */
void vec_env_settle_copies(struct vec_env *v);
/* The last of a step: team rewards, the next episodes, *ret. */
void vec_env_conclude(struct vec_env *v, struct env_step *ret);

/* ---- vec_env_far.c ---- */

/* ERR_LIMIT: too much for a message. */
int vec_env_far_open(struct vec_env *v, const struct env_config *config, struct err *err);
int vec_env_far_step(struct vec_env *v, const float *const *actions, struct env_step *ret,
                     struct err *err);
void vec_env_far_reset(struct vec_env *v, size_t copy, const struct env_episode *episode);

#endif
