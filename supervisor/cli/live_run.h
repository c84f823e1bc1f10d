/* live_run.h - shared code of the commands that connect to a live run. */
#ifndef SUPERVISOR_CLI_LIVE_RUN_H
#define SUPERVISOR_CLI_LIVE_RUN_H

#include "supervisor/cli/cli.h"
#include "supervisor/control/client.h"

/* Connects to a run. run: as in run_dir_find; *ret_path: free() it; timeout_ms: as in
 * control_client_open. ERR_NOT_FOUND: no such run, or not running; -EACCES: it belongs to
 * another user; ERR_STATE: its supervisor is stopped by a signal (SIGSTOP). */
int cli_open_run(const struct cli *cli, const char *run, int timeout_ms, char **ret_path,
                 struct control_client **ret, struct err *err);
/* How long a run may take for what it does at once, and what is added to the error if the request
 * was sent. A run that tries a changed configuration answers nobody meanwhile. */
enum { CLI_ANSWERS_WITHIN_MS = 30000 };
#define CLI_NOT_TAKEN_BACK "it may still do what was asked"

/* A wait for what takes a run as long as it takes: after some seconds the command says, once,
 * on stderr that it goes on. */
struct cli_wait {
    const struct cli *cli;
    const char *path; /* of the run */
    int64_t since_ms;
    int has_said; /* or there is nobody to say it to */
};
/* client: its waits have no limit from now on, and look at *ret; NULL: they keep their limit. */
void cli_wait_begin(struct cli_wait *ret, const struct cli *cli, const char *path,
                    struct control_client *client);
#define CLI_WAIT_HELP                                                                    \
    "\nAfter 5 s of waiting it says so. Ctrl-C ends the command alone: the run still\n"  \
    "does what was asked.\n"

/* Words of the form KEY=VALUE, or keys. */
struct cli_changes {
    char **words;
    size_t n;
};
/* Sends the changes to the run at `path`, to take effect at step *at (NULL: the next round), and
 * prints the answer. */
int cli_change_run(const struct cli *cli, struct control_client *c, const char *path,
                   const struct cli_changes *changes, const uint64_t *at,
                   struct err *err);
/* Prints a line per change, each after `prefix`. */
void cli_print_pending(const char *prefix, const struct run_pending *p, size_t n);
/* Reports the error and returns the exit code: CLI_NOT_THERE if the run is missing, not
 * running, another user's or a planted link (beneath.h), CLI_USAGE for ERR_CONFIG, CLI_FAILED
 * otherwise. */
int cli_fail_run(const struct cli *cli, const struct err *err);

#endif
