/* setting_parts.h - in which keys the configurations of two runs differ, from which step on, and in
 * which values their provenances do.
 *
 * Course    the configuration of a run at its oldest checkpoint, and what the journal has changed
 *           since then. Changes of later steps are applied to both runs in step.
 * Keys      those of run_config_diff, without the run's name, and without agents' values that
 *           follow a default which differs. A key is listed once, with the values that it had when
 *           it first differed.
 */
#ifndef SUPERVISOR_DIFF_SETTING_PARTS_H
#define SUPERVISOR_DIFF_SETTING_PARTS_H

#include "common/config/change_plan.h"
#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/rundir/run_dir.h"

#include <stddef.h>
#include <stdint.h>

struct settings_course {
    struct run_config config;
    struct change_plan plan;
    uint64_t begin; /* the step at which config was in force */
};

/* ERR_NOT_FOUND: it has no checkpoint; ERR_CONFIG: another build wrote it; ERR_FORMAT, ...; *ret
 * is left alone then. */
int settings_course_read(struct settings_course *ret, struct run_dir *dir,
                         config_env_names_fn env_names, struct err *err);
void settings_course_done(struct settings_course *c); /* all-zero is fine */

struct setting_part {
    char *key, *here, *there; /* values as text; "": there is none */
    uint64_t from;            /* the first step at which it is known to differ */
    int is_output;            /* it has no effect on any round */
};
struct setting_parts { /* all-zero: none */
    struct setting_part *list;
    size_t n, cap;
};

/* Appends what differs before step `until`, in the order of steps; then the length, if that of the
 * end differs. */
void setting_parts_find(struct setting_parts *ret, const struct settings_course *here,
                        const struct settings_course *there, uint64_t until);
/* Appends the lines of the runs' provenances that differ, but for their commands. */
void provenance_parts_find(struct setting_parts *ret, const char *here,
                           const char *there);
/* The step of the newest difference that may have an effect at `step`; UINT64_MAX: none. */
uint64_t setting_parts_newest(const struct setting_parts *p, uint64_t step);
void setting_parts_done(struct setting_parts *p);

#endif
