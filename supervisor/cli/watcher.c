#include "supervisor/cli/watcher.h"

#include "common/mem/xmalloc.h"
#include "supervisor/cli/live_state.h"
#include "supervisor/cli/msg_json.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/sinks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct watcher {
    const char *command;
    int json_lines;
    int quiet;       /* no view, no first and last words */
    int errors_only; /* no other messages, either */
    int is_mute, differs;
    int64_t from; /* step of the checkpoint it goes on from; -1: none */
    struct live_view *view;
    struct live_state state; /* the last view outlives the agents' table */
    const struct training *training;
    double began;
    struct json json;
};

static double seconds_now(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- watching ---- */

static void on_start(void *ctx, const struct agent_table *agents)
{
    struct watcher *w = ctx;

    for (size_t i = 0; i < agent_table_count(agents); i++) {
        struct agent_info info;

        agent_table_info(agents, i, &info);
        live_state_add_agent(&w->state, info.name);
    }
}

static int on_open(void *ctx, struct training *t, uv_loop_t *loop, struct err *err)
{
    struct watcher *w = ctx;

    (void)loop;
    (void)err;
    w->training = t;
    return 0;
}

static void on_tick(void *ctx, const struct agent_table *agents,
                    const struct rollout_progress *at)
{
    struct watcher *w = ctx;
    struct live_status *s = &w->state.status;

    s->steps_per_second = training_rate(w->training);
    s->env_steps = at->env_steps;
    s->episodes = at->episodes;
    s->elapsed_s = seconds_now() - w->began;
    if (!live_state_is_due(&w->state, w->view))
        return;
    for (size_t i = 0; i < s->n_agents; i++) {
        struct live_agent *to = &w->state.agents[i];
        struct agent_info info;

        agent_table_info(agents, i, &info);
        to->state = info.mode != AGENT_LEARNS ? agent_mode_name(info.mode)
                                              : agent_state_name(info.state);
        to->pid = info.pid;
        to->restarts = info.restarts;
        if (info.rss_bytes >= 0 || info.pid == 0) /* one just ending: what it held last */
            to->rss_bytes = info.rss_bytes;
    }
    live_view_show(w->view, s);
}

static void on_row(void *ctx, const struct metrics_row *row)
{
    struct watcher *w = ctx;

    for (size_t k = 0; k < row->n; k++)
        live_state_metric(&w->state, row->names[k], row->values[k]);
    if (w->json_lines) {
        json_begin(&w->json);
        json_put_row(&w->json, row);
        msg_json_print(&w->json);
    }
}

static void on_message(void *ctx, int is_error, const char *line)
{
    struct watcher *w = ctx;

    if (!w->is_mute && (is_error || !w->errors_only))
        live_view_message(w->view, "%s", line);
}

static void on_agent(void *ctx, const struct agent_event *event, const char *name)
{
    static const char *const names[] = {
        [AGENT_EVENT_HELLO] = "hello",     [AGENT_EVENT_SPAWN] = "spawn",
        [AGENT_EVENT_READY] = "ready",     [AGENT_EVENT_EXIT] = "exit",
        [AGENT_EVENT_RESPAWN] = "respawn", [AGENT_EVENT_WAIT] = "wait",
        [AGENT_EVENT_GIVE_UP] = "give_up", [AGENT_EVENT_TAKE_BACK] = "take_back",
        [AGENT_EVENT_TURNED] = "turned"};
    struct watcher *w = ctx;
    struct json *j = &w->json;

    if (!w->json_lines)
        return;
    json_begin(j);
    json_object(j);
    json_key(j, "event");
    json_str(j, names[event->kind]);
    json_key(j, "agent");
    json_str(j, name);
    json_key(j, "pid");
    json_i64(j, event->pid);
    if (event->kind == AGENT_EVENT_EXIT) {
        json_key(j, event->signal != 0 ? "signal" : "code");
        json_i64(j, event->signal != 0 ? event->signal : event->exit_code);
    }
    if (event->kind == AGENT_EVENT_WAIT) {
        json_key(j, "delay_ms");
        json_u64(j, event->delay_ms);
    }
    if (event->turn != NULL) {
        json_key(j, "mode");
        json_str(j, agent_mode_name(event->turn->mode));
    }
    if (event->text != NULL) {
        json_key(j, "why");
        json_str(j, event->text);
    }
    json_close(j);
    msg_json_print(j);
}

static void put_total(struct json *j, const char *key, uint64_t total)
{
    json_key(j, key);
    if (total != 0)
        json_u64(j, total);
    else
        json_null(j);
}

static void print_start(struct watcher *w, const uint64_t *from)
{
    struct json *j = &w->json;

    json_begin(j);
    json_object(j);
    json_key(j, "event");
    json_str(j, "start");
    json_key(j, "run");
    json_str(j, w->state.status.run);
    put_total(j, "env_steps", w->state.status.total_steps);
    put_total(j, "episodes", w->state.status.total_episodes);
    json_key(j, "from_checkpoint");
    if (from != NULL)
        json_u64(j, *from);
    else
        json_null(j);
    json_close(j);
    msg_json_print(j);
}

static void print_end(struct watcher *w, const struct training_result *r)
{
    static const char *const events[] = {[TRAINING_DONE] = "done",
                                         [TRAINING_STOPPED] = "stopped",
                                         [TRAINING_CUT_OFF] = "cut_off",
                                         [TRAINING_FAILED] = "failed"};
    struct json *j = &w->json;

    json_begin(j);
    json_object(j);
    json_key(j, "event");
    json_str(j, events[r->end]);
    json_key(j, "env_steps");
    json_u64(j, r->env_steps);
    json_key(j, "episodes");
    json_u64(j, r->episodes);
    json_key(j, "checkpoint_step");
    if (r->checkpoint_step >= 0)
        json_i64(j, r->checkpoint_step);
    else
        json_null(j);
    json_key(j, "wall_seconds");
    json_f64(j, r->wall_seconds);
    json_key(j, "restarts");
    json_u64(j, r->restarts);
    json_key(j, "team_return_mean");
    json_f64(j, r->team_return_mean);
    json_close(j);
    msg_json_print(j);
}

/* How a run that failed can go on where its newest checkpoint does not serve any more. */
static void say_other_way(struct watcher *w, const struct training_result *r,
                          const char *path)
{
    const int64_t expected = r->as_it_was ? w->from : r->checkpoint_step;

    if (r->end != TRAINING_FAILED || expected < 0 || r->resume_step == expected)
        return;
    if (r->resume_step >= 0)
        live_view_message(w->view,
                          "%s: `brood resume %s --from %lld` goes on from the newest "
                          "checkpoint whose rows its experience log still holds",
                          w->state.status.run, path, (long long)r->resume_step);
    else
        live_view_message(w->view,
                          "%s: its experience log holds the rows of no checkpoint; "
                          "`brood run %s/config.yaml --init-from %s` begins a new run "
                          "with its weights",
                          w->state.status.run, path, path);
}

static void say_end(struct watcher *w, const struct training_result *r, const char *path)
{
    char steps[32], time_text[32], team[48] = "";

    if (w->quiet)
        return;
    if (r->as_it_was) {
        live_view_message(w->view, "%s: does not go on, and is as it was%s; %s",
                          w->state.status.run,
                          w->differs ? " (resume it without what is another one now, or "
                                       "begin a new run)"
                                     : "",
                          path);
        return;
    }
    if (!isnan(r->team_return_mean))
        (void)snprintf(team, sizeof(team), ", return %.2f", r->team_return_mean);
    live_view_message(
        w->view, "%s: %s after %s steps in %s%s, %llu restart%s; %s", w->state.status.run,
        training_end_name(r->end), format_count(r->env_steps, steps, sizeof(steps)),
        format_duration(r->wall_seconds, time_text, sizeof(time_text)), team,
        (unsigned long long)r->restarts, r->restarts == 1 ? "" : "s", path);
    if (r->end != TRAINING_DONE && r->checkpoint_step >= 0 &&
        (r->end != TRAINING_FAILED || r->resume_step == r->checkpoint_step))
        live_view_message(
            w->view, "%s: `brood resume %s` goes on from the checkpoint of step %lld",
            w->state.status.run, path, (long long)r->checkpoint_step);
    else if (r->end == TRAINING_STOPPED || r->end == TRAINING_CUT_OFF)
        live_view_message(w->view,
                          "%s: there is no checkpoint yet; `brood run` with --name %s "
                          "--force begins anew",
                          w->state.status.run, w->state.status.run);
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
    w->state.status.run = args->run;
    w->state.status.total_steps = args->total_steps;
    w->state.status.total_episodes = args->total_episodes;
    w->began = seconds_now();
    if (args->json)
        print_start(w, args->from);
    if (args->from != NULL && !w->quiet)
        live_view_message(w->view, "%s: goes on from step %llu", args->run,
                          (unsigned long long)*args->from);
    if (!w->quiet)
        live_view_message(w->view, "%s: %zu agent%s, seed %llu, in %s", args->run,
                          args->n_agents, args->n_agents == 1 ? "" : "s",
                          (unsigned long long)args->seed, args->path);
    return w;
}

void watcher_say_done(const struct watcher_args *args,
                      const struct training_result *result)
{
    struct watcher w = {.state.status = {.run = args->run,
                                         .total_steps = args->total_steps,
                                         .total_episodes = args->total_episodes}};

    if (args->json) {
        print_start(&w, args->from);
        print_end(&w, result);
    }
    json_done(&w.json);
}

void watcher_free(struct watcher *w)
{
    live_view_free(w->view);
    json_done(&w->json);
    live_state_done(&w->state);
    free(w);
}

void watcher_mute(struct watcher *w)
{
    w->is_mute = 1;
}

struct training_observer watcher_observer(struct watcher *w)
{
    return (struct training_observer){.on_open = on_open,
                                      .on_start = on_start,
                                      .on_tick = on_tick,
                                      .on_row = on_row,
                                      .on_message = on_message,
                                      .on_agent = on_agent,
                                      .ctx = w};
}

void watcher_end(struct watcher *w, const struct training_result *result,
                 const struct err *failure, const char *path)
{
    w->state.status.env_steps = result->env_steps;
    w->state.status.episodes = result->episodes;
    if (live_view_is_terminal(w->view) && w->state.status.n_agents > 0)
        live_view_show(w->view, &w->state.status);
    say_end(w, result, path);
    say_other_way(w, result, path);
    if (failure != NULL)
        live_view_message(w->view, "brood %s: %s", w->command, failure->msg);
    if (w->json_lines)
        print_end(w, result);
}
