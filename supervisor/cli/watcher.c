#include "supervisor/cli/watcher.h"

#include "common/mem/xmalloc.h"
#include "supervisor/cli/live_view.h"
#include "supervisor/cli/msg_json.h"
#include "supervisor/metrics/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct watcher {
    const char *command;
    int json_lines;
    int quiet;       /* no view, no lines at the start and the end */
    int errors_only; /* print only messages that are errors */
    int is_mute, differs;
    int64_t from; /* step of the checkpoint it resumes from; -1: a new run */
    const char *run;
    struct live_view *view;
    const struct keeper_link *keeper;
    int takes_keys; /* keeper_send_keys was called */
};

/* ---- watching ---- */

static void take_keys(struct watcher *w)
{
    char typed[256];
    ssize_t n;

    if (!w->takes_keys && live_view_hides(w->view)) {
        w->takes_keys = 1;
        keeper_send_keys(w->keeper);
    }
    if (w->takes_keys && (n = read(w->keeper->keys, typed, sizeof(typed))) > 0)
        live_view_keys(w->view, typed, (size_t)n);
}

static void on_tick(void *ctx, struct training *t)
{
    struct watcher *w = ctx;
    struct run_status s;

    take_keys(w);
    if (!live_view_is_due(w->view))
        return;
    training_status(t, &s);
    live_view_show(w->view, &s);
}

static void on_event(void *ctx, const struct run_event *e)
{
    struct watcher *w = ctx;

    if (e->kind == RUN_EVENT_MESSAGE && !w->is_mute &&
        (e->message.error || !w->errors_only))
        live_view_message(w->view, "%s", e->message.text);
    for (size_t i = 0; e->kind == RUN_EVENT_ROW && i < e->row->n; i++)
        live_view_metric(w->view, e->row->names[i], e->row->values[i]);
    if (w->json_lines && (run_event_readers(e->kind) & RUN_EVENT_PRINTED) != 0) {
        struct json j = {0};

        run_event_json(&j, e);
        json_print(&j, stdout);
    }
}

static void print_start(const struct watcher_args *args)
{
    struct json j = {0};

    msg_json_begin_event(&j, "start");
    json_put_str(&j, "run", args->run);
    json_put_known(&j, "env_steps", args->total_steps != 0, args->total_steps);
    json_put_known(&j, "episodes", args->total_episodes != 0, args->total_episodes);
    json_put_known(&j, "from_checkpoint", args->from != NULL,
                   args->from != NULL ? *args->from : 0);
    json_print(&j, stdout);
}

static void print_end(const struct training_result *r)
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
    json_put_f64(&j, "team_return_mean", r->team_return_mean);
    json_print(&j, stdout);
}

/* Names the command that continues a failed run which cannot be resumed from its newest
 * checkpoint. */
static void show_other_way(struct watcher *w, const struct training_result *r,
                           const char *path)
{
    const int64_t expected = r->is_unchanged ? w->from : r->checkpoint_step;

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

static void show_end(struct watcher *w, const struct training_result *r, const char *path)
{
    char steps[32], time_text[32], team[48] = "";

    if (w->quiet)
        return;
    if (r->is_unchanged) {
        live_view_message(
            w->view, "%s: was not resumed and has not changed%s; %s", w->run,
            w->differs ? " (resume it without the difference, or begin a new "
                         "run)"
                       : "",
            path);
        return;
    }
    if (!isnan(r->team_return_mean))
        (void)snprintf(team, sizeof(team), ", return %.2f", r->team_return_mean);
    live_view_message(
        w->view, "%s: %s after %s steps in %s%s, %llu restart%s; %s", w->run,
        training_end_name(r->end), format_count(r->env_steps, steps, sizeof(steps)),
        format_duration(r->wall_seconds, time_text, sizeof(time_text)), team,
        (unsigned long long)r->restarts, r->restarts == 1 ? "" : "s", path);
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

struct watcher *watcher_new(const struct watcher_args *args)
{
    struct watcher *w = xcalloc(1, sizeof(*w));

    w->command = args->command;
    w->json_lines = args->json && !args->is_detached;
    w->quiet = args->quiet || args->is_detached;
    w->differs = args->differs;
    w->from = args->from != NULL ? (int64_t)*args->from : -1;
    w->errors_only = args->quiet;
    w->view = live_view_new(STDERR_FILENO, w->quiet);
    w->run = args->run;
    w->keeper = args->keeper;
    if (args->json)
        print_start(args);
    if (args->from != NULL && !w->quiet)
        live_view_message(w->view, "%s: continues from step %llu", args->run,
                          (unsigned long long)*args->from);
    if (!w->quiet)
        live_view_message(w->view, "%s: %zu agent%s, seed %llu, in %s", args->run,
                          args->n_agents, args->n_agents == 1 ? "" : "s",
                          (unsigned long long)args->seed, args->path);
    return w;
}

void watcher_print_done(const struct watcher_args *args,
                        const struct training_result *result)
{
    if (args->json) {
        print_start(args);
        print_end(result);
    }
}

void watcher_free(struct watcher *w)
{
    live_view_free(w->view);
    free(w);
}

void watcher_mute(struct watcher *w)
{
    w->is_mute = 1;
}

struct training_observer watcher_observer(struct watcher *w)
{
    return (struct training_observer){.on_tick = on_tick, .on_event = on_event, .ctx = w};
}

void watcher_end(struct watcher *w, const struct training_result *result,
                 const struct err *failure, const char *path)
{
    live_view_show_end(w->view, result->env_steps, result->episodes);
    show_end(w, result, path);
    show_other_way(w, result, path);
    if (failure != NULL)
        live_view_message(w->view, "brood %s: %s", w->command, failure->msg);
    if (w->json_lines)
        print_end(result);
}
