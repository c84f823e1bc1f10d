/* resume_config.h - how a run was configured at the checkpoint that it is resumed from, and
 * what is to change from there on. */
#ifndef SUPERVISOR_RUN_RESUME_CONFIG_H
#define SUPERVISOR_RUN_RESUME_CONFIG_H

#include "common/config/run_config.h"
#include "supervisor/run/change_plan.h"
#include "supervisor/save/resume.h"

struct resume_config {
    struct run_config config; /* to begin with */
    struct run_config wanted; /* with the plan, and what waits for a respawn */
    struct change_plan plan;
};
void resume_config_done(struct resume_config *c); /* all-zero is fine */
/* How the run was configured then, for run_config_done. ERR_CONFIG: by another build. */
int resume_saved_config(const struct resume *r, config_env_names_fn env_names,
                        struct run_config *ret, struct err *err);
/* `wanted` is config.yaml as it is now: it must be what the run had at the checkpoint
 * with the changes since made, which the journal knows and which are made again at their
 * steps. How long the run is may differ, whether its log is kept, and what waits for a
 * respawn. ERR_CONFIG names the first difference. */
int resume_check_config(const struct resume *r, const struct run_config *wanted,
                        const char *journal, config_env_names_fn env_names,
                        struct resume_config *ret, struct err *err);
/* Whatever it was: `wanted`, from the first round on. */
void resume_force_config(const struct resume *r, const struct run_config *wanted,
                         config_env_names_fn env_names, struct resume_config *ret);

#endif
