/* `brood serve`: executes brood-serve, a program of its own: no other command needs its
 * libraries. */
#include "common/mem/words.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rundir/run_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct options {
    long long port, seed, episodes;
    const char *socket;
    int trust;
};

static int execute(const struct cli *cli, const struct options *o, const char *path,
                   const char *step, struct err *err)
{
    char program[PATH_MAX], port[32], seed[32], episodes[32];
    struct arena arena = ARENA_ZERO;
    struct words w = {.arena = &arena};
    int rc = binaries_beside("brood-serve", program, err);

    if (rc < 0)
        return rc;
    (void)snprintf(port, sizeof(port), "%lld", o->port);
    (void)snprintf(seed, sizeof(seed), "%lld", o->seed);
    (void)snprintf(episodes, sizeof(episodes), "%lld", o->episodes);
    words_add(&w, program, "--port", port, "--seed", seed, "--episodes", episodes, NULL);
    if (o->socket != NULL)
        words_add(&w, "--socket", o->socket, NULL);
    if (step != NULL)
        words_add(&w, "--step", step, NULL);
    if (cli->json)
        words_add(&w, "--json", NULL);
    if (o->trust)
        words_add(&w, "--trust", NULL);
    words_add(&w, "--", path, NULL);
    (void)execv(program, words_argv(&w));
    rc = errno == ENOENT ? err_set(err, ERR_NOT_FOUND,
                                   "this brood was built without the server: install "
                                   "libwebsockets-dev and build it again")
                         : err_errno(err, "%s", program);
    arena_done(&arena);
    return rc;
}

static int run_serve(struct cli *cli, void *values, int argc, char **argv)
{
    const struct options *o = values;
    const char *step;
    char *run = run_dir_split(argc > 0 ? argv[0] : "", &step), *path = NULL;
    struct err err = {0};
    int code;

    if (run_dir_find(cli->runs_dir, run, &path, &err) < 0) {
        code = cli_fail_run(cli, &err);
    } else if (!o->trust && run_dir_check_trust(path, &err) < 0) {
        code = cli_fail(cli, CLI_USAGE, &err);
    } else {
        (void)execute(cli, o, path, step, &err);
        code = cli_fail(cli, CLI_FAILED, &err);
    }
    free(path);
    free(run);
    return code;
}

static const struct cli_option options[] = {
    {"port", "N", "listen there (default: a port that is free)",
     CLI_NUMBER(struct options, port, 0, 65535)},
    {"socket", "PATH", "also listen at this Unix socket, for this user, without a token",
     CLI_TEXT(struct options, socket)},
    {"episodes", "N",
     "so many are remembered of each agent (1024); the one that was\n"
     "used least recently is forgotten",
     CLI_NUMBER(struct options, episodes, 1, 1 << 20)},
    {"seed", "N", "of samples whose requests have none (0)",
     CLI_NUMBER(struct options, seed, 0, INT64_MAX)},
    {"trust", NULL,
     "although the run is another user's: what its configuration\n"
     "names is executed",
     CLI_FLAG(struct options, trust)},
    {0}};

const struct command cmd_serve = {
    .name = "serve",
    .arguments = "RUN[@STEP] [options]",
    .one = "run",
    .summary = "Answer with a run's policies over HTTP, for games and robots",
    .options = options,
    CLI_INTO(struct options, .episodes = 1024),
    .help =
        "\nPrints the address and the header with the token that requests show; only "
        "this machine\n"
        "can connect. GET / describes the agents. POST /act has a body of JSON or "
        "msgpack:\n"
        "\n      {\"agent\": \"agent_0\", \"observation\": [0.1, ...]}\n"
        "\nand is answered {\"action\": ...}. Further keys: mask; mode (\"greedy\", "
        "\"sample\") and\n"
        "seed; episode, a name under which a policy with a memory keeps its state, and "
        "first,\n"
        "true where it begins. A list of observations has a list of actions. An agent "
        "that dies\n"
        "is started again, and the request that waits for it is answered. SIGTERM or "
        "Ctrl-C ends\n"
        "the server.\n"
        "\nexample: brood serve simple_spread-1 --port 8080\n",
    .run = run_serve,
};
