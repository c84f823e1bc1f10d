/* changes.h - changing the configuration of a run that lives: pure, no I/O.
 *
 * A change is made of assignments "KEY=VALUE" over the resolved configuration, checked as
 * the file is at start. What it comes to is found by comparing before and after, value by
 * value, so that it does not matter how it was said (`set`, an edited file).
 * Kinds    schema.h, enum field_change; each key's is in its table row.
 */
#ifndef COMMON_CONFIG_CHANGES_H
#define COMMON_CONFIG_CHANGES_H

#include "common/config/run_config.h"
#include "common/config/schema.h"

#include <stddef.h>
#include <stdio.h>

/* One value that is another one. */
struct config_change {
    enum field_change kind;
    size_t agent;     /* index; n_agents: the run's own, or a default */
    const char *path; /* whole: "agents.agent_0.optimizer.learning_rate" */
    const char *key;  /* within the section of an agent or the defaults */
    const char *text; /* "0.001"; "": it has gone */
    double number;    /* CHANGE_SETTING: the value; none is 0 */
    int new_weights;  /* weights of before may not fit, or mean something else */
};
typedef void (*config_change_fn)(void *ctx, const struct config_change *c);

/* Strings are borrowed for the call. Defaults come before agents. Configurations with
 * other agents differ in one CHANGE_RESTART, "agents". */
void run_config_compare(const struct run_config *was, const struct run_config *is,
                        config_change_fn fn, void *ctx);

/* The same, so that making every "path=text" turns `was` into `is`: an agent's value that
 * follows the defaults is left out, one that no longer does is told. */
void run_config_compare_following(const struct run_config *was,
                                  const struct run_config *is, config_change_fn fn,
                                  void *ctx);

/* `from` with the assignments made, as a configuration of its own. ERR_CONFIG as
 * run_config_parse; *ret is then all-zero. */
int run_config_assign(struct run_config *ret, const struct run_config *from,
                      const char *const *set, size_t n_set, config_env_names_fn env_names,
                      struct err *err);

/* The differences of the kinds given (bits 1u << kind) as assignments, comma between,
 * such that making them turns `was` into `is`; "" if there are none. free(). No value of
 * those kinds holds a comma. */
char *run_config_assignments(const struct run_config *was, const struct run_config *is,
                             unsigned kinds);
/* The same of those values only that `agreed` has otherwise, too: what was asked for and
 * is taken back is none. A default counts where it or an agent has the value otherwise. */
char *run_config_assignments_beyond(const struct run_config *was,
                                    const struct run_config *agreed,
                                    const struct run_config *is, unsigned kinds);
/* Takes such a text apart, in place: pointers into it, at most max, and how many. */
size_t config_split_assignments(char *text, const char **ret, size_t max);

#endif
