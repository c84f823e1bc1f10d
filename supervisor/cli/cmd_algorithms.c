#include "supervisor/cli/cli.h"

#include "common/config/algorithms.h"
#include "supervisor/metrics/json.h"

#include <stdio.h>

static const char *const rows_text[ROWS_KIND_COUNT] = {
    [ROWS_TRANSITIONS] = "transitions, drawn",
    [ROWS_EPISODES] = "whole episodes, drawn",
    [ROWS_WINDOW] = "the newest of every copy, used once",
};

/* Which rows an algorithm learns from; NULL: none. */
static const char *rows_of(const struct algorithm_info *a)
{
    return algorithm_learns(a) ? rows_kind_names[a->rows] : NULL;
}

static void print_json(const struct algorithm_info *a)
{
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "name", a->name);
    json_put_str(&j, "summary", a->summary);
    json_put_str(&j, "stages", a->stages);
    json_put_array(&j, "settings");
    for (size_t i = 0; a->settings[i] != NULL; i++)
        json_str(&j, a->settings[i]);
    json_close(&j);
    if (a->envs != NULL) {
        json_put_array(&j, "envs");
        for (size_t i = 0; a->envs[i] != NULL; i++)
            json_str(&j, a->envs[i]);
        json_close(&j);
    }
    if (rows_of(a) != NULL)
        json_put_str(&j, "rows", rows_of(a));
    json_put_bool(&j, "shares", a->shares);
    json_put_str(&j, "use", a->use);
    json_put_str(&j, "source", a->source);
    json_print(&j, stdout);
}

static void print_text(const struct algorithm_info *a)
{
    (void)printf("%-10s %s\n  stages   %s\n  settings", a->name, a->summary, a->stages);
    for (size_t i = 0; a->settings[i] != NULL; i++)
        (void)printf(" %s", a->settings[i]);
    for (size_t i = 0; a->envs != NULL && a->envs[i] != NULL; i++)
        (void)printf("%s%s", i == 0 ? "\n  plays in " : ", ", a->envs[i]);
    if (rows_of(a) != NULL)
        (void)printf("\n  rows     %s%s", rows_text[a->rows],
                     a->team_reward ? "; one reward for the team" : "");
    if (a->shares)
        (void)printf("\n  shares   all weights, with `share: team`");
    (void)printf("\n  use      %s\n  source   %s\n", a->use, a->source);
}

static int run_algorithms(struct cli *cli, int argc, char **argv)
{
    const struct algorithm_info *a;
    int code;

    if (!cli_parse(cli, argc, argv, NULL, &code))
        return code;
    if (optind < argc)
        return cli_usage(cli, "expected no arguments");
    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++) {
        if (cli->json)
            print_json(a);
        else
            print_text(a);
    }
    return CLI_DONE;
}

const struct command cmd_algorithms = {
    .name = "algorithms",
    .arguments = "[options]",
    .summary = "List the learning algorithms of this build",
    .help = "\nexample: brood algorithms --json\n",
    .run = run_algorithms,
};
