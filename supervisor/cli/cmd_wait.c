/* `brood wait`: waits until a run is over. */
#include "common/text/plain_text.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/cli/submitted.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_watch.h"

#include <stdlib.h>

enum { JOB_EVERY_MS = 1000 }; /* Slurm is asked */

static int run_wait(struct cli *cli, void *values, int argc, char **argv)
{
    struct pollfd fds[RUN_WATCH_FDS];
    struct run_watch w;
    struct run_facts facts = {0};
    struct submitted job;
    struct err err = {0};
    const char *name = argv[0];
    char *path = NULL;
    int code, has_end;

    /* A run that was submitted may have no directory yet. */
    while (run_dir_find(cli->runs_dir, name, &path, &err) < 0) {
        if (name == NULL || !submitted_find(&job, cli->runs_dir, name) ||
            !submitted_is_live(&job))
            return cli_fail_run(cli, &err);
        (void)poll(NULL, 0, JOB_EVERY_MS);
    }
    if (run_record_exit_code(path, &has_end) < 0 && run_dir_denied(path, &err) < 0) {
        code = cli_fail_run(cli, &err);
    } else {
        run_watch_begin(&w, path);
        while (!run_watch_is_over(&w, &code)) {
            run_watch_poll(&w, fds);
            (void)poll(fds, RUN_WATCH_FDS, RUN_WATCH_EVERY_MS);
        }
        run_watch_end(&w);
        if (!cli->quiet)
            run_facts_get(&facts, path, 0);
        if (!cli->quiet && cli->json) {
            struct progress *progress = run_facts_progress(path);

            facts.progress = progress;
            run_facts_print_json(&facts);
            progress_free(progress);
        } else if (!cli->quiet)
            (void)printf("%s: %s, exit code %d\n", PLAIN_NAME(facts.status.run),
                         PLAIN_NAME(facts.status.state), facts.status.exit_code);
        run_facts_done(&facts);
    }
    free(path);
    return code;
}

const struct command cmd_wait = {
    .name = "wait",
    .arguments = "[RUN]",
    .one = "run",
    .summary = "Wait until a run is over and return its exit code",
    .help =
        "\nReturns at once if the run is over already; waits for the job of one that\n"
        "was submitted and has not begun. The exit code is 137 if supervisor and\n"
        "keeper were killed, and 3 if there is no such run, or if it belongs to\n"
        "another user and there is no permission to see it.\n"
        "\nexample: brood wait simple_spread-1 && brood eval simple_spread-1\n",
    .takes = CLI_LIVE,
    .run = run_wait,
};
