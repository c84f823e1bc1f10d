#include "supervisor/cli/cli.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/io/patience.h"
#include "common/log/log.h"
#include "supervisor/cli/plain_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct command *const commands[] = {
    /* launch */
    &cmd_run,
    &cmd_resume,
    &cmd_fork,
    &cmd_sweep,
    &cmd_submit,
    /* look */
    &cmd_runs,
    &cmd_tag,
    &cmd_rm,
    &cmd_prune,
    &cmd_attach,
    &cmd_wait,
    &cmd_logs,
    &cmd_trace,
    &cmd_replay,
    &cmd_status,
    &cmd_web,
    /* steer */
    &cmd_set,
    &cmd_edit,
    &cmd_kill,
    &cmd_respawn,
    &cmd_pause,
    &cmd_continue,
    &cmd_checkpoint,
    &cmd_stop,
    /* prepare, evaluate */
    &cmd_new,
    &cmd_check,
    &cmd_agent_check,
    &cmd_eval,
    &cmd_report,
    /* read checkpoints and graphs */
    &cmd_inspect,
    &cmd_graph,
    &cmd_export,
    /* this build and this machine */
    &cmd_envs,
    &cmd_algorithms,
    &cmd_version,
    &cmd_doctor,
    &cmd_node,
    &cmd_complete,
};

enum { PATIENCE_MS = 3000 }; /* for the runs of other users (patience.h) */
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]), OPTION_BYTES = 64 };

/* Above all letters. OPT_OWN + i: the command's own option i. */
enum { OPT_HELP = 0x1000, OPT_JSON, OPT_RUNS_DIR, OPT_QUIET, OPT_VERBOSE, OPT_OWN };

static const struct option shared_options[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"json", no_argument, NULL, OPT_JSON},
    {"runs-dir", required_argument, NULL, OPT_RUNS_DIR},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"verbose", no_argument, NULL, OPT_VERBOSE},
    {0},
};

static const char shared_help[] =
    "  --json           print JSON, one object per line\n"
    "  --runs-dir DIR   where runs are kept (default: $BROOD_RUNS_DIR or runs/)\n"
    "  -q, --quiet      print errors only\n"
    "  -v, --verbose    log states, snapshots and replays; -vv: every message\n"
    "  --help           print this text\n";

static void print_help(const struct command *c)
{
    (void)printf("usage: brood %s %s\n\n%s.\n\n%s%s", c->name, c->arguments, c->summary,
                 shared_help, c->help);
    if (c->more_help != NULL)
        c->more_help(stdout);
}

static void print_commands(FILE *f)
{
    (void)fputs("usage: brood COMMAND [options]\n\n"
                "Trains teams of learning agents, one process per agent.\n\n",
                f);
    for (int i = 0; i < N_COMMANDS; i++)
        (void)fprintf(f, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    (void)fputs("\n`brood COMMAND --help` lists a command's options, with an example.\n",
                f);
}

/* Begins an error line on stderr: "brood <command>: ". */
static void put_name(const struct cli *cli)
{
    if (cli->command != NULL)
        (void)fprintf(stderr, "brood %s: ", cli->command->name);
    else
        (void)fputs("brood: ", stderr);
}

int cli_fail(const struct cli *cli, int exit_code, const struct err *err)
{
    put_name(cli);
    (void)fprintf(stderr, "%s\n", err->msg);
    return cli_code(exit_code, err);
}

int cli_code(int exit_code, const struct err *err)
{
    if (err->code == ERR_INTERRUPTED)
        return CLI_STOPPED;
    return exit_code != CLI_DONE && err_is_failure(err->code) ? CLI_FAILED : exit_code;
}

static int write_device(const char *path, const void *data, size_t len, struct err *err)
{
    FILE *f = fopen(path, "we");
    int failed;

    if (f == NULL)
        return err_errno(err, "%s", path);
    failed = fwrite(data, 1, len, f) != len;
    failed |= fclose(f) != 0;
    return failed ? err_errno(err, "%s", path) : 0;
}

int cli_write_file(const char *path, const void *data, size_t len, struct err *err)
{
    struct stat st;
    char *real;
    int rc;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return write_device(path, data, len, err);
    real = realpath(path, NULL);
    rc = atomic_file_write(real != NULL ? real : path, data, len, 0, err);
    free(real);
    return rc;
}

int cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;

    put_name(cli);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fprintf(stderr, "; see `brood %s%s--help`\n",
                  cli->command != NULL ? cli->command->name : "",
                  cli->command != NULL ? " " : "");
    return CLI_USAGE;
}

static int fail_option(const struct cli *cli, const char *word, int is_without_value,
                       const struct option *all)
{
    const size_t len = strcspn(word, "=");
    const char *names[CLI_MAX_OPTIONS];
    char shown[CLI_MAX_OPTIONS][OPTION_BYTES], given[OPTION_BYTES];
    struct err err = {0};
    size_t n = 0;

    (void)err_set(&err, ERR_ARG, "%s %.100s",
                  is_without_value ? "a value is missing after" : "there is no option",
                  word);
    for (; all[n].name != NULL; n++) {
        (void)snprintf(shown[n], sizeof(shown[n]), "--%s", all[n].name);
        names[n] = shown[n];
    }
    (void)snprintf(given, sizeof(given), "%.*s", (int)(len < 60 ? len : 60), word);
    if (!is_without_value && strncmp(word, "--", 2) == 0)
        (void)yaml_add_nearest(&err, given, names, n);
    return cli_usage(cli, "%s", err.msg);
}

/* Whether the word is a cluster of options of one letter, as "-xq", with that letter. */
static int is_cluster(const char *word, int letter)
{
    return word[0] == '-' && word[1] != '-' && strchr(word + 1, letter) != NULL;
}

/* Returns what getopt_long has refused. Within a cluster of letters, optind is still the
 * number of that word, and behind its last one the number of the next. letter: the memory
 * for a letter. */
static const char *refused_word(int argc, char **argv, char letter[3])
{
    if (optopt <= 0 || optopt > 127 ||
        !(is_cluster(argv[optind - 1], optopt) ||
          (optind < argc && is_cluster(argv[optind], optopt))))
        return argv[optind - 1];
    letter[0] = '-';
    letter[1] = (char)optopt;
    letter[2] = '\0';
    return letter;
}

static int fail_command(const struct cli *cli, const char *word)
{
    const char *names[N_COMMANDS];
    struct err err = {0};

    (void)err_set(&err, ERR_ARG, "there is no command '%.100s'", word);
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i]->name;
    (void)yaml_add_nearest(&err, word, names, N_COMMANDS);
    return cli_usage(cli, "%s", err.msg);
}

void cli_skipped(void *ctx, const char *line)
{
    put_name(ctx);
    (void)fprintf(stderr, "%s; trying the next older one\n", line);
}

struct policy_search cli_policy_search(const struct cli *cli)
{
    return (struct policy_search){.runs_dir = cli->runs_dir,
                                  .on_skipped = cli_skipped,
                                  .ctx = (void *)(uintptr_t)cli};
}

void cli_dropped(void *ctx, const char *line)
{
    const struct cli *cli = ctx;

    if (!cli->quiet)
        (void)fprintf(stderr, "%s\n", line);
}

void cli_not_yet(void *ctx, const char *line)
{
}

void cli_warn(const struct cli *cli, const char *config, const char *text)
{
    if (!cli->quiet)
        (void)fprintf(stderr, "%s: warning: %s\n", config, text);
}

int cli_integer(const struct cli *cli, const char *option, const char *text,
                long long min, long long max, long long *ret)
{
    char *end;
    long long v;

    errno = 0;
    v = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || v < min || v > max)
        return cli_usage(cli, "%s %s: expected a whole number from %lld to %lld", option,
                         text, min, max);
    *ret = v;
    return 0;
}

/* Lists the command's own options and those of every command, and their letters. */
static void list_options(const struct cli_option *own, struct option *ret,
                         char letters[CLI_MAX_OPTIONS])
{
    size_t n = 0;

    for (; own != NULL && own[n].name != NULL; n++) {
        CHECK(n + sizeof(shared_options) / sizeof(shared_options[0]) < CLI_MAX_OPTIONS);
        ret[n] = (struct option){own[n].name,
                                 own[n].flag != NULL ? no_argument : required_argument,
                                 NULL, OPT_OWN + (int)n};
        if (own[n].letter != 0)
            strncat(letters, &own[n].letter, 1);
    }
    memcpy(ret + n, shared_options, sizeof(shared_options));
}

/* Returns 0 or an exit code. */
static int store(const struct cli *cli, const struct cli_option *o)
{
    char name[OPTION_BYTES];

    if (o->flag != NULL)
        *o->flag = 1;
    if (o->text != NULL)
        *o->text = optarg;
    if (o->texts != NULL)
        o->texts->text[o->texts->n++] = optarg;
    if (o->number != NULL) {
        (void)snprintf(name, sizeof(name), "--%s", o->name);
        return cli_integer(cli, name, optarg, o->min, o->max, o->number);
    }
    return o->take != NULL ? o->take(cli, optarg, o->to) : 0;
}

/* Handles an option that all commands share; returns whether it was one. */
static int take_shared(struct cli *cli, int c)
{
    switch (c) {
    case OPT_JSON:
        cli->json = 1;
        return 1;
    case OPT_RUNS_DIR:
        cli->runs_dir = optarg;
        return 1;
    case OPT_QUIET:
    case 'q':
        cli->quiet = 1;
        log_set_level(LOG_LEVEL_ERROR);
        return 1;
    case OPT_VERBOSE:
    case 'v':
        log_set_level(cli->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_VERBOSE);
        (void)setenv(LOG_LEVEL_VARIABLE, cli->verbose ? "debug" : "verbose", 1);
        cli->verbose = 1;
        return 1;
    default:
        return 0;
    }
}

int cli_parse(struct cli *cli, int argc, char **argv, const struct cli_option *own,
              int *ret_exit)
{
    struct option all[CLI_MAX_OPTIONS];
    char letters[CLI_MAX_OPTIONS] = ":qv", letter[3];
    int c;

    *ret_exit = CLI_DONE;
    list_options(own, all, letters);
    if (cli->ret_options != NULL) {
        memcpy(cli->ret_options, all, sizeof(all));
        return 0;
    }
    for (int i = 0; own != NULL && own[i].name != NULL; i++)
        if (own[i].texts != NULL) /* each takes an argument, and argv[0] is none */
            own[i].texts->text = ARENA_ARRAY(&cli->arena, const char *, argc + 1);
    opterr = 0;
    while ((c = getopt_long(argc, argv, letters, all, NULL)) != -1) {
        if (c == '?' || c == ':') {
            *ret_exit = fail_option(cli, refused_word(argc, argv, letter), c == ':', all);
            return 0;
        }
        if (c == OPT_HELP) {
            print_help(cli->command);
            return 0;
        }
        if (c == OPT_RUNS_DIR && *optarg == '\0') {
            *ret_exit = cli_usage(cli, "--runs-dir: expected a folder's path");
            return 0;
        }
        if (take_shared(cli, c))
            continue;
        for (int i = 0; own[i].name != NULL; i++)
            if (c == OPT_OWN + i || c == own[i].letter)
                *ret_exit = store(cli, &own[i]);
        if (*ret_exit != CLI_DONE)
            return 0;
    }
    return 1;
}

int cli_one_argument(const struct cli *cli, int argc, char **argv, const char *what,
                     const char **ret)
{
    if (argc - optind > 1)
        return cli_usage(cli, "expected one %s, got %d", what, argc - optind);
    *ret = optind < argc ? argv[optind] : NULL;
    return 0;
}

/* Lists a command's options, which are local to its file: runs the command up to its
 * first cli_parse, which copies them and stops it. */
void cli_options_of(const struct command *c, struct option ret[CLI_MAX_OPTIONS])
{
    struct cli cli = {.command = c, .keeper = KEEPER_LINK_NONE, .ret_options = ret};
    char name[] = "";
    char *argv[] = {name, NULL};

    memset(ret, 0, CLI_MAX_OPTIONS * sizeof(*ret));
    (void)c->run(&cli, 1, argv);
}

const struct command *cli_command_at(size_t i)
{
    return i < N_COMMANDS ? commands[i] : NULL;
}

const struct command *cli_command_find(const char *name)
{
    if (strcmp(name, "--version") == 0)
        return &cmd_version;
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    }
    return NULL;
}

/* Prints the help of one command; name NULL: the list of commands. */
static int help(struct cli *cli, const char *name)
{
    const struct command *c = name != NULL ? cli_command_find(name) : NULL;

    if (name != NULL && c == NULL)
        return fail_command(cli, name);
    if (c != NULL)
        print_help(c);
    else
        print_commands(stdout);
    return CLI_DONE;
}

/* If a command's results cannot be printed, the command has failed, unless the reader of
 * stdout has exited: it wanted no more of them. */
static int end_results(const struct cli *cli, int code)
{
    const int error = plain_output_error(), n = patience_n_given_up();
    struct err err = {0};

    if (n > 0)
        (void)fprintf(
            stderr,
            "brood %s: %d run%s of other users %s not read whole: together they "
            "take longer than %d s\n",
            cli->command != NULL ? cli->command->name : "", n, n > 1 ? "s" : "",
            n > 1 ? "were" : "was", PATIENCE_MS / 1000);

    if (error == 0 || error == EPIPE || code != CLI_DONE)
        return code;
    errno = error;
    (void)err_errno(&err, "cannot print the results");
    return cli_fail(cli, CLI_FAILED, &err);
}

/* Opens /dev/null for what the caller has closed of stdin, stdout and stderr: else the files
 * and pipes of this process would get these numbers. Writes to that stdout fail, as to a
 * closed one: results that nobody can read are an error. */
static void open_missing_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) /* open returns the lowest free number, which is fd */
            (void)open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
}

int cli_main(int argc, char **argv)
{
    const char *dir = getenv("BROOD_RUNS_DIR");
    struct cli cli = {.argc = argc,
                      .argv = argv,
                      .keeper = KEEPER_LINK_NONE,
                      .runs_dir = dir != NULL && *dir != '\0' ? dir : "runs"};
    int code;

    open_missing_streams();
    /* With SIGXFSZ ignored, a write past the file size limit fails with EFBIG, which is
     * handled like a full disk. libuv and the launcher restore the default in children. */
    (void)signal(SIGXFSZ, SIG_IGN);
    /* A program that ignores SIGCHLD passes that on: then the kernel reaps children itself,
     * and whoever waits for their end would wait for ever. */
    (void)signal(SIGCHLD, SIG_DFL);
    plain_output_begin();
    patience_begin(PATIENCE_MS);
    log_init("brood", log_level_wanted(LOG_LEVEL_INFO), STDERR_FILENO);
    if (argc < 2) {
        print_commands(stderr);
        return CLI_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0)
        return end_results(&cli, help(&cli, argc > 2 ? argv[2] : NULL));
    cli.command = cli_command_find(argv[1]);
    if (cli.command == NULL)
        return fail_command(&cli, argv[1]);
    optind = 0; /* makes glibc's getopt restart; argv[0] is now the command's name */
    code = cli.command->run(&cli, argc - 1, argv + 1);
    arena_done(&cli.arena);
    return end_results(&cli, code);
}
