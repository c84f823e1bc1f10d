#include "supervisor/cli/train.h"

#include "common/config/schema.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "supervisor/ask/describe.h"
#include "supervisor/begin/program_policy.h"
#include "supervisor/cli/live_view.h"
#include "supervisor/control/control.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/detach.h"
#include "supervisor/run/hooks.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is shown of a run while it trains: a view or lines on stderr, JSON on stdout ---- */

struct watch {
    const struct cli *cli;
    const struct training_args *args;
    const char *run;
    struct live_view *view;
    int log_fd;     /* of the supervisor's log */
    int quiet;      /* no view, no lines at the start and the end */
    int is_mute;    /* the terminal is released; a failure is still reported at the end */
    int takes_keys; /* keeper_send_keys was called */
};

/* Step of the checkpoint from which the run is resumed; -1: it is a new one. */
static int64_t from_step(const struct watch *w)
{
    return w->args->resume != NULL ? (int64_t)resume_progress(w->args->resume)->env_steps
                                   : -1;
}

static int prints_json(const struct watch *w)
{
    return w->cli->json && !w->cli->is_detached;
}

static void on_tick(void *ctx, struct training *t)
{
    struct watch *w = ctx;
    const struct keeper_link *keeper = &w->cli->keeper;
    struct run_status s;
    char typed[256];
    ssize_t n;

    if (!w->takes_keys && live_view_hides(w->view)) {
        w->takes_keys = 1;
        keeper_send_keys(keeper);
    }
    if (w->takes_keys && (n = read(keeper->keys, typed, sizeof(typed))) > 0)
        live_view_keys(w->view, typed, (size_t)n);
    if (!live_view_is_due(w->view))
        return;
    training_status(t, &s);
    live_view_show(w->view, &s);
}

static void on_event(void *ctx, const struct run_event *e)
{
    struct watch *w = ctx;

    if (e->kind == RUN_EVENT_MESSAGE && !w->is_mute &&
        (e->message.error || !w->cli->quiet))
        live_view_message(w->view, "%s", e->message.text);
    for (size_t i = 0; e->kind == RUN_EVENT_ROW && i < e->row->n; i++)
        live_view_metric(w->view, e->row->names[i], e->row->values[i]);
    if (prints_json(w) && (run_event_readers(e->kind) & RUN_EVENT_PRINTED) != 0) {
        struct json j = {0};

        run_event_json(&j, e);
        json_print(&j, stdout);
    }
    if (e->kind == RUN_EVENT_UNDER_WAY && w->cli->is_detached) {
        /* Releases the terminal. Stderr becomes the supervisor's log, so that messages of
         * libraries are kept. */
        w->is_mute = 1;
        detach_stdio();
        (void)dup2(w->log_fd, STDERR_FILENO);
        keeper_send_under_way(&w->cli->keeper);
    }
}

static void print_start(const struct training_args *args)
{
    const struct run_length length =
        run_length_of(args->wanted != NULL ? args->wanted : args->config);
    const struct rollout_progress *from =
        args->resume != NULL ? resume_progress(args->resume) : NULL;
    struct json j = {0};

    msg_json_begin_event(&j, "start");
    json_put_str(&j, "run", run_dir_name(args->dir));
    json_put_known(&j, "env_steps", length.env_steps != 0, (uint64_t)length.env_steps);
    json_put_known(&j, "episodes", length.episodes != 0, (uint64_t)length.episodes);
    json_put_known(&j, "from_checkpoint", from != NULL,
                   from != NULL ? from->env_steps : 0);
    json_print(&j, stdout);
}

/* why: of a failure. */
static void print_end(const struct training_result *r, const struct err *why)
{
    static const char *const events[] = {[TRAINING_DONE] = "done",
                                         [TRAINING_STOPPED] = "stopped",
                                         [TRAINING_CUT_OFF] = "cut_off",
                                         [TRAINING_FAILED] = "failed"};
    struct json j = {0};

    msg_json_begin_event(&j, events[r->end]);
    json_put_u64(&j, "env_steps", r->env_steps);
    json_put_u64(&j, "episodes", r->episodes);
    json_put_known(&j, "checkpoint_step", r->checkpoint_step >= 0,
                   (uint64_t)r->checkpoint_step);
    json_put_f64(&j, "wall_seconds", r->wall_seconds);
    json_put_u64(&j, "restarts", r->restarts);
    json_put_f64(&j, "total_seconds", r->total_seconds);
    json_put_u64(&j, "total_restarts", r->total_restarts);
    json_put_f64(&j, "team_return_mean", r->team_return_mean);
    if (r->end == TRAINING_DONE)
        json_put_str(&j, "done_why", *r->done_why != '\0' ? r->done_why : NULL);
    if (r->end == TRAINING_FAILED) {
        json_put_str(&j, "failure", why->msg);
        json_put_str(&j, "failure_agent", *why->agent != '\0' ? why->agent : NULL);
        json_put_str(&j, "failure_file", *why->file != '\0' ? why->file : NULL);
        json_put_known(&j, "failure_line", why->line > 0, (uint64_t)why->line);
    }
    json_print(&j, stdout);
}

/* Names the command that continues a failed run which cannot be resumed from its newest
 * checkpoint. */
static void show_other_way(struct watch *w, const struct training_result *r,
                           const char *path)
{
    const int64_t expected = r->is_unchanged ? from_step(w) : r->checkpoint_step;

    if (r->end != TRAINING_FAILED || expected < 0 || r->resume_step == expected)
        return;
    if (r->unread.code < 0)
        live_view_message(
            w->view,
            "%s: whether its experience log has the rows of its checkpoints "
            "is not known: %s; when that is mended, `brood resume %s` "
            "continues",
            w->run, r->unread.msg, path);
    else if (r->resume_step >= 0)
        live_view_message(w->view,
                          "%s: `brood resume %s --from %lld` continues from the newest "
                          "checkpoint whose rows its experience log still holds",
                          w->run, path, (long long)r->resume_step);
    else
        live_view_message(
            w->view,
            "%s: its experience log lacks rows that every checkpoint needs; "
            "`brood run %s/config.yaml --init-from %s` begins a new run "
            "with its weights",
            w->run, path, path);
}

static void show_end(struct watch *w, const struct training_result *r, const char *path)
{
    char steps[32], time_text[32];

    if (w->quiet)
        return;
    if (r->is_unchanged) {
        live_view_message(w->view, "%s: was not resumed and has not changed%s; %s",
                          w->run,
                          w->args->differs.code != 0
                              ? " (resume it without the difference, or begin a new "
                                "run)"
                              : "",
                          path);
        return;
    }
    live_view_message(
        w->view, "%s: %s after %s steps in %s%s%s, %llu restart%s; %s", w->run,
        training_end_name(r->end), format_count(r->env_steps, steps, sizeof(steps)),
        format_duration(r->total_seconds, time_text, sizeof(time_text)),
        *r->returns != '\0' ? ", return " : "", r->returns,
        (unsigned long long)r->total_restarts, r->total_restarts == 1 ? "" : "s", path);
    if (r->end != TRAINING_DONE && r->checkpoint_step >= 0 &&
        (r->end != TRAINING_FAILED || r->resume_step == r->checkpoint_step))
        live_view_message(
            w->view, "%s: `brood resume %s` continues from the checkpoint of step %lld",
            w->run, path, (long long)r->checkpoint_step);
    else if (r->end == TRAINING_STOPPED || r->end == TRAINING_CUT_OFF)
        live_view_message(w->view,
                          "%s: there is no checkpoint yet; `brood run` with --name %s "
                          "--force starts over",
                          w->run, w->run);
}

void train_print_done(const struct training_args *args,
                      const struct training_result *result)
{
    print_start(args);
    print_end(result, NULL);
}

static void show_start(struct watch *w)
{
    const size_t n = w->args->config->n_agents;

    if (w->cli->json)
        print_start(w->args);
    if (w->quiet)
        return;
    if (w->args->resume != NULL)
        live_view_message(w->view, "%s: continues from step %lld", w->run,
                          (long long)from_step(w));
    live_view_message(w->view, "%s: %zu agent%s, seed %llu, in %s", w->run, n,
                      n == 1 ? "" : "s", (unsigned long long)w->args->config->run.seed,
                      run_dir_path(w->args->dir));
}

/* ---- training ---- */

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

static int train(const struct cli *cli, const struct training_args *args, int log_fd)
{
    struct watch w = {.cli = cli,
                      .args = args,
                      .run = run_dir_name(args->dir),
                      .log_fd = log_fd,
                      .quiet = cli->quiet || cli->is_detached};
    struct control *control = control_new(args->dir);
    struct hooks *hooks = hooks_new(args, &cli->keeper);
    const struct training_observer observers[] = {
        control_observer(control),
        {.on_tick = on_tick, .on_event = on_event, .ctx = &w},
        hooks_observer(hooks)};
    struct training_args watched = *args;
    struct training_result result;
    struct err err = {0};
    const char *path;
    int rc;

    w.view = live_view_new(STDERR_FILENO, w.quiet);
    show_start(&w);
    watched.observers = observers;
    watched.n_observers = sizeof(observers) / sizeof(observers[0]);
    watched.keeper = &cli->keeper;
    /* what it needs to resume the run if this supervisor dies */
    keeper_send_run(&cli->keeper, run_dir_path(args->dir), cli->place,
                    args->resume != NULL ? (uint64_t)from_step(&w) : 0,
                    args->config->run.resume_on_supervisor_death);
    rc = training_run(&watched, &result, &err);
    path = run_dir_path(args->dir);
    live_view_show_end(w.view, result.env_steps, result.episodes);
    show_end(&w, &result, path);
    show_other_way(&w, &result, path);
    if (rc < 0)
        live_view_message(w.view, "brood %s: %s", cli->command->name, err.msg);
    if (prints_json(&w))
        print_end(&result, &err);
    live_view_free(w.view);
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

struct config_options train_config_options(const struct cli *cli,
                                           const struct cli_texts *sets,
                                           struct policy_search *search,
                                           struct trial *trial)
{
    return (struct config_options){.set = sets->text,
                                   .n_set = sets->n,
                                   .env_names = env_agent_names,
                                   .describe = describe_program,
                                   .take_policy = program_policy_take,
                                   .policy_ctx = search,
                                   .try_agents = trial != NULL ? trial_agents : NULL,
                                   .try_ctx = trial,
                                   .dropped = cli_dropped,
                                   .dropped_ctx = (void *)(uintptr_t)cli,
                                   .extends = 1};
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
