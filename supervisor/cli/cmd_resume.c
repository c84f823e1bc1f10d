#include "supervisor/cli/keep.h"
#include "supervisor/cli/resume_run.h"

#include <stdint.h>

static int run_resume(struct cli *cli, int argc, char **argv)
{
    struct resume_options o = {0};
    int detach = 0, code;
    const struct cli_option own[] = {
        {"from", .text = &o.from},
        {"set", .texts = &o.sets},
        {"anyway", .flag = &o.anyway},
        {"detach", .flag = &detach},
        {"rescue", .text = &o.rescue},
        {"trust", .flag = &o.trust},
        {"until", .number = &o.until, 1, INT64_MAX},
        {"memory-limit", .take = train_take_memory, .to = &o.memory_limit_bytes},
        {0}};
    struct keeper_task again;

    if (!cli_parse(cli, argc, argv, own, &code))
        return code;
    if (cli_one_argument(cli, argc, argv, "run", &o.run) != 0)
        return CLI_USAGE;
    if (!cli_keep(cli, detach, &code))
        return code;
    if (keeper_resume_task(&again)) {
        /* The keeper has started this process after a supervisor died: resumes the keeper's
         * run. If the last supervisor already applied the command's --set and --from, they
         * are dropped: changes and checkpoints made since then count. */
        o.run = again.path;
        o.trust = 1; /* the command checked it before its first supervisor */
        if (again.committed) {
            o.sets.n = 0;
            o.from = NULL;
        }
    }
    return resume_run(cli, &o);
}

const struct command cmd_resume = {
    .name = "resume",
    .arguments = "[RUN] [options]",
    .summary = "Resume a run from its newest complete checkpoint, exactly",
    .help =
        "  --from STEP      resume from this checkpoint and discard later ones\n"
        "  --set KEY=VALUE  run.env_steps or run.episodes: extend the run;\n"
        "                   experience.keep: whether to keep the log at the end;\n"
        "                   cluster.*: on which machines it goes on;\n"
        "                   env.on_failure: whether failing episodes are skipped\n"
        "  --until STEP     stop there, as `brood stop` would; `resume` continues\n"
        "  --memory-limit SIZE  fail if all processes of the run together take more\n"
        "                   memory, such as 8G; a log on a tmpfs and parameters that\n"
        "                   agents share count for each agent that maps them\n"
        "  --detach         return after the first round; the run continues in the\n"
        "                   background\n"
        "  --anyway         resume even if numerics or configuration have changed\n"
        "  --trust          resume another user's run; programs that its\n"
        "                   configuration names are executed\n"
        "  --rescue DIR     if the run directory is deleted meanwhile, write the last\n"
        "                   checkpoint into a run in DIR\n"
        "\nRUN: a name under the runs directory or a path; default: the newest run.\n"
        "\nexample: brood resume simple_spread-1 --set run.env_steps=1000000\n",
    .run = run_resume,
};
