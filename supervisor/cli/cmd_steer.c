/* Commands that control a live run. Each sends one request, which the run answers when it
 * has done what was asked. */
#include "common/io/monotonic.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    LISTENS_WITHIN_MS = 5000,
    LISTENS_EVERY_MS = 5,
    ENDS_EVERY_MS = 2,
    SAYS_AFTER_MS = 5000
};

int cli_fail_run(const struct cli *cli, const struct err *err)
{
    const int is_out_of_reach =
        err->code == ERR_NOT_FOUND || err->code == -EACCES || err->code == -EXDEV;
    int code = is_out_of_reach           ? CLI_NOT_THERE
               : err->code == ERR_CONFIG ? CLI_USAGE
                                         : CLI_FAILED;

    return cli_fail(cli, code, err);
}

/* Says once, after a while, that the command waits; wait: a struct cli_wait. */
static void wait_look(void *wait)
{
    struct cli_wait *w = wait;
    char *run;

    if (w->has_said || monotonic_ms() - w->since_ms < SAYS_AFTER_MS)
        return;
    w->has_said = 1;
    run = run_dir_name_of(w->path);
    (void)fprintf(
        stderr,
        "brood %s: %s has not done it after %d s: still waiting (Ctrl-C ends this "
        "command alone)\n",
        w->cli->command->name, PLAIN_NAME(run), SAYS_AFTER_MS / 1000);
    free(run);
}

void cli_wait_begin(struct cli_wait *ret, const struct cli *cli, const char *path,
                    struct control_client *client)
{
    *ret = (struct cli_wait){cli, path, monotonic_ms(), cli->quiet};
    if (client != NULL)
        control_client_wait(client, wait_look, ret);
}

/* Whether this command is one of the run's own programs (the key `on`), for which the run
 * waits at its end. */
static int is_program_of(const char *path)
{
    const char *own = getenv("BROOD_RUN_DIR");
    struct stat a, b;

    return own != NULL && stat(own, &a) == 0 && stat(path, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Of a run that is over: says so, and which command goes on from it. */
static void add_what_goes_on(const char *path, struct err *err)
{
    struct run_record r;

    run_record_read(&r, path);
    if (!r.is_live && !r.is_unreadable && strcmp(r.status.state, "done") == 0)
        (void)err_add(
            err,
            "it is done: `brood resume %s --set run.env_steps=N` makes it longer, "
            "`brood fork` begins another one from it",
            r.status.run);
    else if (!r.is_live && !r.is_unreadable)
        (void)err_add(err, "it is over (%s): `brood resume %s` goes on", r.status.state,
                      r.status.run);
    run_record_done(&r);
}

int cli_open_run(const struct cli *cli, const char *run, int timeout_ms, char **ret_path,
                 struct control_client **ret, struct err *err)
{
    int rc = run_dir_find(cli->runs_dir, run, ret_path, err);

    if (rc == 0)
        rc = control_refuse_stopped(*ret_path, err);
    if (rc == 0)
        rc = control_client_open(ret, *ret_path, timeout_ms, err);
    /* A run that has just started opens its socket soon; one that has no longer a socket for
     * its own programs is at its end. */
    for (int ms = 0; rc == ERR_NOT_FOUND && *ret_path != NULL && ms < LISTENS_WITHIN_MS &&
                     run_dir_holder(*ret_path) != 0 && !is_program_of(*ret_path);
         ms += LISTENS_EVERY_MS) {
        (void)poll(NULL, 0, LISTENS_EVERY_MS);
        rc = control_client_open(ret, *ret_path, timeout_ms, err);
    }
    /* Another user's run: report that, because it may well be running. */
    if (rc < 0 && *ret_path != NULL && run_dir_denied(*ret_path, NULL) < 0)
        rc = run_dir_denied(*ret_path, err);
    else if (rc == ERR_NOT_FOUND && *ret_path != NULL)
        add_what_goes_on(*ret_path, err);
    return rc;
}

/* Prints what happened (done: "paused", for example) and the step of the answer. */
static void print_answer(const struct cli *cli, const char *path, const char *agent,
                         const struct msg *answer, const char *done)
{
    uint64_t step = MEMBER_NO_U64;
    struct json j = {0};
    char *run = run_dir_name_of(path);
    int was_paused = 1;

    (void)msg_get_u64(&answer->body, "env_steps", INT64_MAX, &step, NULL);
    (void)msg_get_bool(&answer->body, "was_paused", &was_paused, NULL);
    if (cli->quiet || step == MEMBER_NO_U64) {
        /* prints nothing; an older build's answer has no step */
    } else if (cli->json) {
        msg_json_begin_event(&j, cli->command->name);
        json_put_str(&j, "run", run);
        if (agent != NULL)
            json_put_str(&j, "agent", agent);
        json_put_u64(&j, "env_steps", step);
        json_print(&j, stdout);
    } else if (!was_paused) {
        (void)printf("%s was not paused\n", PLAIN_NAME(run));
    } else {
        (void)printf("%s%s%s at step %" PRIu64 "\n", agent != NULL ? agent : "",
                     agent != NULL ? ": " : "", done, step);
    }
    free(run);
}

/* Returns when the supervisor has released the run's lock, but in a program of the run at
 * once. */
static void await_end(struct cli_wait *wait, pid_t supervisor)
{
    if (supervisor <= 0 || is_program_of(wait->path))
        return;
    while (run_dir_holder(wait->path) == supervisor) {
        wait_look(wait);
        (void)poll(NULL, 0, ENDS_EVERY_MS);
    }
}

/* Sends the command's request and prints the answer. */
static int ask(const struct cli *cli, const char *run, const char *agent,
               const char *done, struct err *err)
{
    const struct command *c = cli->command;
    struct control_client *client = NULL;
    const struct msg *answer;
    struct cli_wait wait;
    struct msg_out *o;
    char *path = NULL;
    pid_t supervisor = 0;
    int rc = cli_open_run(cli, run, CLI_ANSWERS_WITHIN_MS, &path, &client, err);

    if (rc == 0) {
        supervisor = run_dir_holder(path);
        cli_wait_begin(&wait, cli, path,
                       c != &cmd_kill && c != &cmd_continue ? client : NULL);
        o = control_client_begin(client, c->name);
        msg_map(o, agent != NULL ? 1 : 0);
        if (agent != NULL)
            msg_put_str(o, "agent", agent);
        rc = control_client_call(client, &answer, err);
        if (rc == ERR_TIMEOUT)
            (void)err_add(err, CLI_NOT_TAKEN_BACK);
    }
    if (rc == 0 && c == &cmd_stop)
        await_end(&wait, supervisor);
    if (rc == 0)
        print_answer(cli, path, agent, answer, done);
    control_client_close(client);
    free(path);
    return rc;
}

static int steer_run(struct cli *cli, void *values, int argc, char **argv)
{
    const struct command *c = cli->command;
    const char *done = c == &cmd_pause      ? "paused"
                       : c == &cmd_continue ? "continued"
                       : c == &cmd_stop     ? "stopped"
                                            : "checkpoint";
    struct err err = {0};

    return ask(cli, argv[0], NULL, done, &err) < 0 ? cli_fail_run(cli, &err) : CLI_DONE;
}

static int steer_agent(struct cli *cli, void *values, int argc, char **argv)
{
    const char *done = cli->command == &cmd_kill ? "killed" : "a new process is in place";
    const char *run, *agent;
    char *path = NULL, names[256];
    struct err err = {0};
    int rc;

    if (argc != 1 && argc != 2)
        return cli_usage(cli, "expected an agent: AGENT of the newest run, or RUN AGENT");
    run = argc == 2 ? argv[0] : NULL;
    agent = argv[argc - 1];
    rc = ask(cli, run, agent, done, &err);
    if (rc == ERR_NOT_FOUND && run == NULL &&
        run_dir_find(cli->runs_dir, agent, &path, NULL) == 0) {
        const int code = cli_usage(cli, "%s is a run; name one of its agents, too: %s",
                                   agent, run_agent_names(path, names, sizeof(names)));

        free(path);
        return code;
    }
    return rc < 0 ? cli_fail_run(cli, &err) : CLI_DONE;
}

const struct command cmd_pause = {
    .name = "pause",
    .arguments = "[RUN]",
    .one = "run",
    .summary = "Pause a run at the next round boundary",
    .help = CLI_WAIT_HELP "\nexample: brood pause simple_spread-1\n",
    .takes = CLI_LIVE,
    .run = steer_run,
};

const struct command cmd_continue = {
    .name = "continue",
    .arguments = "[RUN]",
    .one = "run",
    .summary = "Continue a paused run",
    .help = "\nexample: brood continue simple_spread-1\n",
    .takes = CLI_LIVE,
    .run = steer_run,
};

const struct command cmd_checkpoint = {
    .name = "checkpoint",
    .arguments = "[RUN]",
    .one = "run",
    .summary = "Make a run write a checkpoint at the next round boundary",
    .help = "\nReturns when the checkpoint is on the disk.\n" CLI_WAIT_HELP
            "\nexample: brood checkpoint simple_spread-1\n",
    .takes = CLI_LIVE,
    .run = steer_run,
};

const struct command cmd_stop = {
    .name = "stop",
    .arguments = "[RUN]",
    .one = "run",
    .summary = "Stop a run after writing a checkpoint",
    .help = "\nReturns when all its processes have ended; `brood resume` continues the "
            "run.\n" CLI_WAIT_HELP "\nexample: brood stop simple_spread-1\n",
    .takes = CLI_LIVE,
    .run = steer_run,
};

const struct command cmd_kill = {
    .name = "kill",
    .arguments = "[RUN] AGENT",
    .summary = "Kill an agent's process; its restart policy decides what follows",
    .help = "\nexample: brood kill simple_spread-1 agent_0\n",
    .takes = CLI_LIVE,
    .run = steer_agent,
};

const struct command cmd_respawn = {
    .name = "respawn",
    .arguments = "[RUN] AGENT",
    .summary = "Replace an agent's process and apply the changes that wait for that",
    .help = CLI_WAIT_HELP "\nexample: brood respawn simple_spread-1 agent_0\n",
    .takes = CLI_LIVE,
    .run = steer_agent,
};
