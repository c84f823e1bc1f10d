/* env_class.h - what an environment implements: a row of the registry's table.
 *
 * A world is E copies stepped side by side; vec_env adds what all worlds share: episodes,
 * truncation, team rewards, returns, automatic resets. Shapes as in env.h.
 * A new particle scenario is one file with a `struct particle_scenario` and one row; a
 * world of another kind is a `struct env_ops` and a row.
 * Internal to supervisor/env.
 */
#ifndef SUPERVISOR_ENV_ENV_CLASS_H
#define SUPERVISOR_ENV_ENV_CLASS_H

#include "common/mem/arena.h"
#include "common/rng/rng.h"
#include "supervisor/env/env.h"
#include "supervisor/env/scene.h"

#define ENV_MAX_AGENTS 1000

struct env_class;
struct symmetry_group;

/* The episode that begins: its random numbers are all drawn at (key, episode). */
struct env_episode {
    struct rng_key key;
    uint64_t
        episode; /* number within this copy; in an evaluation: within the evaluation */
    uint64_t number; /* number among the episodes of all copies */
};

/* A world in other processes (external.h) does without open, step, measure, observe and load. */
struct env_ops {
    /* Fills ret->n_agents and ret->agents (in the arena): names, widths, spaces. params:
     * env.params, read into the struct that the class's schema describes; NULL: it has none. */
    int (*describe)(const struct env_class *class, const struct env_config *config,
                    const void *params, struct arena *arena, struct env_spec *ret,
                    struct err *err);
    /* Creates the world after describe succeeded. World and params live as long as the
     * arena. */
    void *(*open)(const struct env_class *class, const struct env_config *config,
                  const void *params, size_t copies, struct arena *arena);
    void (*reset)(void *world, size_t copy, const struct env_episode *episode);
    /* One step of every copy. actions[a] (E, U_a), all finite; reward[a] (E), the
     * environment's own; terminated[a] (E), zero on entry. */
    void (*step)(void *world, const float *const *actions, double *const *reward,
                 uint8_t *const *terminated);
    /* The last allowed step always truncates; `terminated` of that step is ignored. */
    int limit_first;
    /* The metrics that it can measure, up to a NULL name. NULL: none. */
    const struct env_metric *(*metrics)(const struct env_class *class);
    /* Measures number `metric` of that list in the step just made, before any reset: ret (E);
     * NaN: the copy has none. */
    void (*measure)(void *world, size_t metric, double *ret);
    /* Writes rows first .. first+n-1 of every agent's observations obs[a] (E, O_a). */
    void (*observe)(void *world, size_t first, size_t n, float *const *obs);
    /* The world's state as a flat block. load rejects an impossible state with ERR_CORRUPT
     * and then changes nothing. */
    size_t (*state_bytes)(const void *world);
    void (*save)(const void *world, void *dst);
    int (*load)(void *world, const void *src, struct err *err);
    /* Adds the factors of its symmetries (common/msg/symmetry_msg.h) to an empty group, in the
     * arena. NULL: it declares none. */
    void (*symmetry)(const struct env_class *class, const struct env_config *config,
                     const void *params, struct arena *arena, struct symmetry_group *ret);
    /* Draws one copy into an empty scene; NULL: the world cannot be drawn. */
    void (*draw)(const void *world, size_t copy, struct scene *ret);
};

struct env_class {
    struct env_info info;
    const struct env_ops *ops;
    const void *scenario; /* for ops: what distinguishes rows with the same ops */
};

const struct env_class *env_class_find(const char *id); /* NULL if unknown */

/* Reads env.params into the arena (*ret_params) and describes the environment.
 * ERR_CONFIG, naming the place in the configuration. */
int env_class_describe(const struct env_class *class, const struct env_config *config,
                       struct arena *arena, const void **ret_params, struct env_spec *ret,
                       struct err *err);

/* Sets "<team>_<number>" and the team. */
void env_agent_set_name(struct env_agent *agent, const char *team, size_t number);
/* The team of a name: "node_1" is of team "node"; a name without a number is a team of
 * its own. */
void env_agent_find_team(struct env_agent *agent);

extern const struct schema none_params;
extern const struct env_ops none_ops;
extern const struct env_ops foraging_ops;    /* scenario: none */
extern const struct env_ops matrix_game_ops; /* scenario: struct matrix_game */
extern const struct env_ops overcooked_ops;  /* scenario: none */
extern const struct env_ops particle_ops;    /* scenario: struct particle_scenario */
extern const struct env_ops rware_ops;       /* scenario: none */
extern const struct env_ops toy_ops;         /* scenario: struct toy */
extern const struct env_ops external_ops;    /* its parameters are unknown here */

#endif
