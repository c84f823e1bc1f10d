/* run_schema.h - the tables of the configuration file: every key there is. */
#ifndef COMMON_CONFIG_RUN_SCHEMA_H
#define COMMON_CONFIG_RUN_SCHEMA_H

#include "common/config/schema.h"

extern const struct schema run_schema;      /* of struct run_config */
extern const struct schema agent_schema;    /* of struct agent_config */
extern const struct schema settings_schema; /* of struct algorithm_settings */

/* Whether an optimizer of that type has the setting ("type" and "learning_rate" all do).
 */
int optimizer_has(enum optimizer_type type, const char *setting);

extern const char *const optimizer_names[]; /* by enum optimizer_type */

/* What of `path` is behind "prefix."; "": it is the prefix; NULL: it is elsewhere. */
const char *config_path_within(const char *path, const char *prefix);

/* ---- env_config.c ---- */

/* Whether a key of the section `env` means anything there (schema.applies). */
int env_config_applies(const void *root, const void *section, const struct field *field);
/* What the table cannot say of the section `env`: id, command or plugin, and what goes
 * with which. */
int env_config_settle(struct run_config *c, const struct yaml_node *root,
                      struct err *err);
/* The same of some values, `env`, over a section that is whole. */
int env_config_check(const struct run_config *c, const struct yaml_node *env,
                     struct err *err);

/* The last of the checks: config_options.try_agents, with the place of what it says. */
int run_config_try(const struct run_config *c, const struct yaml_node *root,
                   const struct config_options *options, struct err *err);

#endif
