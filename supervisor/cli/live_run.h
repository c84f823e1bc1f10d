/* live_run.h - what the commands that talk to a live run share. */
#ifndef SUPERVISOR_CLI_LIVE_RUN_H
#define SUPERVISOR_CLI_LIVE_RUN_H

#include "supervisor/cli/cli.h"
#include "supervisor/control/client.h"

/* run: as run_dir_find takes it; *ret_path: free(); timeout_ms: as control_client_open
 * takes it. ERR_NOT_FOUND: not there, or not running; -EACCES: another user's; ERR_STATE: a
 * signal has stopped its supervisor. */
int cli_open_run(const struct cli *cli, const char *run, int timeout_ms, char **ret_path,
                 struct control_client **ret, struct err *err);
/* KEY=VALUE each, in force from step *at (NULL: soon) on; prints what comes of it. */
struct cli_changes {
    char **words;
    size_t n;
};
int cli_change_run(const struct cli *cli, struct control_client *c,
                   const struct cli_changes *changes, const uint64_t *at,
                   struct err *err);
/* Until the run is over, however it ends; its exit code. path: the run's. */
int cli_wait_run(const char *path);
/* Reports it; the exit code for a run that refuses, or is not there. */
int cli_fail_run(const struct cli *cli, const struct err *err);

#endif
