#include "supervisor/cli/keep.h"
#include "supervisor/cli/resume_run.h"

#include <stdint.h>

static int parse(struct cli *cli, int argc, char **argv, struct resume_options *o,
                 int *detach, int *ret_code)
{
    static const struct option options[] = {
        {"from", required_argument, NULL, 'f'},
        {"set", required_argument, NULL, 'k'},
        {"anyway", no_argument, NULL, 'a'},
        {"detach", no_argument, NULL, 'd'},
        {"rescue", required_argument, NULL, 'R'},
        {"trust", no_argument, NULL, 't'},
        {"until", required_argument, NULL, 'u'},
        {"memory-limit", required_argument, NULL, 'm'},
        {0}};
    int c, rc = 0;

    while (rc == 0 && (c = cli_option(cli, argc, argv, options, ret_code)) != -1) {
        if (c == CLI_OPTION_EXIT)
            return 0;
        if (c == 'f')
            o->from = optarg;
        else if (c == 'k')
            rc = train_take_set(cli, &o->sets, optarg);
        else if (c == 'd')
            *detach = 1;
        else if (c == 'R')
            o->rescue = optarg;
        else if (c == 'u')
            rc = cli_integer(cli, "--until", optarg, 1, INT64_MAX, &o->until);
        else if (c == 'm')
            rc = train_take_memory(cli, optarg, &o->memory_limit_bytes);
        else if (c == 't')
            o->trust = 1;
        else
            o->anyway = 1;
    }
    if (rc == 0 && optind < argc - 1)
        rc = cli_usage(cli, "expected one run, got %d", argc - optind);
    if (rc == 0 && optind < argc)
        o->run = argv[optind];
    *ret_code = rc;
    return rc == 0;
}

/* The keeper has started this process after a supervisor died: resumes the keeper's run.
 * If the last supervisor already applied the command's --set and --from, they are
 * dropped: changes and checkpoints made since then count. */
static void take_keeper_task(struct resume_options *o, const struct keeper_task *again)
{
    o->run = again->path;
    o->trust = 1; /* the command checked it before its first supervisor */
    if (again->committed) {
        o->sets.n = 0;
        o->from = NULL;
    }
}

static int run_resume(struct cli *cli, int argc, char **argv)
{
    struct resume_options o = {0};
    struct keeper_task again;
    int code, detach = 0;

    if (!parse(cli, argc, argv, &o, &detach, &code) || !cli_keep(cli, detach, &code))
        return code;
    if (keeper_resume_task(&again))
        take_keeper_task(&o, &again);
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
        "                   cluster.*: on which machines it goes on\n"
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
