/* resume_run.h - resuming a run from one of its checkpoints: for `brood resume`, and for
 * the keeper after a supervisor has died. */
#ifndef SUPERVISOR_CLI_RESUME_RUN_H
#define SUPERVISOR_CLI_RESUME_RUN_H

#include "supervisor/cli/train.h"

struct resume_options {
    const char *run;       /* NULL: the newest run */
    const char *from;      /* NULL: the newest complete checkpoint */
    struct cli_texts sets; /* of --set */
    int anyway, detach;
    int trust;          /* accept another user's directory (run_dir_check_trust) */
    const char *rescue; /* as in training_args */
    long long until;    /* likewise */
    int64_t memory_limit_bytes; /* likewise */
};

/* Trains the run to its end with the live view, and returns the exit code. A run that has
 * nothing left to do is reported as done. Must be called below a keeper (keep.h). */
int resume_run(const struct cli *cli, const struct resume_options *o);

#endif
