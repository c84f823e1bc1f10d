/* defaults.h - what a configuration changes from the defaults.
 *
 * Default  what a file that gives only the environment, its agents and their algorithms would
 *          get in this build; derived values (experience.warmup) are derived from that
 *          file's own.
 */
#ifndef SUPERVISOR_FACTS_DEFAULTS_H
#define SUPERVISOR_FACTS_DEFAULTS_H

#include "common/config/run_config.h"
#include "common/mem/words.h"
#include "supervisor/metrics/json.h"

enum { DEFAULTS_ROWS_MAX = 400 };

/* "rows": [[key, value, default, is it changed], ...] into an object that is open: the first
 * DEFAULTS_ROWS_MAX keys that the configuration changes, then those of n further keys that it
 * does not. A key that the configuration, or the file of the defaults, does not have has the
 * value null. c NULL: there is no configuration. Returns an error if the defaults are not known;
 * they are null then. */
int defaults_put(const struct run_config *c, const char *const *keys, size_t n,
                 struct json *j, struct err *err);
/* Appends the keys that the configuration changes, those that are in the list already left
 * out; in the list's arena. */
void defaults_add_keys(const struct run_config *c, struct words *ret);

#endif
