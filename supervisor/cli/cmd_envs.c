#include "supervisor/cli/cli.h"
#include "supervisor/env/env.h"

#include <stdio.h>

static int run_envs(struct cli *cli, int argc, char **argv)
{
    const struct env_info *info;
    int code;

    if (cli_option(cli, argc, argv, NULL, &code) == CLI_OPTION_EXIT)
        return code;
    if (optind < argc)
        return cli_usage(cli, "no arguments are taken");
    for (size_t i = 0; (info = env_info_at(i)) != NULL; i++) {
        if (cli->json)
            (void)printf("{\"id\": \"%s\", \"summary\": \"%s\", \"params\": \"%s\"}\n",
                         info->id, info->summary, info->params);
        else
            (void)printf("%-16s %s (params: {%s})\n", info->id, info->summary,
                         info->params);
    }
    return CLI_DONE;
}

const struct command cmd_envs = {
    .name = "envs",
    .arguments = "[options]",
    .summary = "The environments of this build",
    .help = "\nexample: brood envs --json\n",
    .run = run_envs,
};
