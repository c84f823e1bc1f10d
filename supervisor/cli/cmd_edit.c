/* `brood edit`: `brood set` through an editor on the run's configuration. */
#include "common/config/changes.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/env/env.h"
#include "supervisor/rundir/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MAX_BYTES = 1 << 20 };
enum { NO_SUCH_PROGRAM = 127 }; /* the shell's exit code */

struct edit {
    const struct cli *cli;
    struct control_client *client;
    const char *editor;
    const char *run;       /* the run's directory */
    const char *from;      /* file to start from; NULL: the run's config.yaml */
    char *file;            /* the file that the editor opens, in the run's directory */
    struct run_config was; /* the configuration before the edit */
    struct wbuf given;     /* the text as it was given to the editor */
};

/* ---- the text ---- */

static int begin(struct edit *e, struct err *err)
{
    const struct config_options options = {.env_names = env_agent_names};
    char *config = xasprintf("%s/config.yaml", e->run);
    int fd, rc = run_config_read(&e->was, config, &options, err);

    free(config);
    if (rc == 0 && e->from != NULL) {
        rc = wbuf_read_file(&e->given, e->from, TEXT_MAX_BYTES, err);
    } else if (rc == 0) {
        char *yaml = run_config_to_yaml(&e->was);

        wbuf_bytes(&e->given, yaml, strlen(yaml));
        free(yaml);
    }
    if (rc < 0)
        return rc;
    fd = beneath_open(e->file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, e->given.data, e->given.len) != (ssize_t)e->given.len)
        rc = err_errno(err, "%s", e->file);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

/* 0 also if the editor has removed the file. */
static int is_edited(const struct edit *e)
{
    struct wbuf now = {0};
    const int rc = wbuf_read_file(&now, e->file, TEXT_MAX_BYTES, NULL);
    const int is_same = now.len == e->given.len &&
                        (now.len == 0 || memcmp(now.data, e->given.data, now.len) == 0);

    wbuf_done(&now);
    return rc == 0 ? !is_same : rc != -ENOENT;
}

/* ---- one edit ---- */

static int run_editor(const struct edit *e, struct err *err)
{
    char *command = xasprintf("%s \"$BROOD_EDIT_FILE\"", e->editor);
    int status, rc = 0;

    (void)setenv("BROOD_EDIT_FILE", e->file, 1);
    (void)signal(SIGXFSZ, SIG_DFL); /* the editor gets the default disposition */
    status = system(command);
    if (status == -1)
        rc = err_errno(err, "starting %s: nothing changes", e->editor);
    (void)signal(SIGXFSZ, SIG_IGN);
    free(command);
    if (status == -1)
        return rc;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_SUCH_PROGRAM)
        return err_set(
            err, ERR_ARG,
            "there is no editor %s: set VISUAL or EDITOR to one; nothing changes",
            e->editor);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_ARG, "%s failed: nothing changes", e->editor);
    return 0;
}

/* Applies the differences between the text before and after the edit. */
static int apply(const struct edit *e, struct err *err)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct cli_changes changes = {0};
    struct config_diff d;
    struct run_config is;
    int rc = run_config_read(&is, e->file, &options, err);

    if (rc < 0)
        return rc;
    run_config_diff(&d, &e->was, &is, 1);
    changes.words = xcalloc(d.n + 1, sizeof(*changes.words));
    for (; changes.n < d.n; changes.n++)
        changes.words[changes.n] =
            xasprintf("%s=%s", d.list[changes.n].path, d.list[changes.n].text);
    rc = cli_change_run(e->cli, e->client, e->run, &changes, NULL, err);
    for (size_t i = 0; i < changes.n; i++)
        free(changes.words[i]);
    free(changes.words);
    config_diff_done(&d);
    run_config_done(&is);
    return rc;
}

/* ---- repeated edits ---- */

static void on_interrupt(int sig)
{
    (void)sig; /* ends ppoll */
}

/* Asks on the terminal, and waits for the answer; 0: an interrupt came instead. */
static int ask(const char *question)
{
    const struct sigaction ours = {.sa_handler = on_interrupt};
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    struct sigaction before;
    sigset_t interrupt, mask;
    int is_answered;

    (void)sigemptyset(&interrupt);
    (void)sigaddset(&interrupt, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &interrupt, &mask); /* but not in ppoll */
    (void)sigaction(SIGINT, &ours, &before);
    (void)fputs(question, stderr);
    is_answered = ppoll(&in, 1, NULL, &mask) > 0;
    (void)sigaction(SIGINT, &before, NULL);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    if (!is_answered)
        (void)fputc('\n', stderr);
    return is_answered;
}

/* Reports the error and asks whether to edit again; 0 without a terminal. */
static int wants_again(const struct edit *e, const struct err *err)
{
    char answer[16] = "n";

    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return 0;
    (void)cli_fail(e->cli, 0, err);
    if (!ask("edit again? [Y/n] ") || fgets(answer, sizeof(answer), stdin) == NULL)
        return 0;
    return strchr("yY\n", *answer) != NULL;
}

static int edit(struct edit *e)
{
    const char *given = e->from != NULL ? text_after(e->from, e->run) : NULL;
    struct err err = {0};
    int rc = begin(e, &err);

    if (rc < 0)
        return cli_fail_run(e->cli, &err);
    do {
        rc = run_editor(e, &err);
        if (rc == 0)
            rc = apply(e, &err);
    } while (rc < 0 && wants_again(e, &err));
    if (rc < 0) {
        const int code = cli_fail_run(e->cli, &err);

        if (is_edited(e) && err.code == ERR_NOT_FOUND && !err.from_peer)
            (void)fprintf(stderr, "the text is kept in %s\n", e->file);
        else if (is_edited(e))
            (void)fprintf(
                stderr, "the text is kept: `brood edit %s --from %s` continues with it\n",
                e->run, e->file);
        else
            (void)beneath_unlink(e->file);
        return code;
    }
    (void)beneath_unlink(e->file);
    if (given != NULL && text_after(given, "/edit-") != NULL)
        (void)beneath_unlink(e->from); /* an earlier edit has kept it */
    return CLI_DONE;
}

/* ---- the command ---- */

static int edit_run(struct cli *cli, void *values, int argc, char **argv)
{
    struct edit *e = values;
    struct err err = {0};
    char *path = NULL;
    int code;

    e->cli = cli;
    e->editor = getenv("VISUAL");
    if (e->editor == NULL || *e->editor == '\0')
        e->editor = getenv("EDITOR");
    if (e->editor == NULL || *e->editor == '\0')
        e->editor = "vi";
    if (cli_open_run(cli, argv[0], CLI_ANSWERS_WITHIN_MS, &path, &e->client, &err) < 0) {
        code = cli_fail_run(cli, &err);
    } else {
        e->run = path;
        e->file = xasprintf("%s/edit-%d.yaml", path, (int)getpid());
        code = edit(e);
        run_config_done(&e->was);
        wbuf_done(&e->given);
        free(e->file);
    }
    control_client_close(e->client);
    free(path);
    return code;
}

static const struct cli_option options[] = {
    {"from", "FILE", "start from this file, such as a text kept earlier",
     CLI_TEXT(struct edit, from)},
    {0}};

const struct command cmd_edit = {
    .name = "edit",
    .arguments = "[RUN] [options]",
    .one = "run",
    .summary = "Edit a live run's configuration with $VISUAL, $EDITOR or vi",
    .options = options,
    CLI_INTO(struct edit, 0),
    .help =
        "\nThe differences are applied as by `brood set`. A text that is refused can\n"
        "be edited again; without a terminal, it is kept in a file.\n"
        "\nexample: EDITOR=nano brood edit simple_spread-1\n",
    .takes = CLI_LIVE,
    .run = edit_run,
};
