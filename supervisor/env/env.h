/* env.h - environments: E copies of one world, stepped side by side.
 *
 * Shapes   E copies, A agents, O_a observation width and U_a action width of agent a.
 *          All per-agent arrays are packed (E, width), row-major, E slowest.
 * Units    rewards unscaled, float64; observations float32 (computed in float64).
 * Actions  what agents send: (E, U_a) f32. For a discrete space U_a is the sum of its
 *          heads' sizes and each head a one-hot vector (the largest entry counts, the
 *          first on a tie); for the particle worlds' boxes the numbers as they are,
 *          clipped to the space's bounds where the rules say so.
 * Ends     `terminated` (per agent: the task is over, no future) and `truncated` (joint:
 *          a limit cut it; not where every agent's task was over) are never merged.
 *          next_obs is the observation after the step, also of an episode that ended:
 *          the final one; next_allowed is the mask there. Who has left keeps both as they
 *          were last.
 * Resets   automatic: after a step, every copy that ended begins its next episode, and
 *          `obs` holds the first observation of the new one. Evaluation copies wait for
 *          vec_env_reset_copy instead: alive, first, ended and rewards are 0 until then,
 *          and their observations mean nothing.
 * Draws    keyed: rng_key_make(seed, "env/<copy>", "reset"), counter = episode of that
 *          copy; an evaluation: rng_key_make(seed, "evaluation", "reset"), counter = the
 *          episode's number, whatever the copies.
 * Foreign  environments of others' live in processes (env_host.h): what they are asked
 *          for comes later, from the loop. Calls that may have to wait say so by
 *          returning ENV_LATER; those of environments of ours never do.
 * Masks    where an environment has them, `allowed` (E, U_a) u8 says which entries of a
 *          one-hot action may be chosen now (0 or 1); a head without any means that all
 *          may.
 * Owns     a vec_env owns its state; arrays handed to it are borrowed for the call.
 * Errors   actions that are not finite numbers: ERR_NONFINITE, naming agent and copy.
 *          What goes wrong in a process fails its host.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_ENV_ENV_H
#define SUPERVISOR_ENV_ENV_H

#include "common/config/run_config.h"
#include "common/config/schema.h"
#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

enum space_kind { SPACE_DISCRETE, SPACE_BOX };

#define SPACE_MAX_HEADS 8

struct action_space {
    enum space_kind kind;
    int particle; /* a particle world's: heads have a meaning in a box, too */
    int n_heads;  /* moves; speech. 0 for an ordinary box */
    int32_t heads[SPACE_MAX_HEADS];
    int32_t width;    /* U */
    double low, high; /* box */
};

struct env_agent {
    char name[AGENT_NAME_MAX]; /* "agent_0" */
    char team[AGENT_NAME_MAX]; /* the name before the number: "agent" */
    int32_t obs_width;         /* O */
    struct action_space space;
};

struct env_spec {
    char id[64]; /* of the registry; foreign: the environment's own name */
    size_t n_agents;
    struct env_agent *agents; /* owned by the vec_env */
    int64_t max_steps;        /* truncation; 0: none */
    int masks;                /* it has them */
};

enum { ENV_LATER = 1 };

/* The environment has masks, and the agent one-hot actions that they are of. */
int env_is_masked(const struct env_spec *spec, size_t agent);
/* The first agent of an agent's team: what stands for the team. */
size_t env_team_of(const struct env_spec *spec, size_t agent);
/* The mean over the team whose first agent that is, of a number for each agent. */
double env_team_mean(const struct env_spec *spec, size_t first, const double *values);

/* One row of the registry. */
struct env_info {
    const char *id;
    const char *summary;         /* one line for `brood envs` */
    const struct schema *params; /* the keys of env.params, with their defaults */
};

const struct env_info *env_info_at(size_t i); /* NULL past the end */
const struct env_info *env_info_find(const char *id);

/* What env.params of one of ours amounts to: a struct that its table is of, in the arena.
 * ERR_CONFIG, naming the place. */
int env_params_read(const struct env_config *env, struct arena *arena,
                    const void **ret_params, struct err *err);

/* Names of the agents the environment has under this configuration: the
 * config_env_names_fn of run_config.h (ctx unused). */
int env_agent_names(void *ctx, const struct env_config *env, const char *const **ret,
                    struct err *err);

/* What a one-hot head means: the first of the largest of n numbers. */
size_t env_choice(const float *x, size_t n);

struct vec_env; /* opaque */

enum env_draws { ENV_DRAWS_TRAINING, ENV_DRAWS_EVALUATION };

/* seed: the run's, or the evaluation's. `copies` overrides config->copies if not 0.
 * Nothing is drawn yet: every copy waits for a reset, or for a state that is loaded. */
int vec_env_new(struct vec_env **ret, const struct env_config *config, uint64_t seed,
                enum env_draws draws, size_t copies, struct err *err);
void vec_env_free(struct vec_env *v);

struct env_host;

/* Starts the processes of a foreign environment, "<name>_0" and so on; nothing for one of
 * ours. Once, after the first vec_env_reset or a state that was loaded. */
int vec_env_start(struct vec_env *v, struct env_host *host, const char *name,
                  struct err *err);
/* Whom to tell when what returned ENV_LATER has been done; not from within that call. */
void vec_env_on_settled(struct vec_env *v, void (*fn)(void *ctx), void *ctx);
/* Resets are done, and every process stands where the state says: 0, or ENV_LATER. To be
 * called after vec_env_start, and after resets before anything else. */
int vec_env_settle(struct vec_env *v, struct err *err);

const struct env_spec *vec_env_spec(const struct vec_env *v);
size_t vec_env_copies(const struct vec_env *v);

/* Begins an episode in every copy: training copies episode 0; evaluation copies 0..E-1.
 */
void vec_env_reset(struct vec_env *v);
/* Begins episode `episode` in one copy. */
void vec_env_reset_copy(struct vec_env *v, size_t copy, uint64_t episode);

/* Current observations of agent a, (E, O_a): valid until the next step or reset. */
const float *vec_env_obs(const struct vec_env *v, size_t agent);
/* What agent a may do now, (E, U_a), likewise; NULL: there are no masks. */
const uint8_t *vec_env_allowed(const struct vec_env *v, size_t agent);
/* Number of the episode a copy is in, and steps taken in it. */
uint64_t vec_env_episode(const struct vec_env *v, size_t copy);
uint64_t vec_env_time(const struct vec_env *v, size_t copy);

/* Results of the last step; owned by the vec_env, valid until the next step. */
struct env_step {
    const float *const *next_obs;       /* [A] (E, O_a) */
    const uint8_t *const *next_allowed; /* [A] (E, U_a); NULL: there are no masks */
    const double *const *reward;        /* [A] (E) */
    const uint8_t *const *terminated;   /* [A] (E) */
    const uint8_t *const *alive;        /* [A] (E): took part in this step */
    const uint8_t *truncated;           /* (E) */
    const uint8_t *first;               /* (E): this was an episode's first step */
    const uint8_t *ended;               /* (E): the episode is over, either way */
    const uint8_t *discarded; /* (E): it could not be played again, and is no more; in
                                 this step nobody was alive */
    const double *const
        *episode_return; /* [A] (E): undiscounted, so far, this step incl.; of the
                            environment's own rewards, whatever env.reward */
    const uint64_t *episode_length; /* (E): steps, this one included */
};

/* Whether there is a picture of it. ERR_UNSUPPORTED, naming the environment. */
int env_check_drawable(const struct env_config *config, struct err *err);
/* The scene (scene.h) of one copy as it is; of an evaluation's that waits: as its episode
 * ended. */
struct scene;
void vec_env_draw(const struct vec_env *v, size_t copy, struct scene *ret);

/* actions[a] is (E, U_a). Steps every copy, then begins new episodes where one ended
 * (training: that copy's next number; evaluation: the copy waits for
 * vec_env_reset_copy). Rewards follow env.reward (own, team_sum, team_mean).
 * ENV_LATER: *ret is filled when it is done; until then both arguments stay as they are.
 */
int vec_env_step(struct vec_env *v, const float *const *actions, struct env_step *ret,
                 struct err *err);

/* The whole state (worlds, episode numbers, times, returns) as one flat block. */
size_t vec_env_state_bytes(const struct vec_env *v);
void vec_env_state_save(const struct vec_env *v, void *dst);
int vec_env_state_load(struct vec_env *v, const void *src, size_t len, struct err *err);

#endif
