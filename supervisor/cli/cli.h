/* cli.h - the command line: one file and one table row per command.
 *
 * A command parses its own options with cli_option, which also takes those that every
 * command shares (--help, --json, --runs-dir, --quiet, --verbose), does its work, and
 * returns an exit code. Results go to stdout, progress and errors to stderr.
 */
#ifndef SUPERVISOR_CLI_CLI_H
#define SUPERVISOR_CLI_CLI_H

#include "common/err/err.h"
#include "supervisor/events/run_status.h"
#include "supervisor/proc/keeper.h"

#include <getopt.h>
#include <stdio.h>

enum cli_exit {
    CLI_DONE = RUN_EXIT_DONE,
    CLI_FAILED = RUN_EXIT_FAILED, /* the run, or the command's work, failed */
    CLI_USAGE = RUN_EXIT_CONFIG,  /* wrong usage or configuration */
    CLI_NOT_THERE = 3, /* the run is not there, not running, or not to be seen */
};

struct cli {
    const struct command *command;
    const char *runs_dir; /* --runs-dir, $BROOD_RUNS_DIR or "runs" */
    int json;
    int quiet;
    int verbose;
    int argc; /* the whole command line, for provenance */
    char **argv;
    struct keeper_link keeper; /* of a command that is kept */
    int is_detached;           /* nobody stays in front of it, once it is under way */
    unsigned place;            /* of the run under way among those of the command */
};

struct command {
    const char *name;
    const char *arguments;      /* "CONFIG [options]" */
    const char *summary;        /* one line for `brood --help` */
    const char *help;           /* the command's own options, then an example */
    void (*more_help)(FILE *f); /* prints what follows `help`; may be NULL */
    const char *letters; /* own options of one letter, as getopt has them; or NULL */
    int (*run)(struct cli *cli, int argc,
               char **argv); /* argv[0] is the command's name */
};

extern const struct command cmd_algorithms;
extern const struct command cmd_attach;
extern const struct command cmd_check;
extern const struct command cmd_checkpoint;
extern const struct command cmd_continue;
extern const struct command cmd_edit;
extern const struct command cmd_envs;
extern const struct command cmd_eval;
extern const struct command cmd_export;
extern const struct command cmd_graph;
extern const struct command cmd_inspect;
extern const struct command cmd_kill;
extern const struct command cmd_logs;
extern const struct command cmd_pause;
extern const struct command cmd_report;
extern const struct command cmd_respawn;
extern const struct command cmd_resume;
extern const struct command cmd_rm;
extern const struct command cmd_run;
extern const struct command cmd_runs;
extern const struct command cmd_set;
extern const struct command cmd_status;
extern const struct command cmd_stop;
extern const struct command cmd_trace;
extern const struct command cmd_version;
extern const struct command cmd_wait;

/* The next of the command's own options (its `val`; optarg as getopt_long), -1 when only
 * arguments are left (from optind on), or CLI_OPTION_EXIT when the command is to return
 * *ret_exit at once: after --help, or after wrong usage has been reported. */
enum { CLI_OPTION_EXIT = -2 };
int cli_option(struct cli *cli, int argc, char **argv, const struct option *own,
               int *ret_exit);

/* Reports one line on stderr, "brood <command>: <message>", and returns the code. */
int cli_fail(const struct cli *cli, int exit_code, const struct err *err);
int cli_usage(const struct cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a checkpoint that is passed over; ctx: the command's struct cli. */
void cli_skipped(void *ctx, const char *line);

/* An integer option's value in [min, max]; reports and returns CLI_USAGE if it is not. */
int cli_integer(const struct cli *cli, const char *option, const char *text,
                long long min, long long max, long long *ret);

int cli_main(int argc, char **argv);

#endif
