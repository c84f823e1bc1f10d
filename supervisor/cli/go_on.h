/* go_on.h - going on with a run from a checkpoint of its own: `resume`, and what the keeper
 * goes on with when a supervisor has died. */
#ifndef SUPERVISOR_CLI_GO_ON_H
#define SUPERVISOR_CLI_GO_ON_H

#include "supervisor/cli/train.h"

struct resume_options {
    const char *run;  /* NULL: the newest */
    const char *from; /* NULL: the newest complete checkpoint */
    struct train_sets sets;
    int anyway;
    int trust; /* of a directory that is not the caller's (run_dir_check_trust) */
    const char *rescue; /* as training_args has it */
};

/* Trains it to its end in front of a person, and returns the exit code; a run that is over
 * is done. Below a keeper (keep.h). */
int go_on_with_run(const struct cli *cli, const struct resume_options *o);

#endif
