/* env_class.h - what one environment provides: a row of the registry's table.
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

/* Which episode begins: all its draws are elements of the draw (key, episode). */
struct env_episode {
    struct rng_key key;
    uint64_t episode; /* of this copy; of an evaluation: its own */
    uint64_t number;  /* among those of all copies */
};

struct env_ops {
    /* Fills ret->n_agents and ret->agents (in the arena): names, widths, spaces. params:
     * what env.params amounts to, a struct that the class's table is of. */
    int (*describe)(const struct env_class *class, const struct env_config *config,
                    const void *params, struct arena *arena, struct env_spec *ret,
                    struct err *err);
    /* The world of a description that succeeded; it lives and dies with the arena, as
     * params does. */
    void *(*open)(const struct env_class *class, const struct env_config *config,
                  const void *params, size_t copies, struct arena *arena);
    void (*reset)(void *world, size_t copy, const struct env_episode *episode);
    /* One step of every copy. actions[a] (E, U_a), all finite; reward[a] (E), the
     * environment's own; terminated[a] (E), zero on entry. */
    void (*step)(void *world, const float *const *actions, double *const *reward,
                 uint8_t *const *terminated);
    /* The last step that is allowed truncates, whatever terminated says. */
    int limit_first;
    /* Writes rows first .. first+n-1 of every agent's observations obs[a] (E, O_a). */
    void (*observe)(void *world, size_t first, size_t n, float *const *obs);
    /* The world's state as a flat block. load refuses (ERR_CORRUPT) what cannot be one,
     * changing nothing. */
    size_t (*state_bytes)(const void *world);
    void (*save)(const void *world, void *dst);
    int (*load)(void *world, const void *src, struct err *err);
    /* Adds the picture of one copy to an empty scene; NULL: there is none to draw. */
    void (*draw)(const void *world, size_t copy, struct scene *ret);
};

struct env_class {
    struct env_info info;
    const struct env_ops *ops; /* NULL: a foreign one (foreign.h) */
    const void *scenario;      /* for ops: what tells this row from others of its kind */
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
extern const struct env_ops particle_ops;    /* scenario: struct particle_scenario */
extern const struct env_ops toy_ops;         /* scenario: struct toy */

#endif
