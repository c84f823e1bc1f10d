/* `brood node`: one machine's part of a run. */
#include "supervisor/cli/cli.h"
#include "supervisor/node/node.h"
#include "supervisor/node/slurm.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/proc/signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

enum { SIGNALLED = 128 }; /* keeper.h: exit codes from here on */

struct options {
    const char *address;
    long long silence_ms;
    int plain, scancel;
};

/* Returns 1 in the node; otherwise *ret_code is the exit code of the keeper. */
static int split(struct cli *cli, const struct options *o, struct keeper_link *ret,
                 int *ret_code)
{
    const struct keeper_args args = {.argv = cli->argv,
                                     .who = "node",
                                     .mark = KEEPER_NODE_MARK,
                                     .child = "the node",
                                     .max_stopped_ms = (int)o->silence_ms,
                                     .report_fd = -1};
    struct err err = {0};
    const int rc = keeper_split(ret, &args, ret_code, &err);

    if (rc < 0)
        *ret_code = cli_fail(cli, CLI_FAILED, &err);
    if (rc == 1) { /* the keeper has blocked the signals that stop the node */
        sigset_t set;

        stop_signals_get(&set);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    } else if (rc == 0 && o->scancel && *ret_code >= SIGNALLED) {
        slurm_cancel_own_job("a signal has ended the node");
    }
    return rc == 1;
}

static int run_node(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    struct keeper_link link;
    struct channel_secret secret;
    struct node_identity identity;
    struct node_args args;
    struct err err = {0};
    int null, code;

    if (argc > 0)
        return cli_usage(cli, "expected no argument, got '%s'", argv[0]);
    if (o->address == NULL)
        return cli_usage(cli, "--connect is missing");
    if (node_read_secret(STDIN_FILENO, &secret, &identity, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null > STDIN_FILENO) {
        (void)dup2(null, STDIN_FILENO);
        (void)close(null);
    }
    if (!split(cli, o, &link, &code))
        return code;
    args = (struct node_args){.keeper_fd = link.fd,
                              .identity = identity,
                              .address = o->address,
                              .silence_ms = (uint64_t)o->silence_ms,
                              .encrypt = !o->plain,
                              .cancels_job = o->scancel,
                              .version = BROOD_VERSION};
    return node_run(&args, &secret, &err) < 0 ? cli_fail(cli, CLI_FAILED, &err)
                                              : CLI_DONE;
}

static const struct cli_option options[] = {
    {"connect", "ADDRESS:PORT",
     "\n"
     "where the run's supervisor listens",
     CLI_TEXT(struct options, address)},
    {"silence", "MS", "end when nothing came from there for so long (10000)",
     CLI_NUMBER(struct options, silence_ms, 1, 86400000)},
    {"plain", NULL, "do not encrypt (cluster.encrypt: false)",
     CLI_FLAG(struct options, plain)},
    {"scancel", NULL, "cancel the Slurm job in which it runs when the connection is lost",
     CLI_FLAG(struct options, scancel)},
    {0}};

const struct command cmd_node = {
    .name = "node",
    .arguments = "--connect ADDRESS:PORT [options]",
    .summary = "Serve one machine's part of a run (started by its launcher)",
    .options = options,
    CLI_INTO(struct options, .silence_ms = 10000),
    .help =
        "\nReads its key from standard input: 96 hexadecimal digits. It ends, and all "
        "that\n"
        "it has started, when the connection ends. See `cluster` in a configuration.\n"
        "\nexample: brood run configs/simple_spread.yaml --set cluster.launcher=local\n",
    .run = run_node,
};
