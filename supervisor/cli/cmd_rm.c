/* `brood rm`: removes the directories of runs and studies. */
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/submitted.h"
#include "supervisor/metrics/json.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_remove.h"
#include "supervisor/study/study_dir.h"

#include <stdlib.h>
#include <string.h>

/* A run whose job is not over would begin again. folder: the job's. */
static int check_job(const char *run, const struct submitted *job, const char *folder,
                     struct err *err)
{
    if (submitted_is_live(job))
        return err_set(
            err, ERR_STATE,
            "%s would begin again: Slurm job %s is %s; `scancel %s` cancels it", run,
            job->id, job->state, job->id);
    if (submitted_is_unknown(job))
        return err_set(
            err, ERR_STATE,
            "%s might begin again: it is not known whether Slurm job %s is over "
            "(%s); if it is, remove %s first",
            run, job->id, job->reason, folder);
    return 0;
}

/* path: of its directory; NULL: it was submitted, and has none yet. */
static int remove_one(const struct cli *cli, const char *run, const char *path)
{
    char *folder = NULL;
    struct json j = {0};
    struct submitted job;
    struct err err = {0};

    if (path != NULL ? submitted_find_of(&job, path)
                     : submitted_find(&job, cli->runs_dir, run)) {
        folder = path != NULL ? submitted_folder_of(path)
                              : submitted_folder(cli->runs_dir, run);
        if (check_job(run, &job, folder, &err) < 0) {
            free(folder);
            return cli_fail(cli, CLI_USAGE, &err);
        }
    }
    if ((path == NULL || run_remove(path, &err) == 0) && folder != NULL)
        (void)submitted_remove(folder, &err);
    free(folder);
    if (err.code < 0)
        return cli_fail(
            cli, err.code == ERR_STATE || err.code == ERR_ARG ? CLI_USAGE : CLI_FAILED,
            &err);
    if (cli->json) {
        json_object(&j);
        json_put_str(&j, "removed", run);
        json_print(&j, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s was removed\n", run);
    }
    return CLI_DONE;
}

static int remove_study(const struct cli *cli, const char *path)
{
    char *name = run_dir_name_of(path);
    struct err err = {0};
    struct json j = {0};
    size_t n_runs;
    int code = CLI_DONE;

    if (study_dir_remove(path, &n_runs, &err) < 0) {
        code = cli_fail(
            cli, err.code == ERR_STATE || err.code == ERR_ARG ? CLI_USAGE : CLI_FAILED,
            &err);
    } else if (cli->json) {
        json_object(&j);
        json_put_str(&j, "removed", name);
        json_put_u64(&j, "runs", n_runs);
        json_print(&j, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s was removed, with its %zu run%s\n", name, n_runs,
                     n_runs == 1 ? "" : "s");
    }
    free(name);
    return code;
}

/* Whether the name is that of a run that was submitted. */
static int was_submitted(const struct cli *cli, const char *run)
{
    struct submitted job;

    return *run != '\0' && *run != '.' && strchr(run, '/') == NULL &&
           submitted_find(&job, cli->runs_dir, run);
}

static int remove_run(const struct cli *cli, const char *run)
{
    struct err err = {0};
    char *path = NULL;
    const int rc = run_dir_find_own_name(cli->runs_dir, run, &path, &err);
    const int code = rc == 0 || (rc == ERR_NOT_FOUND && was_submitted(cli, run))
                         ? remove_one(cli, run, path)
                         : cli_fail_run(cli, &err);

    free(path);
    return code;
}

static int run_rm(struct cli *cli, void *values, int argc, char **argv)
{
    struct err err = {0};
    int code = CLI_DONE;

    if (argc == 0)
        return cli_usage(cli, "expected at least one run");
    if (run_remove_leftovers(cli->runs_dir, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    for (int i = 0; i < argc; i++) {
        char *study = study_dir_find(cli->runs_dir, argv[i]);
        const int one =
            study != NULL ? remove_study(cli, study) : remove_run(cli, argv[i]);

        code = code == CLI_DONE ? one : code;
        free(study);
    }
    return code;
}

const struct command cmd_rm = {
    .name = "rm",
    .arguments = "RUN... | STUDY...",
    .summary = "Remove the directories of runs and studies that are over",
    .help =
        "\nA study is removed with all its runs. A live run is refused: stop it first. "
        "So\n"
        "is a study on which a sweep works, or with a live run. The others are still\n"
        "removed; the exit code is that of the first failure.\n"
        "\nexample: brood rm trial-s1 trial-s2 trial-s3\n",
    .takes = CLI_OVER,
    .run = run_rm,
};
