#include "supervisor/cli/cli.h"

#include "common/ckpt/atomic_file.h"
#include "common/ckpt/ckpt_find.h"
#include "common/config/schema.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/io/patience.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/cli/plain_output.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/checkpoint_read.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
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
    &cmd_diff,
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
    &cmd_serve,
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
enum {
    N_COMMANDS = sizeof(commands) / sizeof(commands[0]),
    MAX_OPTIONS = 32, /* of a command, with the shared ones */
    OPTION_BYTES = 64,
    HELP_AT = 19, /* column of what an option is for */
    OPTIONS =
        0x1000, /* above all letters: getopt's number of an option is that + its index */
};

static int take_runs_dir(const struct cli *cli, const char *text, void *member)
{
    const char **runs_dir = member;

    *runs_dir = text;
    return *text == '\0' ? cli_usage(cli, "--runs-dir: expected a folder's path") : 0;
}

static int take_quiet(const struct cli *cli, const char *text, void *member)
{
    log_set_level(LOG_LEVEL_ERROR);
    return 0;
}

static int take_verbose(const struct cli *cli, const char *text, void *member)
{
    log_set_level(cli->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_VERBOSE);
    (void)setenv(LOG_LEVEL_VARIABLE, cli->verbose ? "debug" : "verbose", 1);
    return 0;
}

const struct cli_option cli_shared_options[] = {
    {"json", NULL, "print JSON, one object per line", CLI_FLAG(struct cli, json)},
    {"runs-dir", "DIR", "where runs are kept (default: $BROOD_RUNS_DIR or runs/)",
     CLI_TAKE_TO(take_runs_dir, struct cli, runs_dir)},
    {"quiet", NULL, "print errors only", CLI_FLAG(struct cli, quiet), .take = take_quiet,
     .letter = 'q'},
    {"verbose", NULL, "log states, snapshots and replays; -vv: every message",
     CLI_FLAG(struct cli, verbose), .take = take_verbose, .letter = 'v'},
    {"help", NULL, "print this text", CLI_FLAG(struct cli, help), .letter = 'h'},
    {0}};

enum { N_SHARED = sizeof(cli_shared_options) / sizeof(cli_shared_options[0]) - 1 };

static void print_options(const struct cli_option *o)
{
    for (; o != NULL && o->name != NULL; o++) {
        int at = o->letter != 0 ? printf("  -%c, ", o->letter) : printf("  ");

        at += printf("--%s", o->name);
        if (o->value != NULL)
            at += printf(" %s", o->value);
        if (*o->help != '\n')
            (void)printf("%*s", at < HELP_AT ? HELP_AT - at : 2, "");
        for (const char *p = o->help; *p != '\0'; p++) {
            (void)putchar(*p);
            if (*p == '\n')
                (void)printf("%*s", HELP_AT, "");
        }
        (void)putchar('\n');
    }
}

static void print_help(const struct command *c)
{
    (void)printf("usage: brood %s %s\n\n%s.\n\n", c->name, c->arguments, c->summary);
    print_options(cli_shared_options);
    print_options(c->options);
    (void)fputs(c->help, stdout);
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

int cli_write_file(const char *path, const void *data, size_t len, struct err *err)
{
    struct stat st;
    char *real;
    int rc;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        FILE *f = fopen(path, "we");
        int failed;

        if (f == NULL)
            return err_errno(err, "%s", path);
        failed = fwrite(data, 1, len, f) != len;
        failed |= fclose(f) != 0;
        return failed ? err_errno(err, "%s", path) : 0;
    }
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

/* all: the command's own options and the shared ones. */
static int fail_option(const struct cli *cli, const char *word, int is_without_value,
                       const struct cli_option *const *all, size_t n)
{
    const size_t len = strcspn(word, "=");
    const char *names[MAX_OPTIONS];
    char shown[MAX_OPTIONS][OPTION_BYTES], given[OPTION_BYTES];
    struct err err = {0};

    (void)err_set(&err, ERR_ARG, "%s %.100s",
                  is_without_value ? "a value is missing after" : "there is no option",
                  word);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(shown[i], sizeof(shown[i]), "--%s", all[i]->name);
        names[i] = shown[i];
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

/* What other tools call commands. Likeness of letters alone would take "show" for "stop". */
static const char *const usual_names[][2] = {
    {"show", "status"},     {"info", "status"},   {"ps", "runs"},
    {"ls", "runs"},         {"list", "runs"},     {"train", "run"},
    {"start", "run"},       {"launch", "run"},    {"delete", "rm"},
    {"remove", "rm"},       {"evaluate", "eval"}, {"test", "eval"},
    {"play", "eval"},       {"enjoy", "eval"},    {"plot", "report"},
    {"compare", "report"},  {"tune", "sweep"},    {"search", "sweep"},
    {"restore", "resume"},  {"cat", "inspect"},   {"dump", "export"},
    {"save", "checkpoint"}, {"init", "new"},      {"validate", "check"},
    {"ui", "web"},          {"dashboard", "web"}, {"watch", "attach"},
    {"tail", "logs"},
};
#define N_USUAL (sizeof(usual_names) / sizeof(usual_names[0]))
enum { MAX_BEGINNING = 3, MIN_LIKE = 3, MAX_SHORT = 5 };

/* NULL: it is no such word. */
static const char *usual_name(const char *word)
{
    for (size_t i = 0; i < N_USUAL; i++)
        if (strcmp(usual_names[i][0], word) == 0)
            return usual_names[i][1];
    return NULL;
}

/* Adds the commands that begin with the word, if they are few. Returns whether there are any. */
static int add_beginning(struct err *err, const char *word)
{
    const char *found[MAX_BEGINNING + 1];
    char quoted[MAX_BEGINNING + 1][OPTION_BYTES], list[MAX_BEGINNING * OPTION_BYTES];
    size_t n = 0;

    for (int i = 0; i < N_COMMANDS && n <= MAX_BEGINNING; i++)
        if (text_after(commands[i]->name, word) != NULL) {
            (void)snprintf(quoted[n], sizeof(quoted[n]), "'%s'", commands[i]->name);
            found[n] = quoted[n];
            n++;
        }
    if (n == 0 || n > MAX_BEGINNING)
        return 0;
    schema_join_choices(list, sizeof(list), found, n);
    (void)err_add(err, "did you mean %s?", list);
    return 1;
}

/* A short word is like many commands, some of which end or remove something: one edit makes it
 * another word. */
static int is_like(const char *word, const char *name)
{
    return name != NULL && (strlen(word) > MAX_SHORT ||
                            (strlen(word) >= MIN_LIKE && yaml_edits(word, name) == 1));
}

static int fail_command(const struct cli *cli, const char *word)
{
    const char *names[N_USUAL + N_COMMANDS], *name;
    struct err err = {0};

    (void)err_set(&err, ERR_ARG, "there is no command '%.100s'", word);
    for (size_t i = 0; i < N_USUAL; i++)
        names[i] = usual_names[i][0];
    for (int i = 0; i < N_COMMANDS; i++)
        names[N_USUAL + i] = commands[i]->name;
    name = usual_name(word);
    if (name != NULL)
        (void)err_add(&err, "did you mean '%s'?", name);
    else if (!add_beginning(&err, word) &&
             is_like(word, name = yaml_nearest(word, names, N_USUAL + N_COMMANDS)))
        (void)err_add(&err, "did you mean '%s'?",
                      usual_name(name) != NULL ? usual_name(name) : name);
    return cli_usage(cli, "%s", err.msg);
}

void cli_skipped(void *ctx, const char *line)
{
    put_name(ctx);
    (void)fprintf(stderr, "%s; trying the next older one\n", line);
}

int cli_checkpoint(const struct cli *cli, int argc, char **argv, char **ret)
{
    char *dir = NULL, **names = NULL;
    struct err err = {0};
    uint64_t step;
    size_t n = 0;
    int rc;

    if (argc == 0 || argc > 2)
        return cli_usage(cli, "expected a checkpoint, or a run and its agent");
    rc = run_dir_find_checkpoint(cli->runs_dir, argv[0], &dir, &step, cli_skipped,
                                 (void *)(uintptr_t)cli, &err);
    if (argc == 2 && rc < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    if (rc < 0 || (argc == 1 && ckpt_is_there(argv[0], NULL) != 0)) {
        free(dir);
        *ret = xstrdup(argv[0]);
        return 0;
    }
    *ret = NULL;
    rc = checkpoint_agents(dir, step, &names, &n, &err);
    for (size_t i = 0; argc == 2 && i < n; i++)
        if (strcmp(names[i], argv[1]) == 0)
            *ret = xasprintf("%s/%" PRIu64 "/%s", dir, step, names[i]);
    if (rc == 0 && *ret == NULL && argc == 2) {
        (void)err_set(&err, ERR_NOT_FOUND, "%s has no agent '%s' at step %" PRIu64,
                      argv[0], argv[1], step);
        (void)yaml_add_nearest(&err, argv[1], (const char *const *)names, n);
    } else if (rc == 0 && *ret == NULL) {
        char list[ERR_MSG_BYTES];

        *strrchr(dir, '/') = '\0'; /* of the run */
        (void)err_set(&err, ERR_ARG, "%s is a run: give one of its agents, too (%s)",
                      argv[0], run_agent_names(dir, list, sizeof(list)));
    }
    checkpoint_agents_free(names, n);
    free(dir);
    return *ret != NULL
               ? 0
               : cli_fail(cli, rc == 0 && argc == 1 ? CLI_USAGE : CLI_FAILED, &err);
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

/* Stores the option's value (optarg) in its member of `values`. Returns 0 or an exit code. */
static int store(const struct cli *cli, const struct cli_option *o, void *values)
{
    void *member = (char *)values + o->at;
    struct cli_texts *texts = member;
    char name[OPTION_BYTES];
    int code = o->take != NULL ? o->take(cli, optarg, member) : 0;

    if (o->kind == CLI_IS_FLAG)
        *(int *)member = 1;
    else if (o->kind == CLI_IS_TEXT)
        *(const char **)member = optarg;
    else if (o->kind == CLI_IS_TEXTS)
        texts->text[texts->n++] = optarg;
    else if (o->kind == CLI_IS_NUMBER) {
        (void)snprintf(name, sizeof(name), "--%s", o->name);
        code = cli_integer(cli, name, optarg, o->min, o->max, member);
    }
    return code;
}

/* Makes getopt's tables; letters: with room for two characters of each option. Returns the number
 * of options. */
static size_t list_options(const struct command *c,
                           const struct cli_option *all[MAX_OPTIONS],
                           struct option ret[MAX_OPTIONS], char *letters)
{
    size_t n = 0;

    for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++)
        all[n++] = o;
    for (const struct cli_option *o = cli_shared_options; o->name != NULL; o++)
        all[n++] = o;
    CHECK(n < MAX_OPTIONS);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct option){
            all[i]->name, all[i]->kind == CLI_IS_FLAG ? no_argument : required_argument,
            NULL, OPTIONS + (int)i};
        strncat(letters, &all[i]->letter, 1);
        if (all[i]->letter != 0 && all[i]->kind != CLI_IS_FLAG)
            strcat(letters, ":");
    }
    ret[n] = (struct option){0};
    return n;
}

/* Stores the options' values; arguments are left from optind on. Returns 1 to continue; otherwise
 * the command is over with *ret_exit: after --help, or after wrong usage was reported. */
static int parse(struct cli *cli, int argc, char **argv, void *values, int *ret_exit)
{
    const struct cli_option *own[MAX_OPTIONS];
    struct option all[MAX_OPTIONS];
    char letters[1 + 2 * MAX_OPTIONS + 1] = ":", letter[3];
    const size_t n = list_options(cli->command, own, all, letters);
    int c;

    for (size_t i = 0; i < n; i++)
        if (own[i]->kind ==
            CLI_IS_TEXTS) /* each takes an argument, and argv[0] is none */
            ((struct cli_texts *)((char *)values + own[i]->at))->text =
                ARENA_ARRAY(&cli->arena, const char *, argc + 1);
    opterr = 0;
    optind = 0; /* makes glibc's getopt restart */
    while ((c = getopt_long(argc, argv, letters, all, NULL)) != -1) {
        size_t i = 0;

        if (c == '?' || c == ':') {
            *ret_exit =
                fail_option(cli, refused_word(argc, argv, letter), c == ':', own, n);
            return 0;
        }
        while (c != OPTIONS + (int)i && c != own[i]->letter)
            i++;
        *ret_exit = store(cli, own[i], i < n - N_SHARED ? values : cli);
        if (cli->help)
            print_help(cli->command);
        if (*ret_exit != CLI_DONE || cli->help)
            return 0;
    }
    if (cli->command->one != NULL && argc - optind > 1)
        *ret_exit =
            cli_usage(cli, "expected one %s, got %d", cli->command->one, argc - optind);
    return *ret_exit == CLI_DONE;
}

/* argv: the command's name and what follows it. */
static int run(struct cli *cli, int argc, char **argv)
{
    const struct command *c = cli->command;
    void *values = arena_alloc(&cli->arena, c->size);
    int code = CLI_DONE;

    if (c->size > 0)
        memcpy(values, c->defaults, c->size);
    if (parse(cli, argc, argv, values, &code))
        code = c->run(cli, values, argc - optind, argv + optind);
    arena_done(&cli->arena);
    return code;
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

int cli_main(int argc, char **argv)
{
    const char *dir = getenv("BROOD_RUNS_DIR");
    struct cli cli = {.argc = argc,
                      .argv = argv,
                      .keeper = KEEPER_LINK_NONE,
                      .runs_dir = dir != NULL && *dir != '\0' ? dir : "runs"};

    /* Open /dev/null for what the caller has closed of stdin, stdout and stderr: else the
     * files and pipes of this process would get these numbers. Writes to that stdout fail, as
     * to a closed one: results that nobody can read are an error. */
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) /* open returns the lowest free number, which is fd */
            (void)open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
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
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return end_results(&cli, help(&cli, argc > 2 ? argv[2] : NULL));
    cli.command = cli_command_find(argv[1]);
    if (cli.command == NULL)
        return fail_command(&cli, argv[1]);
    return end_results(&cli, run(&cli, argc - 1, argv + 1));
}
