/* Changing the configuration of a live run: brood set and edit. */
#include "common/config/changes.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/msg_json.h"
#include "supervisor/env/env.h"
#include "supervisor/run/run_dir.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- set ---- */

struct changes {
    char **words;
    size_t n;
};

static int send_changes(struct control_client *c, const struct changes *changes,
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
        (void)printf("nothing changes\n");
}

static int change(const struct cli *cli, struct control_client *c,
                  const struct changes *changes, const uint64_t *at)
{
    const struct msg *answer;
    struct err err = {0};

    if (send_changes(c, changes, at, &answer, &err) < 0)
        return cli_fail_run(cli, &err);
    print_answer(cli, answer);
    return CLI_DONE;
}

static int set_run(struct cli *cli, int argc, char **argv)
{
    static const struct option options[] = {{"at-step", required_argument, NULL, 'a'},
                                            {0}};
    struct control_client *client = NULL;
    struct changes changes;
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
    changes = (struct changes){argv + optind, (size_t)(argc - optind)};
    at = (uint64_t)step;
    if (cli_open_run(cli, run, 0, &path, &client, &err) < 0)
        code = cli_fail_run(cli, &err);
    else
        code = change(cli, client, &changes, has_step ? &at : NULL);
    control_client_close(client);
    free(path);
    return code;
}

const struct command cmd_set = {
    .name = "set",
    .arguments = "[RUN] KEY=VALUE... [options]",
    .summary = "Change configuration values of a live run",
    .help = "  --at-step N      before the first round at or after this step\n"
            "                   (default: the next round)\n"
            "\nLearning rates, polyak, discount, clip_norm, numbers under settings, all\n"
            "intervals, the run's length, restart.*, respond_within and memory_limit\n"
            "change at once; what only a restart of its agent can change waits for\n"
            "`brood respawn`; the rest is refused, and nothing changes. So is a length\n"
            "that the run has passed: `brood stop` ends it.\n"
            "\nexample: brood set simple_spread-1 "
            "agents.agent_0.optimizer.learning_rate=0.001\n",
    .run = set_run,
};

/* ---- edit ---- */

/* What the editor left, compared with what it was given: KEY=VALUE each. */
static void collect(void *ctx, const struct config_change *c)
{
    struct changes *changes = ctx;

    changes->words =
        xreallocarray(changes->words, changes->n + 1, sizeof(*changes->words));
    changes->words[changes->n++] = xasprintf("%s=%s", c->path, c->text);
}

static int run_editor(const char *file, struct err *err)
{
    const char *editor = getenv("VISUAL");
    char *command;
    int status;

    if (editor == NULL || *editor == '\0')
        editor = getenv("EDITOR");
    if (editor == NULL || *editor == '\0')
        return err_set(err, ERR_ARG, "set $EDITOR to an editor");
    command = xasprintf("%s \"$BROOD_EDIT_FILE\"", editor);
    (void)setenv("BROOD_EDIT_FILE", file, 1);
    status = system(command);
    free(command);
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_ARG, "%s did not end well: nothing changes", editor);
    return 0;
}

/* A copy of the run's configuration beside it, for the editor. */
static int copy_config(const struct run_config *was, const char *file, struct err *err)
{
    char *yaml = run_config_to_yaml(was);
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const size_t len = strlen(yaml);
    int rc =
        fd < 0 || write(fd, yaml, len) != (ssize_t)len ? err_errno(err, "%s", file) : 0;

    if (fd >= 0)
        (void)close(fd);
    free(yaml);
    return rc;
}

static int edit(const struct cli *cli, struct control_client *client, const char *path)
{
    const struct config_options options = {.env_names = env_agent_names};
    char *config = xasprintf("%s/config.yaml", path);
    char *file = xasprintf("%s/edit-%d.yaml", path, (int)getpid());
    struct run_config was = {0}, is = {0};
    struct changes changes = {0};
    struct err err = {0};
    int code;

    if (run_config_read(&was, config, &options, &err) < 0 ||
        copy_config(&was, file, &err) < 0 || run_editor(file, &err) < 0 ||
        run_config_read(&is, file, &options, &err) < 0) {
        code = cli_fail_run(cli, &err);
    } else {
        run_config_compare_following(&was, &is, collect, &changes);
        code = change(cli, client, &changes, NULL);
    }
    for (size_t i = 0; i < changes.n; i++)
        free(changes.words[i]);
    free(changes.words);
    (void)unlink(file);
    run_config_done(&was);
    run_config_done(&is);
    free(file);
    free(config);
    return code;
}

static int edit_run(struct cli *cli, int argc, char **argv)
{
    struct control_client *client = NULL;
    struct err err = {0};
    char *path = NULL;
    int code = 0;

    if (cli_option(cli, argc, argv, NULL, &code) == CLI_OPTION_EXIT)
        return code;
    if (argc - optind > 1)
        return cli_usage(cli, "one run is wanted, %d are given", argc - optind);
    if (cli_open_run(cli, optind < argc ? argv[optind] : NULL, 0, &path, &client, &err) <
        0)
        code = cli_fail_run(cli, &err);
    else
        code = edit(cli, client, path);
    control_client_close(client);
    free(path);
    return code;
}

const struct command cmd_edit = {
    .name = "edit",
    .arguments = "[RUN]",
    .summary = "Change a live run through $EDITOR on its configuration",
    .help = "\nThe difference is applied as `brood set` would.\n"
            "\nexample: EDITOR=nano brood edit simple_spread-1\n",
    .run = edit_run,
};
