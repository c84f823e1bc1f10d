#include "supervisor/cli/train.h"

#include "common/mem/xmalloc.h"
#include "supervisor/begin/fork.h"
#include "supervisor/env/env.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct fork_options {
    const char *run; /* RUN or RUN@STEP */
    const char *name, *rescue;
    struct cli_texts sets; /* of --set */
    long long until;
    int force, detach, trust;
};

static void on_making(void *ctx, const char *path, uint64_t inode, int resume)
{
    const struct cli *cli = ctx;

    if (resume)
        keeper_send_making(&cli->keeper, path, inode);
}

/* Makes the new run's directory; ret: its path. Returns 0 or an exit code. */
static int make_fork(struct cli *cli, const struct fork_options *o, char **ret)
{
    struct binaries bin;
    struct fork_args args = {.runs_dir = cli->runs_dir,
                             .name = o->name,
                             .force = o->force,
                             .set = o->sets.text,
                             .n_set = o->sets.n,
                             .binaries = &bin,
                             .argc = cli->argc,
                             .argv = cli->argv,
                             .env_names = env_agent_names,
                             .on_skipped = cli_skipped,
                             .on_making = on_making,
                             .ctx = cli};
    char *run = run_dir_split(o->run, &args.step);
    struct run_dir *dir = NULL;
    struct err err = {0};
    char *from = NULL;
    int rc = run_dir_find(cli->runs_dir, run, &from, &err), code = 0;

    free(run);
    if (rc < 0)
        return cli_fail(cli, CLI_NOT_THERE, &err);
    args.from = from;
    if ((rc = binaries_find(&bin, &err)) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    else if ((!o->trust && run_dir_check_trust(from, &err) < 0) ||
             (rc = fork_run(&dir, &args, &err)) < 0)
        code = cli_fail(cli,
                        rc == ERR_NOT_FOUND ? CLI_NOT_THERE
                        : rc == -ESTALE     ? CLI_FAILED
                                            : CLI_USAGE,
                        &err);
    if (code == 0) {
        *ret = xstrdup(run_dir_path(dir));
        if (!cli->quiet)
            (void)fprintf(stderr, "%s: a fork of %s\n", run_dir_name(dir), o->run);
    }
    run_dir_free(dir);
    free(from);
    return code;
}

/* Whether the folder that a supervisor was making has become the run. */
static int is_made(const struct keeper_task *t)
{
    struct stat st;

    return t->folder == 0 ||
           (stat(t->path, &st) == 0 && (uint64_t)st.st_ino == t->folder);
}

static int run_fork(struct cli *cli, void *values, int argc, char **argv)
{
    struct fork_options *o = values;
    struct keeper_task again;
    struct err err = {0};
    char *path = NULL, *name;
    int code;

    if (argc != 1)
        return cli_usage(cli, "expected one run, RUN or RUN@STEP, got %d", argc);
    o->run = argv[0];
    if (!cli_keep(cli, o->detach, &code))
        return code;
    if (keeper_resume_task(&again) && is_made(&again))
        path = xstrdup(again.path);
    else if (train_check_rescue(o->rescue, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    else {
        name = again.path[0] != '\0' ? run_dir_name_of(again.path) : NULL;
        o->force = o->force && o->name != NULL; /* a number is not taken from anybody */
        o->name = name != NULL ? name : o->name;
        code = make_fork(cli, o, &path);
        free(name);
        if (code != 0)
            return code;
    }
    code = resume_run(
        cli, &(struct resume_options){
                 .run = path, .trust = 1, .rescue = o->rescue, .until = o->until});
    free(path);
    return code;
}

static const struct cli_option options[] = {
    {"name", "NAME",
     "name of the new run; default: the configuration's name and\n"
     "a number",
     CLI_TEXT(struct fork_options, name)},
    {"set", "KEY=VALUE",
     "what is different in the new run, from its first round on:\n"
     "any key that `brood set` can change",
     CLI_TEXTS(struct fork_options, sets)},
    {"force", NULL, "replace a run of that name", CLI_FLAG(struct fork_options, force)},
    {"detach", NULL,
     "return after the first round; the run continues in the\n"
     "background",
     CLI_FLAG(struct fork_options, detach)},
    {"until", "STEP", "stop there, as `brood stop` would; `resume` continues",
     CLI_NUMBER(struct fork_options, until, 1, INT64_MAX)},
    {"trust", NULL,
     "fork another user's run; programs that its configuration\n"
     "names are executed",
     CLI_FLAG(struct fork_options, trust)},
    {"rescue", "DIR",
     "if the run directory is deleted meanwhile, write the last\n"
     "checkpoint into a run in DIR",
     CLI_TEXT(struct fork_options, rescue)},
    {0}};

const struct command cmd_fork = {
    .name = "fork",
    .arguments = "RUN[@STEP] [options]",
    .summary = "Begin a new run with the whole state of another one at a checkpoint",
    .options = options,
    CLI_INTO(struct fork_options, 0),
    .help =
        "\nRUN: a name under the runs directory or a path. It may be live; it is only\n"
        "read. STEP: one of its checkpoints; default: the newest complete one. Without\n"
        "--set the fork repeats what became of the run and ends with the same bytes.\n"
        "\nexample: brood fork simple_spread-1 --name other --set "
        "run.env_steps=1200000\n",
    .run = run_fork,
};
