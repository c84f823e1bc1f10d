/* `brood attach`: the live view of a run, or a study, that was started elsewhere. */
#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/live_run.h"
#include "supervisor/cli/live_view.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/cli/study_status.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/proc/signals.h"
#include "supervisor/proc/terminal_keys.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_watch.h"
#include "supervisor/study/study_dir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ASK_EVERY_MS = 100,
    SILENT_MS = 2000,
    MESSAGES_MAX = 1000, /* taken before Ctrl-C and the keys have their turn */
    ANSWERS_WITHIN_MS = 2000
};

struct attach {
    const struct cli *cli;
    const char *path;
    struct live_view *view;
    char run[64];
    struct control_client *client;
    int64_t asked_ms;   /* since when the status is awaited; 0: it is not */
    int has_said;       /* that the run does not answer */
    struct arena arena; /* holds the newest status */
    struct terminal_keys keys;
};

enum outcome { ENDED, LEFT }; /* the run closed its socket; the user pressed Ctrl-C */

/* ---- messages of the run ---- */

static void print_status(const struct attach *t, const char *event,
                         const struct run_status *s)
{
    struct json j = {0};

    if (!t->cli->json)
        return;
    msg_json_begin_event(&j, event);
    run_status_json(&j, s);
    json_print(&j, stdout);
}

static void take_row(struct attach *t, const msgpack_object *row)
{
    for (uint32_t i = 0; row->type == MSGPACK_OBJECT_MAP && i < row->via.map.size; i++) {
        const msgpack_object_kv *pair = &row->via.map.ptr[i];
        char *name;

        if (pair->key.type != MSGPACK_OBJECT_STR ||
            (pair->val.type != MSGPACK_OBJECT_FLOAT64 &&
             pair->val.type != MSGPACK_OBJECT_FLOAT32))
            continue;
        name = xstrndup(pair->key.via.str.ptr, pair->key.via.str.size);
        live_view_metric(t->view, name, pair->val.via.f64);
        free(name);
    }
    if (t->cli->json) {
        struct json j = {0};

        msg_json_begin_event(&j, "row");
        msg_json_put_pairs(&j, row);
        json_print(&j, stdout);
    }
}

static void take_notification(struct attach *t, const struct msg *m)
{
    const int is_journal = strcmp(m->method, "journal") == 0;
    const msgpack_object *o = msg_get(&m->body, is_journal ? "line" : "text");
    int is_error = 0;
    char *text = o != NULL && o->type == MSGPACK_OBJECT_STR
                     ? xstrndup(o->via.str.ptr, o->via.str.size)
                     : xstrdup("");

    if (strcmp(m->method, "row") == 0)
        take_row(t, &m->body);
    else if (is_journal && t->cli->json)
        journal_json_print(text);
    else if (strcmp(m->method, "message") == 0 &&
             msg_get_bool(&m->body, "error", &is_error, NULL) == 0 &&
             (is_error || !t->cli->quiet))
        live_view_message(t->view, "%s", text);
    free(text);
}

/* Handles the messages received so far. Returns 1 if there may be more; ERR_NOT_FOUND: the run
 * closed the connection. */
static int take_messages(struct attach *t, struct err *err)
{
    struct run_status s;
    const struct msg *m;
    int rc;

    for (int i = 0; i < MESSAGES_MAX; i++) {
        if ((rc = control_client_next(t->client, 0, &m, err)) <= 0)
            return rc;
        if (m->type == MSG_NOTIFICATION) {
            take_notification(t, m);
        } else if (m->error.code == 0) {
            t->asked_ms = 0;
            if (live_view_is_due(t->view)) {
                arena_reset(&t->arena);
                run_status_unpack(&s, &m->body, &t->arena);
                live_view_show(t->view, &s);
            }
        }
    }
    return 1;
}

/* Requests the status, unless an earlier request has not been answered yet. */
static int ask(struct attach *t, struct err *err)
{
    const int is_late = t->asked_ms != 0 && monotonic_ms() - t->asked_ms >= SILENT_MS;

    if (is_late && !t->has_said)
        live_view_message(t->view,
                          "%s does not answer: its supervisor was stopped, or "
                          "hangs",
                          t->run);
    t->has_said = is_late;
    if (t->asked_ms != 0)
        return 0;
    t->asked_ms = monotonic_ms();
    msg_map(control_client_begin(t->client, "status"), 0);
    return control_client_send(t->client, err);
}

/* ---- connections: to one supervisor, then perhaps to its successor ---- */

static enum outcome watch(struct attach *t, int signals)
{
    struct pollfd fds[] = {{.fd = control_client_fd(t->client), .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    struct err err = {0};
    char typed[256];
    size_t n;
    int rc = 0;

    t->asked_ms = 0;
    while (rc >= 0 && ask(t, &err) >= 0) {
        if (poll(fds, 2, rc > 0 ? 0 : ASK_EVERY_MS) > 0 && fds[1].revents != 0)
            return LEFT;
        if (live_view_hides(t->view))
            terminal_keys_begin(&t->keys);
        n = terminal_keys_read(&t->keys, typed, sizeof(typed));
        live_view_keys(t->view, typed, n);
        rc = take_messages(t, &err);
    }
    return ENDED;
}

static int subscribe(struct attach *t, struct err *err)
{
    const struct msg *answer;

    msg_map(control_client_begin(t->client, "subscribe"), 0);
    return control_client_call(t->client, &answer, err);
}

/* Waits until another supervisor resumes the run (*ret_is_over 0) or the run is over
 * (1). */
static enum outcome wait_for_more(struct attach *t, struct run_watch *w, int signals,
                                  int *ret_is_over, int *ret_code)
{
    struct pollfd fds[RUN_WATCH_FDS + 1];
    struct err err = {0};

    while (!(*ret_is_over = run_watch_is_over(w, ret_code))) {
        if (run_dir_holder(t->path) != 0 &&
            control_client_open(&t->client, t->path, ANSWERS_WITHIN_MS, &err) == 0) {
            if (subscribe(t, &err) == 0) {
                live_view_message(t->view, "another supervisor continues %s", t->run);
                return ENDED;
            }
            control_client_close(t->client);
            t->client = NULL;
        }
        run_watch_poll(w, fds);
        fds[RUN_WATCH_FDS] = (struct pollfd){.fd = signals, .events = POLLIN};
        (void)poll(fds, RUN_WATCH_FDS + 1, RUN_WATCH_EVERY_MS);
        if (fds[RUN_WATCH_FDS].revents != 0)
            return LEFT;
    }
    return ENDED;
}

static enum outcome watch_all(struct attach *t, int signals, int *ret_code)
{
    struct run_watch w;
    enum outcome o = ENDED;
    int is_over = 0;

    run_watch_begin(&w, t->path);
    (void)run_watch_is_over(&w, ret_code); /* record the processes while the run lives */
    while (!is_over && o == ENDED) {
        o = watch(t, signals);
        control_client_close(t->client);
        t->client = NULL;
        if (o == ENDED)
            o = wait_for_more(t, &w, signals, &is_over, ret_code);
    }
    run_watch_end(&w);
    return o;
}

/* ---- start and end ---- */

/* Shows the newest values of progress.csv until the run sends its next row. */
static void take_progress(struct attach *t)
{
    char *file = xasprintf("%s/metrics/progress.csv", t->path);
    struct progress *p;

    if (progress_read(&p, file, NULL) == 0) {
        const size_t n = progress_n_rows(p);

        for (size_t row = n > 100 ? n - 100 : 0; row < n; row++)
            for (size_t c = 0; c < progress_n_columns(p); c++)
                live_view_metric(t->view, progress_name(p, c), progress_value(p, row, c));
        progress_free(p);
    }
    free(file);
}

static int begin(struct attach *t, struct err *err)
{
    const struct msg *answer;
    struct run_status s;
    int rc;

    msg_map(control_client_begin(t->client, "status"), 0);
    rc = control_client_call(t->client, &answer, err);
    if (rc < 0)
        return rc;
    run_status_unpack(&s, &answer->body, &t->arena);
    (void)snprintf(t->run, sizeof(t->run), "%s", s.run);
    if (!t->cli->quiet)
        live_view_message(t->view, "%s: %s, pid %d; Ctrl-C leaves it alone", t->run,
                          t->path, (int)s.pid);
    print_status(t, "attached", &s);
    take_progress(t);
    rc = subscribe(t, err);
    if (rc == 0)
        live_view_show(t->view, &s);
    return rc;
}

static void show_end(struct attach *t)
{
    struct run_facts f;
    const struct run_status *s = &f.status;
    char steps[32], seconds[32], returns[RUN_RETURN_TEXT_BYTES];

    run_facts_get(&f, t->path, 0);
    live_view_show_end(t->view, s->env_steps, s->episodes);
    (void)run_status_returns(s, returns);
    if (!t->cli->quiet)
        live_view_message(t->view, "%s: %s after %s steps in %s%s%s; %s", t->run,
                          s->state, format_count(s->env_steps, steps, sizeof(steps)),
                          format_duration(fmax(0, s->total_s), seconds, sizeof(seconds)),
                          *returns != '\0' ? ", return " : "", returns, t->path);
    if (s->failure != NULL)
        live_view_message(t->view, "%s: %s", t->run, s->failure);
    print_status(t, "over", s);
    run_facts_done(&f);
}

static int attach(struct attach *t)
{
    const int signals = signals_watch(&(int){SIGINT}, 1);
    struct err err = {0};
    int code = CLI_DONE;

    if (begin(t, &err) < 0) {
        code = cli_fail_run(t->cli, &err);
    } else if (watch_all(t, signals, &code) == ENDED) {
        show_end(t);
    } else {
        code = CLI_DONE;
        if (!t->cli->quiet)
            live_view_message(t->view, "%s continues", t->run);
    }
    terminal_keys_end(&t->keys);
    (void)close(signals);
    return code;
}

static int run_attach(struct cli *cli, void *values, int argc, char **argv)
{
    struct attach t = {.cli = cli};
    struct err err = {0};
    const char *name = argv[0];
    char *path = NULL;
    int code;

    if (name != NULL && (path = study_dir_find(cli->runs_dir, name)) != NULL) {
        code = study_status_attach(cli, path);
        free(path);
        return code;
    }
    if (cli_open_run(cli, name, ANSWERS_WITHIN_MS, &path, &t.client, &err) < 0) {
        code = cli_fail_run(cli, &err);
    } else {
        t.path = path;
        t.view = live_view_new(STDERR_FILENO, cli->quiet);
        code = attach(&t);
        live_view_free(t.view);
    }
    control_client_close(t.client);
    arena_done(&t.arena);
    free(path);
    return code;
}

const struct command cmd_attach = {
    .name = "attach",
    .arguments = "[RUN | STUDY]",
    .one = "run or study",
    .summary = "Show the live view of a run or study that was started elsewhere",
    .help =
        "\nCtrl-C ends the view with exit code 0; the run continues. The arrow keys "
        "scroll\nif there are more agents than rows. When the run ends,\nattach ends "
        "with the run's exit code. --json prints one object per "
        "line: the\nstatus, rows of metrics, events of the journal, and the "
        "last status.\n"
        "Of a study, it shows the view of its `brood sweep`, and ends with the sweep: "
        "exit\ncode 0 if the study is done, otherwise 4.\n"
        "\nexample: brood attach simple_spread-1\n",
    .takes = CLI_LIVE,
    .run = run_attach,
};
