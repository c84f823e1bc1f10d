/* resume_config.h - the configuration of a run at the checkpoint from which it is resumed,
 * and the changes to apply from there on. */
#ifndef SUPERVISOR_RUN_RESUME_CONFIG_H
#define SUPERVISOR_RUN_RESUME_CONFIG_H

#include "common/config/run_config.h"
#include "supervisor/run/change_plan.h"
#include "supervisor/save/resume.h"

struct resume_config {
    struct run_config config; /* in force when the run is resumed */
    struct run_config wanted; /* with the plan and the changes that wait for a respawn */
    struct change_plan plan;
};
void resume_config_done(struct resume_config *c); /* all-zero is fine */
/* *ret: the configuration in the checkpoint; run_config_done. ERR_CONFIG: another build
 * wrote it, and this build cannot read it. */
int resume_saved_config(const struct resume *r, config_env_names_fn env_names,
                        struct run_config *ret, struct err *err);
/* Copies the run's length, experience.keep, evaluation.render and its max_to_keep, and where it
 * is computed (cluster, device), which have no effect on any round. */
void resume_take_length(struct run_config *c, const struct run_config *from);
/* `wanted` is config.yaml as it is now. It must equal the checkpoint's configuration with
 * all later changes of the journal applied, which then are applied again at their steps.
 * Those of resume_take_length and values that wait for a respawn may differ.
 * ERR_CONFIG names the first other difference. */
int resume_check_config(const struct resume *r, const struct run_config *wanted,
                        const char *journal, config_env_names_fn env_names,
                        struct resume_config *ret, struct err *err);
/* --anyway: applies `wanted` from the first round on, whatever the run had before. */
void resume_force_config(const struct resume *r, const struct run_config *wanted,
                         config_env_names_fn env_names, struct resume_config *ret);

#endif
