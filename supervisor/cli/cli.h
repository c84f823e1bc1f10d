/* cli.h - the command line: one file and one table row per command.
 *
 * A row says which options a command takes, what each is for, and where its value is stored:
 * the parser, `--help`, the manual pages and completion read them there. A command gets the
 * values and its arguments, does its work, and returns an exit code. Results go to stdout,
 * progress and errors to stderr.
 */
#ifndef SUPERVISOR_CLI_CLI_H
#define SUPERVISOR_CLI_CLI_H

#include "common/err/err.h"
#include "common/mem/arena.h"
#include "supervisor/begin/policy_source.h"
#include "supervisor/events/run_status.h"
#include "supervisor/proc/keeper.h"

#include <stddef.h>
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
    int help;
    int argc; /* the whole command line, for provenance */
    char **argv;
    struct keeper_link keeper; /* set if the command runs below a keeper (cli_keep) */
    int is_detached;           /* the terminal is released after the first round */
    unsigned place;            /* index of the current run among those of `--seeds` */
    struct arena arena;        /* of the values; freed when the command is over */
};

/* The values of an option that may be given several times, in their order. */
struct cli_texts {
    const char **text; /* room for one that the command adds */
    size_t n;
};

/* An option. Of one that is given twice, the last value counts; CLI_TEXTS has all. */
struct cli_option {
    const char *name; /* without "--" */
    /* What is given with it, for people and completion, as "RUN[@STEP]". */
    const char *value;
    const char *help; /* lines; an empty first one: they begin below the option */
    enum { CLI_IS_FLAG, CLI_IS_TEXT, CLI_IS_TEXTS, CLI_IS_NUMBER, CLI_IS_TAKEN } kind;
    size_t at;          /* offset of its member in the command's values */
    long long min, max; /* of a number */
    /* Stores the value in the member. Returns 0, or CLI_USAGE after reporting the error. */
    int (*take)(const struct cli *cli, const char *text, void *member);
    char letter; /* its short form; 0: none */
};

/* The rows' kinds, each with the member of `type` that has the value: int, which becomes 1, const
 * char *, struct cli_texts, or a long long from low to high. CLI_TAKE: all of the values. */
#define CLI_MEMBER(type, member, of)                                                     \
    .at = offsetof(type, member) + 0 * sizeof(char[_Generic(((type *)0)->member, of : 1)])
#define CLI_FLAG(type, member) .kind = CLI_IS_FLAG, CLI_MEMBER(type, member, int)
#define CLI_TEXT(type, member) .kind = CLI_IS_TEXT, CLI_MEMBER(type, member, const char *)
#define CLI_TEXTS(type, member)                                                          \
    .kind = CLI_IS_TEXTS, CLI_MEMBER(type, member, struct cli_texts)
#define CLI_NUMBER(type, member, low, high)                                              \
    .kind = CLI_IS_NUMBER, CLI_MEMBER(type, member, long long), .min = (low),            \
    .max = (high)
#define CLI_TAKE(function) .kind = CLI_IS_TAKEN, .take = (function)
#define CLI_TAKE_TO(function, type, member)                                              \
    CLI_TAKE(function), .at = offsetof(type, member)

/* Which runs an argument RUN may name: completion offers no others. */
enum cli_runs { CLI_ANY, CLI_LIVE, CLI_OVER };

struct command {
    const char *name;
    const char *arguments; /* "CONFIG [options]" */
    const char *one;     /* it takes at most one argument: "run"; NULL: it looks itself */
    const char *summary; /* one line for `brood --help` */
    const struct cli_option *options; /* the last one has no name; NULL: it has none */
    const void *defaults;             /* of its values */
    size_t size;
    const char *help;           /* what follows the options, then an example */
    void (*more_help)(FILE *f); /* prints what follows `help`; may be NULL */
    enum cli_runs takes;
    /* values: a copy of `defaults` with what was given; argv: the arguments, and NULL. */
    int (*run)(struct cli *cli, void *values, int argc, char **argv);
};

/* For the row of a command with options: the type of its values, and their defaults. */
#define CLI_INTO(type, ...) .defaults = &(const type){__VA_ARGS__}, .size = sizeof(type)

extern const struct command cmd_agent_check;
extern const struct command cmd_algorithms;
extern const struct command cmd_attach;
extern const struct command cmd_check;
extern const struct command cmd_checkpoint;
extern const struct command cmd_complete;
extern const struct command cmd_continue;
extern const struct command cmd_diff;
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
extern const struct command cmd_serve;
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

/* The options that all commands share: members of struct cli; the last one has no name. */
extern const struct cli_option cli_shared_options[];
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
/* The checkpoint that the arguments name: the path `PREFIX` as it is, or the agent's folder of
 * `RUN[@STEP] AGENT`; free(). Returns 0, or an exit code after reporting the error. */
int cli_checkpoint(const struct cli *cli, int argc, char **argv, char **ret);
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

/* Makes the command a supervisor below a keeper (supervisor/proc/keeper.h): forks both. Returns 1
 * in the supervisor, with cli->keeper set: the command continues there. Returns 0 with the exit
 * code in *ret_code in the keeper, after the supervisor has ended, and, with `detach`, in the
 * launcher, as soon as the run's first round is done or the run has ended. Call it before the
 * command opens anything. */
int cli_keep(struct cli *cli, int detach, int *ret_code);

int cli_main(int argc, char **argv);

#endif
