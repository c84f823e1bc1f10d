/* env.h - environments: E copies of one world, stepped side by side.
 *
 * Shapes   E copies, A agents, O_a observation width and U_a action width of agent a.
 *          All per-agent arrays are packed (E, width), row-major, E slowest.
 * Units    rewards unscaled, float64; observations float32 (computed in float64), or bytes
 *          where an agent's obs_is_u8 is set: then a `float *` to observations points to
 *          (E, O_a) u8, and a row has env_obs_bytes.
 * Actions  from the agents: (E, U_a) f32. For a discrete space, U_a is the sum of its
 *          heads' sizes and each head is a one-hot vector (the largest entry counts, the
 *          first on a tie). For the box of a particle world, the numbers themselves, clipped
 *          to the space's bounds where the rules of the world require it. A hybrid action is
 *          the one-hot vectors of its heads, and behind them the numbers of its box.
 * Ends     `terminated` (per agent: its task is over) and `truncated` (for all agents: a
 *          limit ended the episode; not set if every agent's task was over) are never
 *          merged. next_obs is the observation after the step, for an episode that ended
 *          the final one; next_allowed is the mask at that point. For an agent that has
 *          left, both keep their last values.
 * Resets   automatic: after a step, every copy that ended begins its next episode, and
 *          `obs` holds the first observation of the new one. Evaluation copies wait for
 *          vec_env_reset_copy instead: alive, first, ended and rewards are 0 until then,
 *          and their observations are undefined.
 * Draws    keyed: rng_key_make(seed, "env/<copy>", "reset"), counter = episode of that
 *          copy; for an evaluation: rng_key_make(seed, "evaluation", "reset"), counter =
 *          number of the episode, independent of the copies.
 * External environments run in processes (env_host.h), and their results arrive later, from
 *          the loop. Calls that may have to wait then return ENV_LATER; for built-in
 *          environments they never do.
 * Failures of an external environment, with env.on_failure skip_episode: the step in which an
 *          episode fails is one in which no agent is alive, and the copy begins its next episode
 *          (`skipped`); one that fails in its reset is not begun at all, and the next one is. An
 *          evaluation copy waits, as after an end.
 * Metrics  numbers that tell how well an episode went, besides its returns, if env.metrics asks
 *          for them; nothing learns from them. In each step a copy has a value of a metric,
 *          or none; an episode's is the mean of those that it has (of at_end ones: the last).
 *          Of an external environment it is the mean over the agents whose infos have it.
 * Masks    if an environment has them, `allowed` (E, U_a) u8 is 1 for the entries of a
 *          one-hot action that may be chosen now and 0 for the others; a head whose entries
 *          are all 0 means that all are allowed. What it has for the numbers of a hybrid
 *          action counts for nothing.
 * Clipping env.clip_observations applies as soon as an environment has observed: nothing has
 *          other numbers.
 * Owns     a vec_env owns its state; arrays passed to it are borrowed for the call.
 * Errors   actions that are not finite: ERR_NONFINITE, naming agent and copy. An error in
 *          an environment process makes its host fail.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_ENV_ENV_H
#define SUPERVISOR_ENV_ENV_H

#include "common/config/run_config.h"
#include "common/config/schema.h"
#include "common/err/err.h"
#include "common/msg/obs_msg.h"
#include "common/tensor/dtype.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum space_kind { SPACE_DISCRETE, SPACE_BOX, SPACE_HYBRID };

#define SPACE_MAX_HEADS 8

struct action_space {
    enum space_kind kind;
    int particle; /* of a particle world: a box has heads, too */
    int n_heads;  /* moves, speech; 0 for a box of another environment */
    int32_t heads[SPACE_MAX_HEADS];
    int32_t width;    /* U */
    double low, high; /* box, hybrid: of each number */
};

/* The first of an action's entries that is a number: all behind it are. U: none is. */
static inline int32_t space_first_number(const struct action_space *s)
{
    int32_t n = 0;

    for (int h = 0; h < s->n_heads && s->kind != SPACE_BOX; h++)
        n += s->heads[h];
    return n;
}

struct env_agent {
    char name[AGENT_NAME_MAX]; /* "agent_0" */
    char team[AGENT_NAME_MAX]; /* "agent": the name before the number; see env.teams */
    int32_t obs_width;         /* O */
    int obs_is_u8;             /* 1: uint8 observations; 0: float32 */
    struct image_part image;   /* what of its observation is an image, if anything is */
    /* If its observation ends with entities (env.observe): how many, and the numbers of each, the
     * last of which is 1 if the entity is there; if it is 0, all of them are 0. Else 0. */
    int64_t entities[2];
    struct action_space space;
};

/* A number that a built-in environment can measure (env.metrics). */
struct env_metric {
    const char *name; /* NULL ends a list */
    const char *doc;  /* one line */
    int at_end;       /* of an episode's last step; 0: a mean over its steps */
};
enum { ENV_MAX_METRICS = 32 };

struct env_spec {
    char id[64]; /* in the registry; external: the end of its own name */
    size_t n_agents;
    struct env_agent *agents; /* owned by the vec_env */
    int64_t max_steps;        /* truncation; 0: none */
    size_t copies;            /* E */
    int32_t stack; /* K of env.stack: observations that agents see side by side; 0: 1 */
    double clip_observations, clip_rewards; /* of env; 0: none */
    int masks;                              /* whether it has action masks */
    /* Of env.metrics: the names of what is recorded. */
    size_t n_metrics;
    const char *const *metrics; /* [n_metrics]; owned by the vec_env */
};

enum { ENV_LATER = 1 };

/* The type of an agent's observations, and the bytes of one of them. */
static inline enum dtype env_obs_dtype(const struct env_agent *a)
{
    return a->obs_is_u8 ? DT_UINT8 : DT_FLOAT;
}

/* Whether its observations are bytes, or a part of them is. */
static inline int env_has_bytes(const struct env_agent *a)
{
    return a->obs_is_u8 || a->image.is_u8;
}

static inline size_t env_obs_bytes(const struct env_agent *a)
{
    return (size_t)a->obs_width * dtype_size(env_obs_dtype(a));
}

/* What agents see at once: env.stack observations. In that, `env_together` elements of each
 * stand side by side (struct store_column). */
static inline uint32_t env_stack(const struct env_spec *spec)
{
    return spec->stack > 1 ? (uint32_t)spec->stack : 1;
}

static inline size_t env_seen_width(const struct env_spec *spec, size_t agent)
{
    return (size_t)spec->agents[agent].obs_width * env_stack(spec);
}

static inline uint32_t env_together(const struct env_agent *a)
{
    return (uint32_t)(image_size(&a->image) == a->obs_width ? a->image.shape[2]
                                                            : a->obs_width);
}

/* Clips n observations of an agent in place, if env.clip_observations asks for it. */
void env_clip(const struct env_spec *spec, size_t agent, size_t n, void *obs);

/* Whether they have observations of one type and shape. */
static inline int env_sees_alike(const struct env_agent *a, const struct env_agent *b)
{
    return a->obs_width == b->obs_width && a->obs_is_u8 == b->obs_is_u8 &&
           image_is_same(&a->image, &b->image) &&
           memcmp(a->entities, b->entities, sizeof(a->entities)) == 0;
}

/* Whether they have the same space of actions. */
static inline int env_acts_alike(const struct env_agent *a, const struct env_agent *b)
{
    return memcmp(&a->space, &b->space, sizeof(a->space)) == 0;
}

/* Whether the environment has masks and this agent has one-hot actions to apply them to. */
int env_is_masked(const struct env_spec *spec, size_t agent);
/* The first agent of an agent's team; its index identifies the team. */
size_t env_team_of(const struct env_spec *spec, size_t agent);
/* The mean of values (one per agent) over the team whose first agent is `first`. */
double env_team_mean(const struct env_spec *spec, size_t first, const double *values);

/* One row of the registry. */
struct env_info {
    const char *id;
    const char *summary;         /* one line for `brood envs` */
    const struct schema *params; /* the keys of env.params, with their defaults */
};

const struct env_info *env_info_at(size_t i); /* NULL past the end */
/* The metrics of a built-in environment, up to a NULL name; NULL: it has none. */
const struct env_metric *env_metrics(const char *id);
const struct env_info *env_info_find(const char *id);
/* Appends "did you mean 'x'?" to the error, if an environment has a similar id; returns its
 * code. */
int env_info_add_nearest(const char *id, struct err *err);

/* Reads env.params of a built-in environment into the struct that its schema describes, in
 * the arena. ERR_CONFIG, naming the place. */
int env_params_read(const struct env_config *env, struct arena *arena,
                    const void **ret_params, struct err *err);

/* The names of the environment's agents under this configuration: the config_env_names_fn
 * of run_config.h (ctx unused). */
int env_agent_names(void *ctx, const struct env_config *env, const char *const **ret,
                    struct err *err);

/* The choice that a one-hot head encodes: the index of the largest of n numbers, the first
 * on a tie. */
size_t env_choice(const float *x, size_t n);

/* The symmetries that a built-in environment declares under this configuration, which must be
 * valid: all that leave the meaning of words unchanged. (Renumbering words, or landmarks
 * that words refer to, is exact, too; but agents that see each row under another
 * numbering would learn that words mean nothing.) In the arena; no factors: the
 * environment declares none. */
struct symmetry_group;
void env_symmetry(const struct env_config *env, struct arena *arena,
                  struct symmetry_group *ret);
/* Makes them those of what agents see at once: every observation of a stack is turned alike. */
void env_symmetry_stack(const struct env_spec *spec, struct arena *arena,
                        struct symmetry_group *g);

struct vec_env; /* opaque */

enum env_draws { ENV_DRAWS_TRAINING, ENV_DRAWS_EVALUATION };

/* seed: the run's, or the evaluation's. `copies` overrides config->copies if not 0.
 * Nothing is drawn yet: every copy waits for a reset or a loaded state. */
int vec_env_new(struct vec_env **ret, const struct env_config *config, uint64_t seed,
                enum env_draws draws, size_t copies, struct err *err);
void vec_env_free(struct vec_env *v);

struct env_host;

/* Starts the processes of an external environment, "<name>_0" and so on; does nothing for a
 * built-in one. To be called once, after the first vec_env_reset or vec_env_state_load. */
int vec_env_start(struct vec_env *v, struct env_host *host, const char *name,
                  struct err *err);
/* To be called before vec_env_start: an external environment was found not to be reproducible
 * (env_trial.h). Its host will not be exact; line, copied, is for on_inexact. */
void vec_env_mark_inexact(struct vec_env *v, const char *line);
/* Sets the function to call when a call that returned ENV_LATER is complete; it is never
 * called from within that call. */
void vec_env_on_ready(struct vec_env *v, void (*fn)(void *ctx), void *ctx);
/* Completes resets and brings every process to the loaded state. Returns 0 when that is done,
 * or ENV_LATER. To be called after vec_env_start, and directly after resets. */
int vec_env_make_ready(struct vec_env *v, struct err *err);

const struct env_spec *vec_env_spec(const struct vec_env *v);
size_t vec_env_copies(const struct vec_env *v);

/* Begins an episode in every copy: episode 0 in training, 0..E-1 in evaluations. */
void vec_env_reset(struct vec_env *v);
/* Begins episode `episode` in one copy. */
void vec_env_reset_copy(struct vec_env *v, size_t copy, uint64_t episode);

/* Current observations of agent a, (E, O_a): valid until the next step or reset. */
const float *vec_env_obs(const struct vec_env *v, size_t agent);
/* What agent a sees, (E, env_seen_width): the last env.stack observations of the episode, its
 * first one in place of those before it. The state has them. Valid until the next call. */
const float *vec_env_seen(const struct vec_env *v, size_t agent);
/* The present mask of agent a, (E, U_a); valid as above. NULL: there are no masks. */
const uint8_t *vec_env_allowed(const struct vec_env *v, size_t agent);
/* Takes back the present step, if it is one of an external environment that has not been followed
 * by another one: the state is as before it, to be saved, but cannot be stepped. Returns 0 if
 * there is none to take back. */
int vec_env_undo(struct vec_env *v);
/* Number of the episode a copy is in, and steps taken in it. */
uint64_t vec_env_episode(const struct vec_env *v, size_t copy);
uint64_t vec_env_time(const struct vec_env *v, size_t copy);

/* Results of the last step; owned by the vec_env, valid until the next step. */
struct env_step {
    const float *const *next_obs;       /* [A] (E, O_a) */
    const uint8_t *const *next_allowed; /* [A] (E, U_a); NULL: there are no masks */
    const double *const *reward;        /* [A] (E) */
    const uint8_t *const *terminated;   /* [A] (E) */
    const uint8_t *const *alive;        /* [A] (E): the agent took part in this step */
    const uint8_t *truncated;           /* (E) */
    const uint8_t *first;               /* (E): this was an episode's first step */
    const uint8_t *ended;               /* (E): the episode is over, for either reason */
    /* (E): the episode was discarded, because a restarted process could not replay it, or (then
     * `skipped` is set, too) because it failed; no agent was alive in this step, and next_obs is
     * the last good observation. */
    const uint8_t *discarded;
    const uint8_t *skipped;
    /* [A] (E): undiscounted sum of the environment's own rewards (whatever env.reward is),
     * including this step. */
    const double *const *episode_return;
    const uint64_t *episode_length; /* (E): steps, including this one */
    /* [n_metrics] (E): the episode's value so far, including this step; NaN: it has none. */
    const double *const *episode_metric;
};

/* Checks that the environment can be drawn: ERR_UNSUPPORTED, naming it, if not. An
 * external environment of env.command passes, and may still send no pictures. */
int env_check_drawable(const struct env_config *config, struct err *err);
/* Draws the present scene (scene.h) of one copy; for an evaluation copy that waits, the
 * scene at the end of its episode. For an external environment (with env_config.draws):
 * the last picture of the process that answered last, valid until the next step. */
struct scene;
void vec_env_draw(const struct vec_env *v, size_t copy, struct scene *ret);

/* actions[a] is (E, U_a). Steps every copy, then begins new episodes where one ended
 * (training: that copy's next number; evaluation: the copy waits for
 * vec_env_reset_copy). Rewards follow env.reward (own, team_sum, team_mean).
 * ENV_LATER: *ret is filled when the step is complete; until then actions and ret must stay
 * valid and unchanged. */
int vec_env_step(struct vec_env *v, const float *const *actions, struct env_step *ret,
                 struct err *err);

/* The whole state (worlds, episode numbers, times, returns) as one flat block. */
size_t vec_env_state_bytes(const struct vec_env *v);
void vec_env_state_save(const struct vec_env *v, void *dst);
int vec_env_state_load(struct vec_env *v, const void *src, size_t len, struct err *err);

#endif
