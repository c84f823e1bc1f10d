/* train.h - shared code of `run` and `resume`: training with the live view. */
#ifndef SUPERVISOR_CLI_TRAIN_H
#define SUPERVISOR_CLI_TRAIN_H

#include "supervisor/cli/cli.h"
#include "supervisor/run/training.h"

/* Trains and returns the exit code. The supervisor logs to the run's directory; progress is
 * shown on stderr and, with --json, as events on stdout. args: all but the observer is set.
 */
int train_watched(const struct cli *cli, const struct training_args *args);

/* Creates the directory of --rescue and checks that it is writable. NULL: does nothing. */
int train_check_rescue(const char *dir, struct err *err);

/* `take` of --memory-limit, such as 8G; to: an int64_t, the bytes. */
int train_take_memory(const struct cli *cli, const char *text, void *to);

#endif
