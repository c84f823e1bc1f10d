#include "supervisor/run/hooks.h"

#include "common/config/run_schema.h"
#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/io/monotonic.h"
#include "common/io/python_folder.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/program.h"
#include "supervisor/proc/signals.h"
#include "supervisor/proc/worker_local.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_PATH "logs/hooks.log"

enum { POLL_MS = 10, EVENT_NAME_BYTES = 64 };
enum { END_TRIES = 1000 }; /* one per millisecond */

/* An event that waits for its program. */
struct waiting {
    enum run_event_kind kind;
    char *line; /* with its newline */
    TAILQ_ENTRY(waiting) entry;
};

struct running {
    struct program program; /* pid 0: this place is free */
    enum run_event_kind kind;
};

struct hooks {
    const struct training_args *args;
    const struct keeper_link *keeper;
    /* By event. key: its name in the configuration. command NULL: no program. */
    struct {
        const char *key;
        const struct yaml_node *command;
    } on[RUN_EVENT_COUNT];
    int has_any;
    int agent_fd, log_fd;
    char *run, *dir, *python; /* variables of the programs */
    struct running running[HOOKS_MAX_RUNNING];
    TAILQ_HEAD(, waiting) waiting;
    size_t n_waiting;
    /* a program has ended, but processes that it started may still run */
    int has_orphans;
    int has_dropped, is_log_full;
};

/* ---- the log ---- */

__attribute__((format(printf, 2, 3))) static void note(const struct hooks *h,
                                                       const char *fmt, ...)
{
    char time[LOG_TIME_BYTES], line[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (h->log_fd >= 0)
        (void)dprintf(h->log_fd, "%s hooks[%d]: %s\n", log_time(time), (int)getpid(),
                      line);
}

/* "give_up: ./notify.sh" */
static const char *name_of(const struct hooks *h, enum run_event_kind kind, char *ret,
                           size_t size)
{
    (void)snprintf(ret, size, "%s: %s", h->on[kind].key,
                   h->on[kind].command->child[0]->text);
    return ret;
}

static void note_end(const struct hooks *h, const struct running *r, int status)
{
    char name[256], text[SIGNAL_NAME_BYTES];

    (void)name_of(h, r->kind, name, sizeof(name));
    if (r->program.is_late)
        note(h,
             "%s was killed: it took longer than on.deadline, or than the end of the run",
             name);
    else if (WIFSIGNALED(status))
        note(h, "%s ended by %s", name, signal_name(WTERMSIG(status), text));
    else if (WEXITSTATUS(status) != 0)
        note(h, "%s exited with code %d", name, WEXITSTATUS(status));
}

/* Where a program's output goes: to the log, or nowhere (-1). */
static int find_output(struct hooks *h)
{
    struct stat st;

    if (h->log_fd >= 0 && fstat(h->log_fd, &st) == 0 && st.st_size < HOOKS_LOG_MAX_BYTES)
        return h->log_fd;
    if (!h->is_log_full)
        note(h, "this log is full: no more output of programs is kept");
    h->is_log_full = 1;
    return -1;
}

/* ---- programs ---- */

static int64_t deadline_ms(const struct hooks *h)
{
    const int64_t ms = (int64_t)(h->args->config->hooks.deadline_s * 1000.0);

    return ms > 0 ? ms : 1;
}

static int start_program(struct hooks *h, struct running *r, const struct waiting *w,
                         struct err *err)
{
    const struct yaml_node *command = h->on[w->kind].command;
    const char *words[PROGRAM_MAX_WORDS];
    char event[EVENT_NAME_BYTES];
    struct program_spec spec = {.agent_exe_fd = h->agent_fd,
                                .words = words,
                                .directory = h->args->config->hooks.directory,
                                .input = w->line,
                                .output_fd = find_output(h),
                                .timeout_ms = deadline_ms(h),
                                .variables = {h->run, h->dir, event, h->python},
                                .n_variables = 4};

    (void)snprintf(event, sizeof(event), "BROOD_EVENT=%s", h->on[w->kind].key);
    CHECK(command->n <= PROGRAM_MAX_WORDS);
    for (; spec.n_words < command->n; spec.n_words++)
        words[spec.n_words] = command->child[spec.n_words]->text;
    r->kind = w->kind;
    return program_start(&r->program, &spec, err);
}

static void remove_first(struct hooks *h)
{
    struct waiting *w = TAILQ_FIRST(&h->waiting);

    TAILQ_REMOVE(&h->waiting, w, entry);
    h->n_waiting--;
    free(w->line);
    free(w);
}

/* Reaps programs that have exited, kills those past their deadline, and starts those of
 * waiting events. Returns the number of programs that run. */
static size_t run_due(struct hooks *h)
{
    size_t n = 0;

    for (size_t i = 0; i < HOOKS_MAX_RUNNING; i++) {
        struct running *r = &h->running[i];
        int status;

        if (r->program.pid != 0 && program_ended(&r->program, &status)) {
            note_end(h, r, status);
            h->has_orphans = 1;
        }
        while (r->program.pid == 0 && !TAILQ_EMPTY(&h->waiting)) {
            const struct waiting *w = TAILQ_FIRST(&h->waiting);
            struct err err = {0};
            char name[256];

            if (start_program(h, r, w, &err) < 0)
                note(h, "%s: %s", name_of(h, w->kind, name, sizeof(name)), err.msg);
            remove_first(h);
        }
        n += r->program.pid != 0;
    }
    if (h->has_orphans)
        h->has_orphans = local_site_sweep() > 0;
    return n;
}

/* ---- the observer ---- */

static void on_tick(void *ctx, struct training *t)
{
    (void)run_due(ctx);
}

static void on_event(void *ctx, const struct run_event *e)
{
    struct hooks *h = ctx;
    struct json j = {0};
    struct waiting *w;

    if (h->on[e->kind].command == NULL)
        return;
    if (h->n_waiting == HOOKS_MAX_WAITING) {
        if (!h->has_dropped)
            note(h, "%s, and maybe further events, dropped: %d events wait already",
                 h->on[e->kind].key, HOOKS_MAX_WAITING);
        h->has_dropped = 1;
        return;
    }
    w = xcalloc(1, sizeof(*w));
    w->kind = e->kind;
    json_begin(&j);
    run_event_json(&j, e);
    w->line = xstrdup(json_line(&j, NULL));
    json_done(&j);
    TAILQ_INSERT_TAIL(&h->waiting, w, entry);
    h->n_waiting++;
    (void)run_due(h);
}

struct training_observer hooks_observer(struct hooks *h)
{
    return h->has_any ? (struct training_observer){.on_event = on_event,
                                                   .on_tick = on_tick,
                                                   .ctx = h}
                      : (struct training_observer){0};
}

/* ---- beginning and end ---- */

static void take_commands(struct hooks *h)
{
    const struct run_config *c = h->args->config;

    for (size_t i = 0; c->has_hooks && i < hooks_schema.n; i++) {
        const struct field *f = &hooks_schema.fields[i];
        char name[EVENT_NAME_BYTES];
        enum run_event_kind kind;

        if (f->type != FIELD_WORDS)
            continue;
        (void)snprintf(name, sizeof(name), "%s", f->key);
        for (char *p = name; (p = strchr(p, '_')) != NULL;)
            *p = '-'; /* "give_up" is "give-up" in the journal */
        kind = run_event_kind_of(name);
        CHECK(kind < RUN_EVENT_COUNT, "%s", f->key);
        h->on[kind].key = f->key;
        h->on[kind].command = hooks_config_command(&c->hooks, f);
        h->has_any |= h->on[kind].command != NULL;
    }
}

struct hooks *hooks_new(const struct training_args *args,
                        const struct keeper_link *keeper)
{
    struct hooks *h = xcalloc(1, sizeof(*h));
    struct err err = {0};
    char *path;

    h->args = args;
    h->keeper = keeper;
    h->agent_fd = h->log_fd = -1;
    TAILQ_INIT(&h->waiting);
    take_commands(h);
    if (!h->has_any)
        return h;
    h->run = xasprintf("BROOD_RUN=%s", run_dir_name(args->dir));
    path = realpath(run_dir_path(args->dir), NULL);
    h->dir = xasprintf("BROOD_RUN_DIR=%s", path != NULL ? path : run_dir_path(args->dir));
    free(path);
    path = python_folder();
    h->python = xasprintf("PYTHONPATH=%s", path);
    free(path);
    h->log_fd = beneath_open(run_dir_file(args->dir, LOG_PATH),
                             O_WRONLY | O_CREAT | O_APPEND, 0666);
    h->agent_fd = binaries_open_agent(args->binaries, &err);
    if (h->agent_fd < 0)
        note(h, "%s", err.msg);
    return h;
}

/* Waits POLL_MS, or until an interrupt or the keeper's exit: then it returns 1. */
static int wait_for_interrupt(const struct hooks *h)
{
    const int fd = h->keeper != NULL ? h->keeper->fd : -1;
    struct pollfd p = {.fd = fd, .events = POLLIN}; /* poll ignores -1 */

    return poll(&p, 1, POLL_MS) > 0 || stop_signal_is_pending();
}

void hooks_free(struct hooks *h)
{
    const int64_t until_ms = monotonic_ms() + deadline_ms(h);

    while (h->has_any && run_due(h) > 0 && monotonic_ms() < until_ms &&
           !wait_for_interrupt(h))
        ;
    if (h->n_waiting > 0)
        note(h, "the run is over: %zu events that wait are dropped", h->n_waiting);
    while (!TAILQ_EMPTY(&h->waiting))
        remove_first(h);
    for (size_t i = 0; i < HOOKS_MAX_RUNNING; i++)
        h->running[i].program.until_ms = 0; /* the next run_due kills it */
    for (int i = 0; h->has_any && i < END_TRIES && (run_due(h) > 0 || h->has_orphans);
         i++)
        (void)poll(NULL, 0, 1);
    if (h->agent_fd >= 0)
        (void)close(h->agent_fd);
    if (h->log_fd >= 0)
        (void)close(h->log_fd);
    free(h->run);
    free(h->dir);
    free(h->python);
    if (!h->has_any || run_due(h) == 0)
        free(h); /* otherwise a killed program has not exited and is still listed */
}
