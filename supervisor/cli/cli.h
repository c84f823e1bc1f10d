/* cli.h - the command line: one file and one table row per command.
 *
 * A command parses its own options with cli_parse, which also takes those that every
 * command shares (--help, --json, --runs-dir, --quiet, --verbose), does its work, and
 * returns an exit code. Results go to stdout, progress and errors to stderr.
 */
#ifndef SUPERVISOR_CLI_CLI_H
#define SUPERVISOR_CLI_CLI_H

#include "common/err/err.h"
#include "common/mem/arena.h"
#include "supervisor/events/run_status.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/run/policy_source.h"

#include <getopt.h>
#include <stdio.h>

enum cli_exit {
    CLI_DONE = RUN_EXIT_DONE,
    CLI_FAILED = RUN_EXIT_FAILED, /* the run, or the command's work, failed */
    CLI_USAGE = RUN_EXIT_CONFIG,  /* wrong usage or configuration */
    CLI_NOT_THERE = 3, /* no such run, not running, or no permission to see it */
    CLI_STOPPED = RUN_EXIT_STOPPED,
};

struct cli {
    const struct command *command;
    const char *runs_dir; /* --runs-dir, $BROOD_RUNS_DIR or "runs" */
    int json;
    int quiet;
    int verbose;
    int argc; /* the whole command line, for provenance */
    char **argv;
    struct keeper_link keeper;  /* set if the command runs below a keeper (keep.h) */
    int is_detached;            /* the terminal is released after the first round */
    unsigned place;             /* index of the current run among those of `--seeds` */
    struct option *ret_options; /* cli_parse lists them there (cli_options_of) */
    struct arena arena;         /* lists of texts; freed when the command is over */
};

struct command {
    const char *name;
    const char *arguments;      /* "CONFIG [options]" */
    const char *summary;        /* one line for `brood --help` */
    const char *help;           /* the command's own options, then an example */
    void (*more_help)(FILE *f); /* prints what follows `help`; may be NULL */
    int (*run)(struct cli *cli, int argc,
               char **argv); /* argv[0] is the command's name */
};

extern const struct command cmd_agent_check;
extern const struct command cmd_algorithms;
extern const struct command cmd_attach;
extern const struct command cmd_check;
extern const struct command cmd_checkpoint;
extern const struct command cmd_complete;
extern const struct command cmd_continue;
extern const struct command cmd_doctor;
extern const struct command cmd_edit;
extern const struct command cmd_envs;
extern const struct command cmd_eval;
extern const struct command cmd_export;
extern const struct command cmd_fork;
extern const struct command cmd_graph;
extern const struct command cmd_inspect;
extern const struct command cmd_kill;
extern const struct command cmd_logs;
extern const struct command cmd_new;
extern const struct command cmd_node;
extern const struct command cmd_pause;
extern const struct command cmd_prune;
extern const struct command cmd_replay;
extern const struct command cmd_report;
extern const struct command cmd_respawn;
extern const struct command cmd_resume;
extern const struct command cmd_rm;
extern const struct command cmd_run;
extern const struct command cmd_runs;
extern const struct command cmd_set;
extern const struct command cmd_status;
extern const struct command cmd_stop;
extern const struct command cmd_submit;
extern const struct command cmd_sweep;
extern const struct command cmd_tag;
extern const struct command cmd_trace;
extern const struct command cmd_version;
extern const struct command cmd_wait;
extern const struct command cmd_web;

/* The values of an option that may be given several times, in their order. */
struct cli_texts {
    const char **text; /* room for one that the command adds; NULL before cli_parse */
    size_t n;
};

/* An option of a command: one of `flag`, `text`, `texts`, `number` and `take` says what becomes
 * of it. A table of them ends with a row without a name. */
struct cli_option {
    const char *name; /* without "--" */
    char letter;      /* its short form; 0: none */
    int *flag;        /* becomes 1; only such an option has no value */
    const char **text;
    struct cli_texts *texts;
    long long *number, min, max; /* a whole number from min to max */
    /* Returns 0, or CLI_USAGE after reporting the error. */
    int (*take)(const struct cli *cli, const char *text, void *to);
    void *to;
};

/* Stores the values of the command's own options (NULL: it has none), the last one of those
 * given twice; arguments are left from optind on. Returns 1 to continue; otherwise the command
 * must return *ret_exit at once: after --help, or after wrong usage was reported. */
int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *own,
              int *ret_exit);
/* Stores the only argument after cli_parse; NULL: there is none. Returns 0, or CLI_USAGE after
 * reporting that there are several; what: "run". */
int cli_one_argument(const struct cli *cli, int argc, char **argv, const char *what,
                     const char **ret);

enum { CLI_MAX_OPTIONS = 32 };
/* The options that a command takes, with those of every command; the last one has no name. */
void cli_options_of(const struct command *c, struct option ret[CLI_MAX_OPTIONS]);
/* NULL: i is past the end of the table; there is no command of that name. */
const struct command *cli_command_at(size_t i);
const struct command *cli_command_find(const char *name);

/* The code; CLI_STOPPED if the error is ERR_INTERRUPTED; CLI_FAILED, unless the code is CLI_DONE,
 * if the error says nothing against what the user wrote (err_is_failure). */
int cli_code(int exit_code, const struct err *err);
/* Reports one line on stderr, "brood <command>: <message>", and returns cli_code. */
int cli_fail(const struct cli *cli, int exit_code, const struct err *err);
/* Writes a file that the user names: completely or not at all, in the place of a file or of
 * what a link leads to. A device or fifo is written to. -errno. */
int cli_write_file(const char *path, const void *data, size_t len, struct err *err);
int cli_usage(const struct cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports on stderr that a damaged checkpoint was skipped; ctx: the command's struct cli. */
void cli_skipped(void *ctx, const char *line);
/* Where the command looks for the checkpoints that agents name. */
struct policy_search cli_policy_search(const struct cli *cli);

/* Reports on stderr that keys of a configuration are ignored (config_options.dropped). */
void cli_dropped(void *ctx, const char *line);
/* Ignores the line: the runs that are begun print it. */
void cli_not_yet(void *ctx, const char *line);

/* Reports a warning on stderr, "<file of the configuration>: warning: <text>". */
void cli_warn(const struct cli *cli, const char *config, const char *text);

/* Parses an integer option, which must be in [min, max]. Returns 0, or CLI_USAGE after
 * reporting the error. */
int cli_integer(const struct cli *cli, const char *option, const char *text,
                long long min, long long max, long long *ret);

int cli_main(int argc, char **argv);

#endif
