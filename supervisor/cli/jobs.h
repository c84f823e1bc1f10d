/* jobs.h - runs several `brood` commands side by side: `brood run --seeds --jobs N` and
 * `brood sweep`. Each is a process of its own, in a process group of its own.
 *
 * Output   whole lines of the commands' stderr and stdout, as they come, each after the run's
 *          name. With --json each object gets the key "run".
 * Signals  SIGINT, SIGTERM and SIGHUP are forwarded to the commands, and no further one starts;
 *          SIGTSTP stops all, SIGCONT continues them. If this process dies, they get SIGTERM.
 */
#ifndef SUPERVISOR_CLI_JOBS_H
#define SUPERVISOR_CLI_JOBS_H

#include "supervisor/cli/cli.h"

#include <stddef.h>

struct job {
    const char *run;   /* its name */
    char *const *argv; /* of brood, NULL-terminated; argv[0] is not used */
};

struct jobs_args {
    const struct job *jobs;
    size_t n;
    size_t at_once;
    /* Slurm's words before each command, such as "srun --nodes=1"; NULL: it runs here.
     * All jobs have the name `srun_name`: an interrupt is sent by it (slurm_interrupt); a
     * second one ends srun. */
    char *const *srun;
    const char *srun_name;
    int cores;   /* processors of each, as long as there are that many; 0: not limited */
    int goes_on; /* after one has failed, further ones start nevertheless */
    /* Whether a job that ended with this exit code, not CLI_DONE, ended as it was meant to, so
     * that further ones start. NULL: none did. */
    int (*is_meant)(void *ctx, size_t job, int code);
    /* Called when a job begins, and when it has ended with this exit code. All callbacks
     * may be NULL. */
    void (*on_start)(void *ctx, size_t job);
    void (*on_end)(void *ctx, size_t job, int code);
    /* For a view of all jobs. on_line gets the lines of their stderr, without their ends;
     * if it is NULL, they are printed. on_tick: ten times a second. on_suspend: before
     * SIGTSTP stops this process. */
    void (*on_line)(void *ctx, const char *line, size_t len);
    void (*on_tick)(void *ctx);
    void (*on_suspend)(void *ctx);
    void *ctx;
};

/* Runs all jobs, at most `at_once` at a time, in their order. Returns the exit code of the
 * first that failed, or else of one that ended as it was meant to, or CLI_DONE;
 * *ret_stopped: CLI_STOPPED if a signal kept jobs from starting, CLI_FAILED if one could not be
 * started, which is printed; otherwise CLI_DONE. */
int jobs_run(const struct cli *cli, const struct jobs_args *args, int *ret_stopped);

#endif
