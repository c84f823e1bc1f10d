/* brood_env.h - the interface of a shared object that is an environment of brood.
 *
 *     cc -shared -fPIC -O2 -I BROOD/agent/plugin -o hallway.so hallway.c
 *     env: {plugin: ./hallway.so, params: {agents: 3}}
 *
 * The one header that such a program includes; it needs nothing else of brood. Its worlds
 * run in processes of their own (env.processes), one world for each copy: a crash is reported
 * in one line and the run goes on, because the process is started again and every world is
 * reset with its seed and repeats its steps. So a world must be a function of its seed
 * and of the actions, whatever other worlds do.
 *
 * Shapes   O observation width and U action width of an agent, in the order of the agents.
 * Actions  float32 (U): in a discrete space a one-hot vector for each head, side by side
 *          (brood_env_choice); in a box numbers within its bounds; in a hybrid space both, the
 *          numbers behind the vectors. Ignore the actions of agents that are not present.
 * Threads  one; nothing here is called from another.
 */
#ifndef BROOD_ENV_H
#define BROOD_ENV_H

#include <stddef.h>
#include <stdint.h>

#define BROOD_ENV_ABI       3u /* objects built for ABI 1 and 2 are loaded, too */
#define BROOD_ENV_NAME_MAX  64 /* with the terminator; A-Z a-z 0-9 _ . - */
#define BROOD_ENV_HEADS_MAX 8

enum brood_env_kind { BROOD_ENV_DISCRETE, BROOD_ENV_BOX, BROOD_ENV_HYBRID };
enum brood_env_obs { BROOD_ENV_FLOATS, BROOD_ENV_BYTES };

struct brood_env_agent {
    char name[BROOD_ENV_NAME_MAX]; /* "walker_0" is of team "walker" */
    int32_t obs_width;             /* O */
    int32_t kind;    /* enum brood_env_kind; U is the sum of what it has below */
    int32_t n_heads; /* discrete, hybrid: the number of choices made at once ... */
    int32_t heads[BROOD_ENV_HEADS_MAX]; /* ... and of options in each */
    int32_t box_width;                  /* box, hybrid: of numbers */
    double low, high;                   /* bounds of every number */
    /* since ABI 2 */
    /* enum brood_env_obs: bytes, such as pictures, stay bytes in messages and in the log
     * of rows */
    int32_t obs_kind;
    /* Height, width and channels of an image that the observation begins with, row by row,
     * the channels of a point side by side; numbers of another kind may follow. All 0: it has
     * no image. */
    int32_t image[3];
};

/* A scalar of env.params, as it is written: 007 is "007". */
struct brood_env_param {
    const char *name, *value;
};

/* Where a world writes the results of a reset or a step. All of it is 0 before. */
struct brood_env_view {
    /* [A] (O): after the step, also of agents that leave with it. For observations in
     * bytes see brood_env_bytes. */
    float *const *obs;
    uint8_t *present; /* [A]: takes part in the next step; all 0: the episode is over */
    /* [A] (U): which choices are possible; read only if `masks`. A head without a
     * possible choice is played as if all were possible. */
    uint8_t *const *allowed;
    double *reward; /* [A] of this step */
    /* [A]: its task ended with this step. An agent that leaves with 0 was cut off by a
     * limit. */
    uint8_t *terminated;
};

struct brood_env {
    uint32_t abi; /* BROOD_ENV_ABI */
    const char *name;
    int masks; /* whether `allowed` is written */
    /* Writes the agents under these parameters, at most max, and returns their number; on
     * failure -1, and the reason in why. */
    int (*agents)(const struct brood_env_param *params, size_t n_params,
                  struct brood_env_agent *ret, size_t max, char *why, size_t why_size);
    /* Makes a world; on failure returns NULL, and the reason in why. */
    void *(*open)(const struct brood_env_param *params, size_t n_params, char *why,
                  size_t why_size);
    void (*close)(void *world);
    void (*reset)(void *world, uint64_t seed, const struct brood_env_view *out);
    /* actions[a] (U) */
    void (*step)(void *world, const float *const *actions,
                 const struct brood_env_view *out);
    /* since ABI 3 */
    /* The number of that name of env.metrics in the step that the world has just made; NAN: it
     * has none. NULL: it has no metrics. */
    double (*metric)(void *world, const char *name);
};

/* The one symbol that the object exports. */
const struct brood_env *brood_env_plugin(void);

/* The observation (O) of an agent whose obs_kind is BROOD_ENV_BYTES. */
static inline uint8_t *brood_env_bytes(const struct brood_env_view *out, size_t agent)
{
    return (uint8_t *)out->obs[agent];
}

/* The choice that a head's vector selects: its largest number, of equal ones the
 * first. */
static inline int32_t brood_env_choice(const float *x, int32_t n)
{
    int32_t best = 0;

    for (int32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

#endif
