/* changes.h - changing the configuration of a live run, without I/O.
 *
 * A change is a setting: a key and its typed value. Configurations are copied, changed and
 * compared as values. The text "KEY=VALUE" is parsed once, where a request arrives, and
 * formatted for people and the journal. No YAML document is read or written for a change.
 * Kinds    enum field_change in schema.h; the table row of each key has its kind. Except
 *          for CHANGE_RESTART, values contain no pointers, and their texts no commas.
 * Follows  if a default changes, the agents' values that equal it change with it.
 * Words    run_config_set takes "KEY=VALUE" texts, run_config_diff finds what differs between two
 *          configurations, run_config_apply changes one by a setting.
 */
#ifndef COMMON_CONFIG_CHANGES_H
#define COMMON_CONFIG_CHANGES_H

#include "common/config/run_config.h"
#include "common/config/schema.h"

#include <stddef.h>

/* Finds the value of a path. Returns what its tables are of: c, its `defaults` or one of its
 * agents; NULL: there is no such key. The value may be changed only if c may. */
void *run_config_locate(const struct run_config *c, const char *path,
                        struct schema_place *ret);

/* ---- comparing ---- */

/* One value that differs between two configurations. */
struct config_change {
    enum field_change kind;
    size_t agent;              /* index; n_agents: a value of the run or of `defaults` */
    const char *path;          /* full path: "agents.agent_0.optimizer.learning_rate" */
    const char *key;           /* the path within the section of an agent or `defaults` */
    const char *text;          /* the new value, "0.001"; "": it was removed */
    double number;             /* CHANGE_SETTING: the new value; 0 for `none`; a
                                * schedule's `from` */
    int new_weights;           /* old weights may not fit, or may mean something else */
    const struct field *field; /* NULL: the agents themselves differ */
    const void *was, *is;      /* the values; NULL: absent */
};
struct config_diff {
    struct config_change *list; /* first those of the run and of `defaults` */
    size_t n, cap;
    struct arena arena; /* private */
};

/* Lists the differences, which point into both configurations. If the agents' names differ, that
 * is one difference: CHANGE_RESTART with path "agents". following: such that applying every
 * "path=text" turns `was` into `is`: leaves out agents' values that follow a changed default, and
 * lists those that do not. */
void run_config_diff(struct config_diff *ret, const struct run_config *was,
                     const struct run_config *is, int following);
void config_diff_done(struct config_diff *d);
/* The old value as text; "" if there was none, or it is a section; free(). */
char *config_change_was(const struct config_change *c);
/* The first difference of the kinds (bits 1u << kind); NULL: there is none. */
const struct config_change *config_diff_find(const struct config_diff *d, unsigned kinds);

/* Whether two agents have equal values; names are not compared. */
int agent_config_is_same(const struct agent_config *a, const struct agent_config *b);

/* ---- settings ---- */

struct config_setting {
    char *path;                /* owned */
    const struct field *field; /* its row in the tables; not CHANGE_RESTART */
    union {
        int64_t whole;            /* FIELD_I64, FIELD_U64, FIELD_BYTES */
        double real;              /* FIELD_F64, FIELD_F64_OR_NONE, FIELD_SECONDS */
        int choice;               /* FIELD_BOOL, FIELD_ENUM */
        struct schedule schedule; /* FIELD_SCHEDULE */
    } value;                      /* 0 also if the value was removed */
    /* over > 0: the setting follows this schedule (schedule.h), and `value` is one of
     * its values. */
    struct schedule schedule;
};

struct config_settings { /* all-zero: none */
    struct config_setting *list;
    size_t n, cap;
};

/* Returns the setting that makes the change; the caller owns its path. */
struct config_setting config_change_setting(const struct config_change *c);
/* Appends it; takes its path. */
void config_settings_add(struct config_settings *s, struct config_setting one);
/* Replaces the setting of the same key by a copy of `one`, or appends the copy. */
void config_settings_replace(struct config_settings *s, const struct config_setting *one);
void config_settings_done(struct config_settings *s);
struct config_setting config_setting_copy(const struct config_setting *s);
/* Returns the value as text, "" if it was removed; if it has a schedule, that: "0.9 to
 * 0.99 over 1000"; free() it. */
char *config_setting_text(const struct config_setting *s);
/* "KEY=VALUE,..."; free() it. */
char *config_settings_text(const struct config_settings *s);
/* Parses "KEY=VALUE"; if the value is a schedule, `value` is its first value. ERR_CONFIG:
 * c has no such key, the key cannot change in a live run, or the value is wrong. A size may
 * lack its unit, as in journals of older builds: bytes. */
int config_setting_parse(struct config_setting *ret, const struct run_config *c,
                         const char *text, struct err *err);

/* As run_config_set, for a live run: a key that changes without a respawn may be given
 * a schedule; *ret then has the schedule's last value. Adds a setting to *given for each
 * such key in `set`, even if its value does not change; the caller frees *given, also on
 * failure. ERR_CONFIG. */
int run_config_set_live(struct run_config *ret, const struct run_config *from,
                        const char *const *set, size_t n_set,
                        struct config_settings *given, struct err *err);

/* The kinds of changes that take effect without a respawn. */
#define CHANGE_KINDS_LIVE (1u << CHANGE_LIVE | 1u << CHANGE_SETTING)

/* Appends the settings that turn `was` into `is`, for differences of the given kinds (bits
 * 1u << kind, without CHANGE_RESTART). */
void run_config_diff_settings(struct config_settings *ret, const struct run_config *was,
                              const struct run_config *is, unsigned kinds);
/* Assigns the value. If it is a default, agents that follow the default change, too. The
 * key must exist in c. */
void run_config_apply(struct run_config *c, const struct config_setting *s);
void run_config_apply_all(struct run_config *c, const struct config_settings *s);
/* Assigns the value of this key alone: agents do not follow a default. */
void run_config_apply_alone(struct run_config *c, const struct config_setting *s);

/* Gives *c the values that `from` has, where they differ in these kinds. */
void run_config_apply_diff(struct run_config *c, const struct run_config *from,
                           unsigned kinds);

#endif
