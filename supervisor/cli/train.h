/* train.h - training with the live view, of a new run or from a checkpoint: for `run`, `resume`
 * and `fork`, and for the keeper after a supervisor has died. All of it is called below a keeper
 * (cli_keep).
 *
 * Events   with --json, one object per event on stdout: start, then those that run_event.c marks
 *          as printed, each with time, event and env_steps (processes, rows of metrics, changes,
 *          checkpoints, ...), and at the end done, stopped, cut_off or failed. With --detach
 *          only start, and on stderr messages until the first round is done.
 */
#ifndef SUPERVISOR_CLI_TRAIN_H
#define SUPERVISOR_CLI_TRAIN_H

#include "supervisor/begin/trial.h"
#include "supervisor/cli/cli.h"
#include "supervisor/run/training.h"

/* Trains and returns the exit code. The supervisor logs to the run's directory; progress is
 * shown on stderr and, with --json, as events on stdout. args: all but the observers is set.
 */
int train_watched(const struct cli *cli, const struct training_args *args);
/* Prints the events start and done of a run that has nothing left to do. */
void train_print_done(const struct training_args *args,
                      const struct training_result *result);

/* How a configuration is read that is to be trained: with what it extends and the values of --set,
 * its programs asked, policies found by `search`, and one agent of each kind tried by `trial` (NULL:
 * none is). All are borrowed. */
struct config_options train_config_options(const struct cli *cli,
                                           const struct cli_texts *sets,
                                           struct policy_search *search,
                                           struct trial *trial);

/* Creates the directory of --rescue and checks that it is writable. NULL: does nothing. */
int train_check_rescue(const char *dir, struct err *err);

/* `take` of --memory-limit, such as 8G; to: an int64_t, the bytes. */
int train_take_memory(const struct cli *cli, const char *text, void *to);

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

/* Trains the run to its end, and returns the exit code. A run that has nothing left to do is
 * reported as done. */
int resume_run(const struct cli *cli, const struct resume_options *o);

#endif
