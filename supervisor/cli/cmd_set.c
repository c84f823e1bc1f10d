/* `brood set`: changing the configuration of a live run. */
#include "supervisor/cli/cli.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/msg_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int send_changes(struct control_client *c, const struct cli_changes *changes,
                        const uint64_t *at, const struct msg **ret, struct err *err)
{
    struct msg_out *o = control_client_begin(c, "set");

    msg_map(o, at != NULL ? 2 : 1);
    msg_key(o, "changes");
    msg_array(o, changes->n);
    for (size_t i = 0; i < changes->n; i++)
        msg_str(o, changes->words[i]);
    if (at != NULL) {
        msg_key(o, "at");
        msg_u64(o, *at);
    }
    return control_client_call(c, ret, err);
}

static void print_answer(const struct cli *cli, const struct msg *m)
{
    char changes[4096] = "", waits[4096] = "";
    uint64_t at = 0;

    if (msg_get_u64(&m->body, "at", UINT64_MAX, &at, NULL) < 0 ||
        msg_get_str(&m->body, "changes", changes, sizeof(changes), NULL) < 0 ||
        msg_get_str(&m->body, "waits", waits, sizeof(waits), NULL) < 0)
        (void)snprintf(changes, sizeof(changes), "(too many to show)");
    if (cli->json)
        msg_json_print_object(&m->body);
    if (cli->quiet || cli->json)
        return;
    if (*changes != '\0')
        (void)printf("from step %" PRIu64 " on: %s\n", at, changes);
    if (*waits != '\0')
        (void)printf("with the next `brood respawn` of its agent: %s\n", waits);
    if (*changes == '\0' && *waits == '\0')
        (void)printf("nothing changes: it is so already\n");
}

int cli_change_run(const struct cli *cli, struct control_client *c,
                   const struct cli_changes *changes, const uint64_t *at, struct err *err)
{
    const struct msg *answer;
    int rc = send_changes(c, changes, at, &answer, err);

    if (rc == 0)
        print_answer(cli, answer);
    return rc;
}

static int set_run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"at-step", required_argument, NULL, 'a'},
                                            {0}};
    struct control_client *client = NULL;
    struct cli_changes changes;
    const char *run = NULL;
    char *path = NULL;
    struct err err = {0};
    long long step = 0;
    uint64_t at;
    int c, code = 0, has_step = 0;

    while ((c = cli_option(cli, argc, argv, options, &code)) != -1) {
        if (c == CLI_OPTION_EXIT)
            return code;
        has_step = 1;
        code = cli_integer(cli, "--at-step", optarg, 0, INT64_MAX, &step);
        if (code != 0)
            return code;
    }
    if (optind < argc && strchr(argv[optind], '=') == NULL)
        run = argv[optind++];
    if (optind == argc)
        return cli_usage(cli, "KEY=VALUE is wanted");
    changes = (struct cli_changes){argv + optind, (size_t)(argc - optind)};
    at = (uint64_t)step;
    if (cli_open_run(cli, run, 0, &path, &client, &err) < 0 ||
        cli_change_run(cli, client, &changes, has_step ? &at : NULL, &err) < 0)
        code = cli_fail_run(cli, &err);
    control_client_close(client);
    free(path);
    return code;
}

const struct command cmd_set = {
    .name = "set",
    .arguments = "[RUN] KEY=VALUE... [options]",
    .summary = "Change configuration values of a live run",
    .help =
        "  --at-step N      before the first round at or after this step\n"
        "                   (default: the next round)\n"
        "\nLearning rates, polyak, discount, clip_norm, all intervals, the run's\n"
        "length, experience.keep, restart.*, respond_within, memory_limit, and of\n"
        "settings the numbers and own_batches change at once. What only a new\n"
        "process of its agent can change waits for `brood respawn`: of an optimizer\n"
        "beta1 and the like,\n"
        "on_nonfinite, and of settings policy, execute, clip_by and choose. The rest\n"
        "is refused, and nothing changes. So is a length that the run has passed:\n"
        "`brood stop` ends it.\n"
        "\nexample: brood set simple_spread-1 "
        "agents.agent_0.optimizer.learning_rate=0.001\n",
    .run = set_run,
};
