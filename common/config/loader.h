/* loader.h - reading the configuration of a run: shared by the files named below.
 *
 * Errors   ERR_CONFIG with file, line and key (yaml_fail).
 */
#ifndef COMMON_CONFIG_LOADER_H
#define COMMON_CONFIG_LOADER_H

#include "common/config/run_config.h"
#include "common/config/schema.h"
#include "common/config/yaml_tree.h"

/* A value of a file that a key gets at a step, later than 0. */
struct config_step {
    uint64_t at;
    const char *path;
    const char *value;         /* YAML; NULL: it follows this schedule from then on */
    struct schedule schedule;  /* of stairs (schedule.h) */
    const struct field *field; /* of the schedule */
    const struct yaml_node *node;
};

struct config_steps {         /* sorted by step */
    struct config_step *list; /* malloc'd */
    size_t n;
};

struct loader {
    struct run_config *c;
    const struct yaml_node *root; /* the file, or the values to assign */
    const char *name;             /* the file's path; NULL: it is none */
    const struct config_options *options;
    struct config_steps *steps; /* of the file; NULL: none are read */
    struct arena *tree;         /* for what is added to the steps */
    int steps_given; /* checkpoint.every_env_steps was given and is not the default */
    int is_new;      /* read from a file, not values for an existing configuration */
    struct err *err;
};

/* The value of a key of a section, or NULL if it is not given. */
static inline const struct yaml_node *loader_given(const struct yaml_node *map,
                                                   const char *section, const char *key)
{
    return yaml_find(yaml_find(map, section), key);
}

/* A key's path, for messages: "agents.%s". It lives as long as the configuration. */
#define loader_path(l, ...) ((const char *)arena_printf(&(l)->c->arena, __VA_ARGS__))

/* ---- run_config.c ---- */

/* Checks that at most one of two alternative lengths is given and fills in the default. */
int loader_resolve_lengths(const struct loader *l);
/* Checks the section `experience` against the algorithms and env.copies; if the
 * configuration is new and gives no update_every, sets it. The agents must already be
 * read. */
int loader_check_experience(const struct loader *l);
/* Checks that the environment has the actions that the agent's settings need (FIELD_BOX_ONLY). */
int loader_check_actions(const struct loader *l, const struct agent_config *a);

/* ---- config_file.c ---- */

/* Reads the files that the file at `path` extends, and merges its tree over theirs.
 * ERR_CONFIG with file and line, ERR_LIMIT. */
int loader_extend(const char *path, struct yaml_node **root, struct arena *arena,
                  struct err *err);
/* ERR_CONFIG if the tree still names a file that it extends. */
int loader_refuse_extends(const struct yaml_node *root, struct err *err);

/* ---- shorthands.c ---- */

/* Calls fn for the section of each agent and then for `defaults`, if it is a map, with its path.
 * Stops when fn returns a value below 0, and returns it. */
int loader_each_section(struct yaml_node *root, struct arena *tree,
                        int (*fn)(void *ctx, struct yaml_node *section, const char *path),
                        void *ctx);

/* Moves what may be written shorter to its place: in `defaults` and the sections of agents,
 * keys of `settings` and `experience` (n_step, batch_size, ...), recurrent: {cell, width},
 * and target: {polyak} or {every}; in `defaults`, priority and share: [[NAME, ...], ...];
 * checkpoint.keep_best: METRIC.
 * ERR_CONFIG. */
int loader_expand_shorthands(struct yaml_node *root, struct arena *tree, struct err *err);
/* Older builds wrote a number of bytes without its unit, B. Adds it to each memory_limit of
 * the configuration of a run; a user's file must have it. */
void loader_add_units(struct yaml_node *root, struct arena *tree);
/* Replaces settings.agent_id: auto, in the complete tree, by true for agents that share
 * parameters without symmetry and without env.observe: entities, and by false for others. */
void loader_resolve_agent_ids(struct yaml_node *root, struct arena *tree);

/* ---- steps.c ---- */

/* Replaces each {at: {0: VALUE, ...}}, and each schedule of stairs, by its first value. ret: what
 * comes later; free(ret->list), also on failure. It points into the tree and its arena. */
int loader_take_steps(struct yaml_node *root, struct arena *tree,
                      struct config_steps *ret, struct err *err);
/* Replaces each value for a team by one for each member whose own section in `agents`,
 * which has not been expanded, does not give the key. */
void loader_expand_steps(const struct loader *l, const struct yaml_node *agents,
                         const char *const *names, size_t n);
/* Removes the values of the section's key and of the keys below it. */
void loader_drop_steps(const struct loader *l, const char *section, const char *key);
/* Checks these values, step by step, against the complete configuration, and makes them its plan.
 * If an agent's section gives a key, and happens to have the value of `defaults` when that moves,
 * the agent's value stays: that is a change, too. */
int loader_plan_steps(const struct loader *l);

/* ---- run_config_set.c ---- */

/* Replaces each assignment to a team by one for each member. Returns the new number of
 * assignments. */
size_t config_expand_teams(const struct run_config *c, const char *const *set, size_t n,
                           struct arena *arena, const char ***ret);

/* ---- teams.c ---- */

/* For config_options.resized: removes the sections of agents that are none of these, and gives
 * each one without a section that of the first of its team that has one. */
void loader_resize_teams(const struct loader *l, struct yaml_node *agents,
                         const char *const *names, size_t n);
/* Checks that every key of the map `agents` is one of the n names or a team, and replaces
 * the sections of teams by sections of their members: the member's own, merged over the
 * team's. Does the same with the values for later steps. */
int loader_expand_teams(const struct loader *l, struct yaml_node *agents,
                        const char *const *names, size_t n);
/* Whether key[0..len) is the team of one of the names, and is not one of the names. */
int config_is_team(const char *key, size_t len, const char *const *names, size_t n);

/* ---- dropped.c ---- */

/* Whether a key without effect may be dropped (config_options.dropped). */
int loader_may_drop(const struct loader *l, const struct yaml_node *key);
/* Removes from the map (NULL: none) the keys for which `is_used` returns 0, and reports
 * them in one line: "place: path: dropped a and b: WHY". If one of them cannot be
 * dropped, fails with "place: path: a is WHY". Removes their values for later steps,
 * too. Leaves keys that the schema lacks to schema_read. Returns the number of removed keys, or
 * ERR_CONFIG. */
int loader_drop(const struct loader *l, struct yaml_node *map, const char *path,
                const struct schema *known,
                int (*is_used)(const void *ctx, const char *key), const void *ctx,
                const char *why);

/* ---- first_update.c ---- */

/* If the configuration is new and does not give the run's warm-up, and the run would end
 * before any agent that uses the warm-up learns, sets it to a tenth of the run's steps.
 * Longer runs keep the default. */
void loader_shorten_warmup(const struct loader *l);

/* ---- agent_section.c: the keys under `defaults` or of one agent ---- */

/* Reads the section's values into *a and checks what the schema cannot express, taking
 * the values that *a already has into account. path: of the section. Removes the keys
 * that loader_drop drops. */
int agent_section_read(const struct loader *l, const struct yaml_node *section,
                       const char *path, struct agent_config *a);
/* Sets the algorithm's own defaults for the keys that neither section gives. Either section
 * may be NULL. */
void agent_section_default_values(const struct yaml_node *section,
                                  const struct yaml_node *defaults,
                                  struct agent_config *a, struct arena *arena);

/* ---- program_section.c ---- */

/* Gives the agent, whose algorithm is `program`, its description and the settings that it has.
 * Unless both are known and the section changes nothing of what the program is, the run's
 * folder has the description or, if the run is new, the program is asked. */
int program_section_take(const struct loader *l, const struct yaml_node *section,
                         const char *path, struct agent_config *a);
/* Takes from the agent, whose algorithm is another, what makes it a program. Refuses a section that
 * has a key of programs. */
int program_section_drop(const struct loader *l, const struct yaml_node *section,
                         const char *path, struct agent_config *a);
/* Adds the directory of each program that has none, which is the folder of the file that names
 * it, so that the tree means the same in another file. -errno. */
int loader_place_programs(struct yaml_node *root, struct arena *arena, struct err *err);

#endif
