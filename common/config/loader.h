/* loader.h - reading the configuration of a run: shared by run_config.c, agent_section.c,
 * first_update.c, assign.c and steps.c.
 *
 * Errors   ERR_CONFIG with file, line and key (yaml_fail).
 */
#ifndef COMMON_CONFIG_LOADER_H
#define COMMON_CONFIG_LOADER_H

#include "common/config/run_config.h"
#include "common/config/schema.h"
#include "common/config/yaml_tree.h"

struct loader {
    struct run_config *c;
    const struct yaml_node *root; /* the file, or the values to assign */
    const struct config_options *options;
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

/* ---- run_config.c ---- */

/* Checks that at most one of two alternative lengths is given and fills in the default. */
int loader_resolve_lengths(const struct loader *l);
/* Checks the section `experience` against the algorithms and env.copies; if the
 * configuration is new and no value is given, sets update_every. The agents must be read. */
int loader_check_experience(const struct loader *l);
/* Checks that an agent with settings.execute: soft acts in an environment that allows it.
 * section: the agent's own, or NULL. */
int loader_check_soft(const struct loader *l, const struct yaml_node *section,
                      const struct agent_config *a);

/* ---- config_file.c ---- */

/* Merges the tree of the file at `path` over those of the files that it extends, which are
 * read. ERR_CONFIG with file and line, ERR_LIMIT. */
int loader_extend(const char *path, struct yaml_node **root, struct arena *arena,
                  struct err *err);

/* ---- steps.c ---- */

/* Replaces each {at: {0: VALUE, ...}}, and each schedule of a number that is no ramp, by its
 * first value. *ret: the later ones in the order of their steps, which point into the tree and
 * its arena; free(), also on failure. */
int loader_take_steps(struct yaml_node *root, struct arena *tree,
                      struct config_step **ret, size_t *ret_n, struct err *err);
/* Checks them against the complete configuration, and stores them there. */
int loader_keep_steps(struct run_config *c, const struct config_step *steps, size_t n,
                      struct err *err);

/* ---- assign.c ---- */

/* Replaces each assignment to a team by one for each of its members. Returns how many there
 * are now. */
size_t config_expand_teams(const struct run_config *c, const char *const *set, size_t n,
                           struct arena *arena, const char ***ret);

/* ---- teams.c ---- */

/* Checks that every key of the map `agents` is one of the n agents' names or a team's, and
 * replaces the sections of teams by those of their members: the team's with the member's own
 * merged over it. */
int loader_expand_teams(const struct loader *l, struct yaml_node *agents,
                        const char *const *names, size_t n);
/* Whether key[0..len) is the team of one of the names and none of them itself. */
int config_is_team(const char *key, size_t len, const char *const *names, size_t n);

/* ---- dropped.c ---- */

/* Whether such a key may be ignored (config_options.dropped). */
int loader_may_drop(const struct loader *l, const struct yaml_node *key);
/* Removes from the map (NULL: none) the keys that `is_used` refuses, and reports them in one
 * line: "place: path: dropped a and b: WHY". Keys that cannot be dropped are refused:
 * "place: path: a is WHY". Keys that are not of the schema are left to schema_read. Returns
 * the number of removed keys, or ERR_CONFIG. */
int loader_drop(const struct loader *l, struct yaml_node *map, const char *path,
                const struct schema *known,
                int (*is_used)(const void *ctx, const char *key), const void *ctx,
                const char *why);

/* ---- first_update.c ---- */

/* If the configuration is new and does not give the run's warm-up, and the run would end
 * before any agent that uses it learns: a tenth of the run's steps. Longer runs keep the
 * default. */
void loader_shorten_warmup(const struct loader *l);

/* ---- agent_section.c: the keys under `defaults` or of one agent ---- */

/* Reads the section's values into *a and checks what the schema cannot express, taking the
 * values that *a already has into account. path: of the section. Removes keys from the
 * section that config_options.dropped may be told of. */
int agent_section_read(const struct loader *l, const struct yaml_node *section,
                       const char *path, struct agent_config *a);
/* Fills in all values that are still unset; the algorithm exists. */
void agent_section_resolve(struct agent_config *a);
/* Sets the algorithm's own defaults for the keys that neither section gives. Either section
 * may be NULL. */
void agent_section_default_values(const struct yaml_node *section,
                                  const struct yaml_node *defaults,
                                  struct agent_config *a);
/* Uses the algorithm's own critic network, if it has one, for the values that neither
 * section gives. Either section may be NULL. */
void agent_section_default_critic(const struct yaml_node *section,
                                  const struct yaml_node *defaults,
                                  struct agent_config *a);

#endif
