#include "supervisor/cli/keep.h"
#include "supervisor/cli/resume_run.h"

#include <stdint.h>

static int run_resume(struct cli *cli, void *values, int argc, char **argv)
{
    struct resume_options *o = values;
    struct keeper_task again;
    int code;

    o->run = argv[0];
    if (!cli_keep(cli, o->detach, &code))
        return code;
    if (keeper_resume_task(&again)) {
        /* The keeper has started this process after a supervisor died: resumes the keeper's
         * run. If the last supervisor already applied the command's --set and --from, they
         * are dropped: changes and checkpoints made since then count. */
        o->run = again.path;
        o->trust = 1; /* the command checked it before its first supervisor */
        if (again.committed) {
            o->sets.n = 0;
            o->from = NULL;
        }
    }
    return resume_run(cli, o);
}

static const struct cli_option options[] = {
    {"from", "STEP", "resume from this checkpoint and discard later ones",
     CLI_TEXT(struct resume_options, from)},
    {"set", "KEY=VALUE",
     "run.env_steps or run.episodes: extend the run;\n"
     "experience.keep: whether to keep the log at the end;\n"
     "cluster.*: on which machines it goes on;\n"
     "env.on_failure: whether failing episodes are skipped",
     CLI_TEXTS(struct resume_options, sets)},
    {"until", "STEP", "stop there, as `brood stop` would; `resume` continues",
     CLI_NUMBER(struct resume_options, until, 1, INT64_MAX)},
    {"memory-limit", "SIZE",
     "fail if all processes of the run together take more\n"
     "memory, such as 8G; a log on a tmpfs and parameters that\n"
     "agents share count for each agent that maps them",
     CLI_TAKE_TO(train_take_memory, struct resume_options, memory_limit_bytes)},
    {"detach", NULL,
     "return after the first round; the run continues in the\n"
     "background",
     CLI_FLAG(struct resume_options, detach)},
    {"anyway", NULL, "resume even if numerics or configuration have changed",
     CLI_FLAG(struct resume_options, anyway)},
    {"trust", NULL,
     "resume another user's run; programs that its\n"
     "configuration names are executed",
     CLI_FLAG(struct resume_options, trust)},
    {"rescue", "DIR",
     "if the run directory is deleted meanwhile, write the last\n"
     "checkpoint into a run in DIR",
     CLI_TEXT(struct resume_options, rescue)},
    {0}};

const struct command cmd_resume = {
    .name = "resume",
    .arguments = "[RUN] [options]",
    .one = "run",
    .summary = "Resume a run from its newest complete checkpoint, exactly",
    .options = options,
    CLI_INTO(struct resume_options, 0),
    .help = "\nRUN: a name under the runs directory or a path; default: the newest run.\n"
            "\nexample: brood resume simple_spread-1 --set run.env_steps=1000000\n",
    .takes = CLI_OVER,
    .run = run_resume,
};
