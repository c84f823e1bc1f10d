/* `brood web`: executes brood-web, a program of its own: no other command needs its
 * libraries. */
#include "common/io/own_file.h"
#include "common/mem/words.h"
#include "supervisor/cli/cli.h"
#include "supervisor/proc/binaries.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
    long long port;
    int read_only;
};

/* dirs: n folders of runs; 0: that of the options. */
static int execute(const struct cli *cli, char *const *dirs, int n,
                   const struct options *o)
{
    char program[PATH_MAX], port_text[16], *own;
    struct err err = {0};
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};

    if (binaries_beside("brood-web", program, &err) < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    if ((own = own_executable()) == NULL)
        return cli_fail(cli, CLI_FAILED,
                        (err_errno(&err, "readlink /proc/self/exe"), &err));
    (void)snprintf(port_text, sizeof(port_text), "%lld", o->port);
    words_add(&w, program, "--program", own, "--port", port_text, NULL);
    if (o->read_only)
        words_add(&w, "--read-only", NULL);
    if (cli->json)
        words_add(&w, "--json", NULL);
    if (cli->quiet)
        words_add(&w, "--quiet", NULL);
    words_add(&w, "--", n == 0 ? cli->runs_dir : dirs[0], NULL);
    for (int i = 1; i < n; i++)
        words_add(&w, dirs[i], NULL);
    (void)execv(program, words_argv(&w));
    if (errno == ENOENT)
        (void)err_set(&err, ERR_NOT_FOUND,
                      "this brood was built without the page: install libwebsockets-dev "
                      "and build it again");
    else
        (void)err_errno(&err, "%s", program);
    arena_done(&arena);
    free(own);
    return cli_fail(cli, CLI_FAILED, &err);
}

static int run_web(struct cli *cli, void *values, int argc, char **argv)
{
    return execute(cli, argv, argc, values);
}

static const struct cli_option options[] = {
    {"port", "N", "listen there (default: a port that is free)",
     CLI_NUMBER(struct options, port, 0, 65535)},
    {"read-only", NULL,
     "refuse everything that changes a run; episodes are still played,\n"
     "by processes of their own",
     CLI_FLAG(struct options, read_only)},
    {0}};

const struct command cmd_web = {
    .name = "web",
    .arguments = "[RUNS_DIR ...] [options]",
    .summary = "Watch and steer runs and studies in a browser",
    .options = options,
    CLI_INTO(struct options, 0),
    .help =
        "\nPrints the address to open. It ends with a token, which the browser keeps "
        "for that\n"
        "tab; without it nothing is shown, so that a new tab needs the address "
        "again. Only\n"
        "this machine can connect. From another one, forward the port, and open the "
        "same\n"
        "address there:\n"
        "\n      ssh -N -L 8123:127.0.0.1:8123 HOST\n"
        "\nThe page shows runs, learning curves of one or more runs side by side, "
        "agents,\n"
        "configurations and their differences, journals and logs, checkpoints, "
        "episodes and\n"
        "studies. It pauses, continues and stops runs, kills and respawns agents, "
        "and changes\n"
        "live settings as `brood set` does. The page is a client like others: to end "
        "it, or\n"
        "the browser, changes nothing of a run.\n"
        "\nSeveral folders, as those of a group, are shown side by side, read-only: "
        "their "
        "runs are\n"
        "OWNER/NAME or, unless the owners differ, named after the ends of the paths. A "
        "folder\n"
        "that cannot be read is said to be, and shown once it can be.\n"
        "\nexample: brood web --read-only\n"
        "         brood web /home/*/runs\n",
    .run = run_web,
};
