/* policy_source.h - where the checkpoints are that agents name (settings.from).
 */
#ifndef SUPERVISOR_BEGIN_POLICY_SOURCE_H
#define SUPERVISOR_BEGIN_POLICY_SOURCE_H

#include "common/config/run_config.h"
#include "common/err/err.h"

struct policy_search { /* all borrowed */
    const char *runs_dir;
    void (*on_skipped)(void *ctx, const char *line); /* as in run_dir_find_checkpoint */
    void *ctx;
    int no_start; /* programs are not asked what they are */
};

/* The absolute prefix of the files that the agent names, free(). `from` is the prefix or folder
 * of a checkpoint if such files exist, otherwise RUN or RUN@STEP under runs_dir
 * (run_dir_find_checkpoint). */
int policy_find_prefix(char **ret, const struct agent_config *a,
                       const struct policy_search *q, struct err *err);

/* RUN/config.yaml for RUN/checkpoints/STEP/AGENT/model.ckpt-STEP, free(); NULL: the prefix is
 * not in a run's directory. */
char *policy_config_beside(const char *prefix);

/* AGENT of such a prefix, free(). */
char *policy_agent_of(const char *prefix);

#endif
