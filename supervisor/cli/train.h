/* train.h - what `run` and `resume` share: training in front of a person. */
#ifndef SUPERVISOR_CLI_TRAIN_H
#define SUPERVISOR_CLI_TRAIN_H

#include "supervisor/cli/cli.h"
#include "supervisor/run/training.h"

/* Trains with the log of the supervisor in the run's folder, tells on stderr (and, with
 * --json, on stdout) what happens, and returns the exit code. args: all but the observer.
 */
int train_watched(const struct cli *cli, const struct training_args *args);

/* The directory of --rescue is made, and can be written to. NULL: none is wanted. */
int train_check_rescue(const char *dir, struct err *err);

/* "KEY=VALUE" of --set, kept in order. */
enum { TRAIN_MAX_SET = 256 };
struct train_sets {
    const char *set[TRAIN_MAX_SET + 2]; /* room for --seed and one of --seeds */
    size_t n;
};
/* 0, or CLI_USAGE, reported. */
int train_take_set(const struct cli *cli, struct train_sets *s, const char *text);

#endif
