/* resume_config.h - the configuration of a run at the checkpoint from which it is resumed or
 * forked, and the changes to apply from there on.
 *
 * Equal    config.yaml must equal the checkpoint's configuration with all later changes of the
 *          journal applied, which then are applied again at their steps. Values that wait for a
 *          respawn may differ, and so may those that have no effect on any round: the length,
 *          run.stop_when, checkpoint.keep_best, experience.keep, evaluation.render and its
 *          max_to_keep, cluster and device.
 * Length   (run_length.h) one that differs from that of the journal, or that the command gives,
 *          is a change at the checkpoint's step; lengths for later steps are then cancelled.
 * Newest   a supervisor that died between writing the journal and config.yaml recorded the
 *          newest change only in the journal. It counts.
 */
#ifndef SUPERVISOR_BEGIN_RESUME_CONFIG_H
#define SUPERVISOR_BEGIN_RESUME_CONFIG_H

#include "common/config/run_config.h"
#include "supervisor/begin/change_read.h"
#include "supervisor/save/resume.h"

struct resume_config {
    struct run_config config; /* in force at the checkpoint */
    struct run_config wanted; /* with the plan and the changes that wait for a respawn */
    struct change_plan plan;
    /* For the journal, which does not have them yet: changes at the checkpoint's step, which
     * the plan has, and the changes that these cancel, as "KEY@STEP,..." (change_plan.h);
     * NULL: none. */
    struct config_settings given;
    char *cancelled;
};
void resume_config_done(struct resume_config *c); /* all-zero is fine */

struct resume_from {
    const struct run_config *saved;  /* in force at the checkpoint */
    uint64_t step;                   /* of the checkpoint */
    const struct run_config *wanted; /* config.yaml, with what the command assigned */
    int is_length_given;             /* by the command */
    struct change_source journal;
};
/* For a resume: ERR_CONFIG names the first difference that must not be. *ret is then all-zero. */
int resume_config_check(struct resume_config *ret, const struct resume_from *from,
                        struct err *err);
/* For a fork, where a difference is ignored: only values that may differ are taken from an
 * edited config.yaml. */
int resume_config_make(struct resume_config *ret, const struct resume_from *from,
                       struct err *err);
/* --anyway: applies `wanted` from the first round on, whatever the run had before or had
 * planned. from->saved: NULL if it cannot be read. */
void resume_config_force(struct resume_config *ret, const struct resume_from *from);

/* *ret: the configuration in the checkpoint; run_config_done. now: where its external environment
 * is now, if it has moved; NULL: where it was. ERR_CONFIG: another build wrote it, and this
 * build cannot read it. ERR_INTERRUPTED or a failure of the machine (err_is_failure): this is not
 * known. */
int resume_saved_config(const struct resume *r, config_env_names_fn env_names,
                        const struct env_config *now, struct run_config *ret,
                        struct err *err);
/* resume_saved_config where config.yaml, as it is now, says where the environment is. */
int resume_saved_config_at(const struct resume *r, config_env_names_fn env_names,
                           const char *config_yaml, struct run_config *ret,
                           struct err *err);

#endif
