/* changes.h - changing the configuration of a live run: pure, no I/O.
 *
 * A change is a setting: a key and its typed value. Configurations are copied, changed and
 * compared as values; "KEY=VALUE" is read once, where it comes in, and written where
 * people or the journal read it. No YAML document is read or written for it.
 * Kinds    schema.h, enum field_change; each key's is in its table row. Keys of every kind
 *          but CHANGE_RESTART have values without pointers, and no comma in their text.
 * Follows  an agent's value that equals the default is the default: it changes with it.
 */
#ifndef COMMON_CONFIG_CHANGES_H
#define COMMON_CONFIG_CHANGES_H

#include "common/config/run_config.h"
#include "common/config/schema.h"

#include <stddef.h>

/* ---- comparing ---- */

/* One value that is another one. */
struct config_change {
    enum field_change kind;
    size_t agent;              /* index; n_agents: the run's own, or a default */
    const char *path;          /* whole: "agents.agent_0.optimizer.learning_rate" */
    const char *key;           /* within the section of an agent or the defaults */
    const char *text;          /* "0.001"; "": it has gone */
    double number;             /* CHANGE_SETTING: the value; none is 0 */
    int new_weights;           /* weights of before may not fit, or mean something else */
    const struct field *field; /* NULL: other agents */
    const void *was, *is;      /* the values; NULL: there is none */
};
typedef void (*config_change_fn)(void *ctx, const struct config_change *c);

/* Strings are borrowed for the call. Defaults come before agents. Configurations with
 * other agents differ in one CHANGE_RESTART, "agents". */
void run_config_compare(const struct run_config *was, const struct run_config *is,
                        config_change_fn fn, void *ctx);

/* The same, so that making every "path=text" turns `was` into `is`: an agent's value that
 * follows the defaults is left out, one that no longer does is reported. */
void run_config_compare_following(const struct run_config *was,
                                  const struct run_config *is, config_change_fn fn,
                                  void *ctx);

/* Whether the sections of two agents say the same; names do not count. */
int agent_config_is_same(const struct agent_config *a, const struct agent_config *b);

/* ---- settings ---- */

struct config_setting {
    char *path;                /* owned */
    const struct field *field; /* its row in the tables, of a kind that can change */
    union {
        int64_t whole; /* FIELD_I64, FIELD_U64, FIELD_BYTES */
        double real;   /* FIELD_F64, FIELD_F64_OR_NONE, FIELD_SECONDS */
        int choice;    /* FIELD_BOOL, FIELD_ENUM */
    } value;           /* 0 also where it is not given any more */
};

struct config_settings { /* all-zero: none */
    struct config_setting *list;
    size_t n, cap;
};

/* The value that is. */
struct config_setting config_change_setting(const struct config_change *c);
void config_settings_add(struct config_settings *s, const struct config_setting *one);
void config_settings_done(struct config_settings *s);
struct config_setting config_setting_copy(const struct config_setting *s);
/* The value as text, "" where it is not given any more; free(). */
char *config_setting_text(const struct config_setting *s);
/* "KEY=VALUE,..."; free(). */
char *config_settings_text(const struct config_settings *s);
/* From "KEY=VALUE" with a key of c that can change. ERR_CONFIG. */
int config_setting_parse(struct config_setting *ret, const struct run_config *c,
                         const char *text, struct err *err);

/* The differences of the kinds given (bits 1u << kind, without CHANGE_RESTART), appended
 * such that setting them turns `was` into `is`. */
void run_config_differences(struct config_settings *ret, const struct run_config *was,
                            const struct run_config *is, unsigned kinds);
/* Those that making the values of `was` into those of `is` takes, of values only that
 * `agreed` has otherwise, too: what was asked for and is taken back is none. A default
 * counts where it or an agent has the value otherwise. */
void run_config_differences_beyond(struct config_settings *ret,
                                   const struct run_config *was,
                                   const struct run_config *agreed,
                                   const struct run_config *is, unsigned kinds);

/* Puts the value into its place; agents that follow a default follow it. The key is one of
 * c's. */
void run_config_set(struct run_config *c, const struct config_setting *s);
/* The same of this key alone: nobody follows. */
void run_config_set_only(struct run_config *c, const struct config_setting *s);

#endif
