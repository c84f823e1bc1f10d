/* live_changes.h - which changes of its configuration a run that has begun can make.
 *
 * The kind of each key is `.change` of its row in common/config/run_schema.c or, of settings, in
 * agent/algo/settings.c; without it a key needs a new run (common/config/changes.h).
 */
#ifndef SUPERVISOR_BEGIN_LIVE_CHANGES_H
#define SUPERVISOR_BEGIN_LIVE_CHANGES_H

#include "common/config/run_config.h"

/* Refuses the first difference that needs a new run. run: the path of the run's directory;
 * when: "while the run lives", "in a fork". ERR_CONFIG names the key and, if a new run is
 * needed, the command for it. */
int live_changes_check(const struct run_config *was, const struct run_config *is,
                       const char *run, const char *when, struct err *err);
/* The part of it that also holds for the changes that a configuration has for later steps. */
int live_changes_check_rows(const struct run_config *was, const struct run_config *is,
                            const char *when, struct err *err);

#endif
