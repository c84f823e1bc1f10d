#include "supervisor/cli/train.h"

#include "common/config/schema.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "supervisor/cli/watcher.h"
#include "supervisor/control/control.h"
#include "supervisor/proc/detach.h"
#include "supervisor/run/hooks.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The supervisor logs to a file of the run, because stderr shows the live view. */
static int open_log(struct run_dir *dir, struct err *err)
{
    const char *path = run_dir_file(dir, "logs/supervisor.log");
    int fd = run_dir_make_folders(dir, err); /* somebody may have removed old logs */

    if (fd < 0)
        return fd;
    fd = beneath_open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0)
        return err_errno(err, "open %s", path);
    log_init("supervisor", log_get_level(), fd);
    return fd;
}

/* With --detach: releases the terminal as soon as the first round is done. */
struct starter {
    const struct cli *cli;
    struct watcher *watcher;
    int log_fd;
};

/* Stderr becomes the supervisor's log, so that messages of libraries are kept. */
static void on_event(void *ctx, const struct run_event *e)
{
    const struct starter *s = ctx;

    if (e->kind != RUN_EVENT_UNDER_WAY || !s->cli->is_detached)
        return;
    watcher_mute(s->watcher);
    detach_stdio();
    (void)dup2(s->log_fd, STDERR_FILENO);
    keeper_send_under_way(&s->cli->keeper);
}

static int train(const struct cli *cli, const struct training_args *args, int log_fd)
{
    const struct run_config *config = args->config;
    const struct run_length length =
        run_length_of(args->wanted != NULL ? args->wanted : config);
    const struct rollout_progress *from =
        args->resume != NULL ? resume_progress(args->resume) : NULL;
    struct watcher_args wa = {.command = cli->command->name,
                              .json = cli->json,
                              .quiet = cli->quiet,
                              .is_detached = cli->is_detached,
                              .run = run_dir_name(args->dir),
                              .path = run_dir_path(args->dir),
                              .seed = config->run.seed,
                              .total_steps = (uint64_t)length.env_steps,
                              .total_episodes = (uint64_t)length.episodes,
                              .from = from != NULL ? &from->env_steps : NULL,
                              .differs = args->differs.code != 0,
                              .n_agents = config->n_agents,
                              .keeper = &cli->keeper};
    struct watcher *w = watcher_new(&wa);
    struct starter starter = {cli, w, log_fd};
    struct control *control = control_new(args->dir);
    struct hooks *hooks = hooks_new(args, &cli->keeper);
    struct training_args watched = *args;
    struct training_observer observers[4];
    struct training_result result;
    struct err err = {0};
    int rc;

    observers[0] = watcher_observer(w);
    observers[1] = control_observer(control);
    observers[2] = (struct training_observer){.on_event = on_event, .ctx = &starter};
    observers[3] = hooks_observer(hooks);
    watched.observers = observers;
    watched.n_observers = 4;
    watched.keeper = &cli->keeper;
    /* what it needs to resume the run if this supervisor dies */
    keeper_send_run(&cli->keeper, run_dir_path(args->dir), cli->place,
                    from != NULL ? from->env_steps : 0,
                    config->run.resume_on_supervisor_death);
    rc = training_run(&watched, &result, &err);
    watcher_end(w, &result, rc < 0 ? &err : NULL, run_dir_path(args->dir));
    watcher_free(w);
    control_free(control);
    hooks_free(hooks);
    return result.exit_code;
}

int train_watched(const struct cli *cli, const struct training_args *args)
{
    struct err err = {0};
    int log_fd = open_log(args->dir, &err), code;

    if (log_fd < 0)
        return cli_fail(cli, CLI_FAILED, &err);
    code = train(cli, args, log_fd);
    log_init("brood", log_get_level(), STDERR_FILENO);
    (void)close(log_fd);
    return code;
}

int train_check_rescue(const char *dir, struct err *err)
{
    int rc = dir != NULL ? tree_make(dir, err) : 0;
    struct stat st;

    /* tree_make is content with a file of that name */
    if (rc == 0 && dir != NULL && stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        rc = err_set(err, ERR_ARG, "%s is no folder", dir);
    else if (rc == 0 && dir != NULL && access(dir, W_OK | X_OK) < 0)
        rc = err_errno(err, "%s", dir);
    return rc < 0 ? err_wrap(err, "--rescue") : 0;
}

int train_take_memory(const struct cli *cli, const char *text, void *to)
{
    static const struct field bytes = {.key = "memory-limit", .type = FIELD_BYTES};
    int64_t *ret = to;

    if (schema_read_text(&bytes, text, "--memory-limit", ret, NULL) < 0 || *ret <= 0)
        return cli_usage(cli, "--memory-limit '%s': expected a size such as 8G", text);
    return 0;
}
