/* seed_jobs.h - `brood run --seeds 1,2,3 --jobs N`: N runs at a time, each of them a
 * `brood run` of its own, in a process group of its own.
 *
 * Output   whole lines of the runs' stderr and stdout, as they come, each after the run's
 *          name. With --json each object gets the key "run".
 * Signals  SIGINT, SIGTERM and SIGHUP are forwarded to the runs, and no further run starts;
 *          SIGTSTP stops all, SIGCONT continues them. If this process dies, the runs get
 *          SIGTERM.
 */
#ifndef SUPERVISOR_CLI_SEED_JOBS_H
#define SUPERVISOR_CLI_SEED_JOBS_H

#include "supervisor/cli/cli.h"

#include <stddef.h>

struct seed_job {
    const char *run;   /* its name */
    char *const *argv; /* of brood, NULL-terminated; argv[0] is not used */
};

/* Runs all jobs, at most `at_once` at a time, in their order. After one has failed, no
 * further one starts. Returns the exit code of the first that failed, or CLI_DONE. */
int seed_jobs_run(const struct cli *cli, const struct seed_job *jobs, size_t n,
                  size_t at_once);

#endif
