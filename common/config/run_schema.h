/* run_schema.h - the tables of all keys of the configuration file. */
#ifndef COMMON_CONFIG_RUN_SCHEMA_H
#define COMMON_CONFIG_RUN_SCHEMA_H

#include "common/config/schema.h"

extern const struct schema run_schema;   /* of struct run_config */
extern const struct schema agent_schema; /* of struct agent_config */
/* Of struct hooks_config: FIELD_WORDS for each event. */
extern const struct schema hooks_schema;

/* Shorter forms of keys of an agent's section, up to a NULL key (shorthands.c). */
struct schema_alias {
    const char *key; /* as it may be written, "recurrent.width" */
    const char *is;  /* "settings.recurrent" */
    int none_is_zero;
};
extern const struct schema_alias agent_aliases[];

/* Whether an optimizer of that type has the key (agent_section.c). */
int optimizer_has(enum optimizer_type type, const char *key);

extern const char *const optimizer_names[]; /* by enum optimizer_type */

/* The part of `path` after "prefix."; "" if it equals the prefix; NULL if it does not begin
 * with it. */
const char *config_path_within(const char *path, const char *prefix);

/* ---- hooks_config.c: programs that the configuration names ---- */

/* Whether PATH has an executable file of that name, as execvp would find it; relative
 * folders of PATH are below `directory`. */
int command_is_on_path(const char *directory, const char *name);
/* ERR_CONFIG: the command has too many words. path: of its key. */
int command_check_words(const struct yaml_node *command, const char *path,
                        struct err *err);
/* Checks the directory in which commands start, or sets it to the working directory; it is
 * then in the arena. given: its value in the file, or NULL. path: of its key. */
int command_complete_directory(const char **directory, struct arena *arena,
                               const struct yaml_node *given, const char *path,
                               struct err *err);
/* Checks and completes the section `on` where the table does not suffice. */
int hooks_config_complete(struct run_config *c, const struct yaml_node *root,
                          struct err *err);
/* The command of an event's field; NULL: none is given, or the field is not an event. */
const struct yaml_node *hooks_config_command(const struct hooks_config *c,
                                             const struct field *f);
/* ERR_CONFIG, with the command's place: a program of the section cannot be executed. */
int hooks_config_find(const struct run_config *c, struct err *err);

/* ---- env_config.c ---- */

/* Whether a key of `env` has an effect, given the section's other values
 * (schema.applies). */
int env_config_applies(const void *root, const void *section, const struct field *field);
/* Checks and completes the section `env` where the table does not suffice: exactly one of
 * id, command and plugin, and the keys that each allows. */
int env_config_complete(struct run_config *c, const struct yaml_node *root,
                        struct err *err);
/* Checks some new values, `env`, against the complete section of c in the same way. */
int env_config_check(const struct run_config *c, const struct yaml_node *env,
                     struct err *err);

#endif
