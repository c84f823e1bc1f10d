#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/facts/files.h"
#include "supervisor/facts/record.h"
#include "supervisor/study/study_dir.h"
#include "supervisor/study/study_report.h"
#include "supervisor/web/web.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CHANGES = 64, MAX_ASKERS = 256 };

struct call {
    struct web *web;
    struct web_client *client;
    const struct request *request;
    const char *method; /* its name in the table */
    const char *run;    /* the method's; NULL if it needs none */
    struct run_place place;
};

/* ---- looking ---- */

static int do_list(const struct call *c, struct err *err)
{
    const char *on = request_get(c->request, "on");

    c->client->wants_list = on == NULL || strcmp(on, "false") != 0;
    c->client->list_revision = 0;
    if (c->client->wants_list)
        c->client->list_walk = runs_walk(c->web->runs);
    web_answer_empty(c->web, c->client, c->request->id);
    return 0;
}

static int find_watch(const struct web_client *c, const char *name)
{
    for (size_t i = 0; i < c->n_watches; i++)
        if (strcmp(live_name(c->watch[i].run), name) == 0)
            return (int)i;
    return -1;
}

/* Returns the client's watch of the run, and begins it if there is none. */
static struct live_run *watched(const struct call *c, struct err *err)
{
    struct web_client *client = c->client;
    const int at = find_watch(client, c->run);
    struct live_run *run;

    if (at >= 0)
        return client->watch[at].run;
    if (client->n_watches == WEB_MAX_WATCHES) {
        (void)err_set(err, ERR_LIMIT, "more than %d runs are watched", WEB_MAX_WATCHES);
        return NULL;
    }
    run = live_watch(c->web->live, c->run, c->place.path);
    client->watch[client->n_watches].run = run;
    client->watch[client->n_watches++].revision = 0;
    return run;
}

static int do_watch(const struct call *c, struct err *err)
{
    if (watched(c, err) == NULL)
        return err->code;
    c->client->watch[find_watch(c->client, c->run)].revision = 0; /* sends a view */
    web_answer_empty(c->web, c->client, c->request->id);
    return 0;
}

static int do_unwatch(const struct call *c, struct err *err)
{
    struct web_client *client = c->client;
    const char *name = request_get(c->request, "run"); /* which may have been removed */
    const int at = name != NULL ? find_watch(client, name) : -1;

    if (at >= 0) {
        live_unwatch(client->watch[at].run);
        client->watch[at] = client->watch[--client->n_watches];
    }
    web_answer_empty(c->web, client, c->request->id);
    return 0;
}

static int do_evaluate(const struct call *c, struct err *err)
{
    return evals_start(c->web->evals, c->client, c->request, &c->place, err);
}

/* ---- studies: all of their runs are read ---- */

/* One for each study. A request that comes while the study is being read waits for the
 * next reading, which begins when this one has ended: the runs may have changed since it
 * began. */
struct study_job {
    struct reading reading;
    struct web *web;
    struct askers {
        size_t n;
        struct {
            uint64_t client;
            uint32_t id;
        } one[MAX_ASKERS];
    } now, next;
    LIST_ENTRY(study_job) entry;
    char *path, *name;
    struct xstream text;
    struct err err;
};

static void read_study(struct reading *r)
{
    struct study_job *job = READING_OF(struct study_job, r);
    struct study_report report;
    struct study study;

    if (study_dir_read(&study, job->path, &job->err) < 0)
        return;
    if (study_report_make(&report, &study, job->path, &job->err) == 0) {
        free(report.name); /* the study may be in a folder of runs */
        report.name = xstrdup(job->name);
        study_report_print_json(&report, xstream_begin(&job->text));
        (void)xstream_end(&job->text);
        study_report_done(&report);
    }
    study_done(&study);
}

static void on_study(struct reading *r, const struct err *why)
{
    struct study_job *job = READING_OF(struct study_job, r);
    struct web *w = job->web;

    if (why == NULL && job->err.code != 0)
        why = &job->err;
    for (size_t i = 0; i < job->now.n; i++) {
        struct web_client *c = web_find_client(w, job->now.one[i].client);
        const uint32_t id = job->now.one[i].id;

        if (c != NULL && why != NULL) {
            web_answer_fail(w, c, id, why);
        } else if (c != NULL) {
            json_raw(web_answer_begin(w, id), job->text.text, job->text.len);
            web_answer_end(w, c);
        }
    }
    job->now.n = 0;
}

/* Begins again for those who have asked meanwhile. */
static void after_study(struct reading *r)
{
    struct study_job *job = READING_OF(struct study_job, r);
    struct web *w = job->web;

    free(job->text.text);
    job->text = (struct xstream){0};
    job->err = (struct err){0};
    job->now = job->next;
    job->next.n = 0;
    if (job->now.n > 0 && !w->http.is_closing) {
        reading_add(w->readings, &job->reading);
        return;
    }
    LIST_REMOVE(job, entry);
    free(job->path);
    free(job->name);
    free(job);
}

static int add_asker(struct askers *a, const struct call *c, struct err *err)
{
    if (a->n == MAX_ASKERS)
        return err_set(err, ERR_LIMIT, "%d requests wait for the study already",
                       MAX_ASKERS);
    a->one[a->n].client = c->client->serial;
    a->one[a->n++].id = c->request->id;
    return 0;
}

static int do_study(const struct call *c, struct err *err)
{
    const char *name = request_get(c->request, "study");
    const char *path = runs_study_path(c->web->runs, name);
    struct study_job *job;

    if (path == NULL)
        return err_set(err, ERR_NOT_FOUND, "there is no study '%.100s'",
                       name != NULL ? name : "");
    LIST_FOREACH(job, &c->web->studies, entry)
    if (strcmp(job->name, name) == 0) {
        if (reading_is_late(&job->reading)) {
            *err = reading_late_err(&job->reading);
            return err->code;
        }
        return add_asker(&job->next, c, err);
    }
    job = xcalloc(1, sizeof(*job));
    job->web = c->web;
    (void)add_asker(&job->now, c, err);
    LIST_INSERT_HEAD(&c->web->studies, job, entry);
    job->path = xstrdup(path);
    job->name = xstrdup(name);
    job->reading =
        (struct reading){READING_STUDY, job->path, read_study, on_study, after_study};
    reading_add(c->web->readings, &job->reading);
    return 0;
}

static int do_action(const struct call *c, struct err *err)
{
    return actions_start(c->web->actions, c->client, c->request, c->method, &c->place,
                         err);
}

/* ---- steering ---- */

/* Begins a request to the call's run, which live_send sends. NULL, with err set: it cannot be
 * sent. */
static struct msg_out *begin_steering(const struct call *c, const char *method,
                                      struct live_run **ret, struct err *err)
{
    *ret = watched(c, err);
    return *ret != NULL ? live_begin(*ret, c->client->serial, c->request->id, method, err)
                        : NULL;
}

/* agent: NULL: the request names none. */
static int steer(const struct call *c, const char *agent, struct err *err)
{
    struct live_run *r;
    struct msg_out *o = begin_steering(c, c->request->method, &r, err);

    if (o == NULL)
        return err->code;
    msg_map(o, agent != NULL ? 1 : 0);
    if (agent != NULL)
        msg_put_str(o, "agent", agent);
    return live_send(r, err);
}

static int do_steer(const struct call *c, struct err *err)
{
    return steer(c, NULL, err);
}

static int do_steer_agent(const struct call *c, struct err *err)
{
    const char *agent = request_get(c->request, "agent");

    return agent != NULL ? steer(c, agent, err)
                         : err_set(err, ERR_ARG, "no agent is named");
}

/* Whether a key names a command that would be executed. A page must not set those, even
 * if the run would accept them. */
static int is_command(const char *change)
{
    static const char *const words[] = {"command",  "plugin", "cluster",
                                        "launcher", "on",     "hooks"};
    const size_t len = strcspn(change, "=");

    for (size_t at = 0; at < len;) {
        const size_t n = strcspn(change + at, ".=");

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
            if (text_is_word(change + at, n, words[i]))
                return 1;
        at += n + 1;
    }
    return 0;
}

static int do_set(const struct call *c, struct err *err)
{
    const int cancels = strcmp(c->request->method, "cancel") == 0;
    const char *words[MAX_CHANGES];
    const size_t n =
        request_all(c->request, cancels ? "key" : "change", words, MAX_CHANGES);
    const char *at_text = request_get(c->request, "at");
    uint64_t at = 0;
    struct live_run *r;
    struct msg_out *o;

    if (n > MAX_CHANGES)
        return err_set(err, ERR_LIMIT, "more than %d changes at once", MAX_CHANGES);
    if (n == 0 && !cancels)
        return err_set(err, ERR_ARG, "expected KEY=VALUE");
    for (size_t i = 0; i < n; i++)
        if (is_command(words[i]))
            return err_set(err, ERR_CONFIG,
                           "%.160s: what a run executes cannot be set from the page",
                           words[i]);
    if (at_text != NULL && !request_u64(c->request, "at", &at))
        return err_set(err, ERR_ARG,
                       "--at-step %.100s: expected a whole number from 0 to %lld",
                       at_text, (long long)INT64_MAX);
    o = begin_steering(c, "set", &r, err);
    if (o == NULL)
        return err->code;
    msg_map(o, at_text != NULL && !cancels ? 2 : 1);
    msg_key(o, cancels ? "cancel" : "changes");
    msg_array(o, n);
    for (size_t i = 0; i < n; i++)
        msg_str(o, words[i]);
    if (at_text != NULL && !cancels)
        msg_put_u64(o, "at", at);
    return live_send(r, err);
}

void methods_response(void *ctx, uint64_t client, uint32_t id, const msgpack_object *body,
                      const struct err *why)
{
    struct web *w = ctx;
    struct web_client *c = web_find_client(w, client);

    if (c == NULL)
        return;
    if (body != NULL) {
        msg_json_put(web_answer_begin(w, id), body);
        web_answer_end(w, c);
    } else {
        web_answer_fail(w, c, id, why);
    }
}

/* ---- the table ---- */

enum {
    ON_RUN = 1,  /* it has a run */
    CHANGES = 2, /* not from a page that is read-only */
    STEERS = 4,  /* the run must live: it is looked at first, on a thread */
};

static const struct method {
    const char *name;
    int flags;
    /* On the loop: sends the answer, now or later; if it fails, the caller sends the error. */
    int (*fn)(const struct call *c, struct err *err);
    /* Or, on a thread: puts the answer's value, of the run in that directory. */
    int (*put)(const char *path, struct json *j, struct err *err);
} methods[] = {
    {"list", 0, do_list, NULL},
    {"study", 0, do_study, NULL},
    {"watch", ON_RUN, do_watch, NULL},
    {"unwatch", 0, do_unwatch, NULL},
    {"config", ON_RUN, NULL, files_put_config},
    {"checkpoints", ON_RUN, NULL, files_put_checkpoints},
    {"record", ON_RUN, NULL, record_put},
    {"logs", ON_RUN, NULL, files_put_logs},
    {"pictures", ON_RUN, NULL, files_put_pictures},
    {"evaluate", ON_RUN, do_evaluate, NULL},
    {"rm", ON_RUN | CHANGES, do_action, NULL},
    {"resume", ON_RUN | CHANGES, do_action, NULL},
    {"tag", ON_RUN | CHANGES, do_action, NULL},
    {"pause", ON_RUN | CHANGES | STEERS, do_steer, NULL},
    {"continue", ON_RUN | CHANGES | STEERS, do_steer, NULL},
    {"checkpoint", ON_RUN | CHANGES | STEERS, do_steer, NULL},
    {"stop", ON_RUN | CHANGES | STEERS, do_steer, NULL},
    {"kill", ON_RUN | CHANGES | STEERS, do_steer_agent, NULL},
    {"respawn", ON_RUN | CHANGES | STEERS, do_steer_agent, NULL},
    {"set", ON_RUN | CHANGES | STEERS, do_set, NULL},
    {"cancel", ON_RUN | CHANGES | STEERS, do_set, NULL},
};

static const struct method *find_method(const char *name)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(methods[i].name, name) == 0)
            return &methods[i];
    return NULL;
}

/* ---- requests for which a thread looks at the run ---- */

struct asked {
    struct reading reading;
    struct web *web;
    uint64_t client;
    const struct method *method;
    struct request request;
    char *texts, *run, *path;
    struct json json; /* the answer's value */
    struct live_reach reach;
    struct err err;
};

static void read_asked(struct reading *r)
{
    struct asked *a = READING_OF(struct asked, r);

    if (a->method->flags & STEERS)
        (void)live_reach(&a->reach, a->path, &a->err);
    else
        (void)a->method->put(a->path, &a->json, &a->err);
}

static void on_asked(struct reading *r, const struct err *why)
{
    struct asked *a = READING_OF(struct asked, r);
    struct web_client *c = web_find_client(a->web, a->client);
    struct err err = why != NULL ? *why : a->err;

    if (c == NULL)
        return;
    web_end_wait(c);
    if (err.code == 0 && (a->method->flags & STEERS)) {
        const struct call one = {.web = a->web,
                                 .client = c,
                                 .request = &a->request,
                                 .method = a->method->name,
                                 .run = a->run,
                                 .place = {.path = a->path}};
        struct live_run *run = watched(&one, &err);

        if (run != NULL) {
            live_reached(run, &a->reach);
            (void)a->method->fn(&one, &err);
        }
    } else if (err.code == 0) {
        size_t len;
        const char *text = json_line(&a->json, &len);

        json_raw(web_answer_begin(a->web, a->request.id), text, len - 1);
        web_answer_end(a->web, c);
    }
    if (err.code != 0)
        web_answer_fail(a->web, c, a->request.id, &err);
}

static void free_asked(struct reading *r)
{
    struct asked *a = READING_OF(struct asked, r);

    live_reach_done(&a->reach);
    json_done(&a->json);
    free(a->texts);
    free(a->run);
    free(a->path);
    free(a);
}

static void ask(const struct call *c, const struct method *m)
{
    struct asked *a = xcalloc(1, sizeof(*a));

    a->web = c->web;
    a->client = c->client->serial;
    a->method = m;
    a->run = xstrdup(c->run);
    a->path = xstrdup(c->place.path);
    a->reach.is_needed = !live_is_connected(c->web->live, c->run);
    request_copy(&a->request, &a->texts, c->request);
    a->reading =
        (struct reading){READING_REQUEST, a->path, read_asked, on_asked, free_asked};
    web_begin_wait(c->client);
    reading_add(c->web->readings, &a->reading);
}

static int call(struct call *c, struct err *err)
{
    const struct method *m = find_method(c->request->method);

    if (m == NULL)
        return err_set(err, ERR_NOT_FOUND, "there is no method '%.60s'",
                       c->request->method);
    if ((m->flags & CHANGES) && c->web->read_only)
        return err_set(err, ERR_STATE, "this page is read-only");
    c->method = m->name;
    if (m->flags & ON_RUN) {
        c->run = request_get(c->request, "run");
        if (!runs_find(c->web->runs, c->run, &c->place))
            return err_set(err, ERR_NOT_FOUND, "there is no run '%.100s'",
                           c->run != NULL ? c->run : "");
    }
    if (m->fn != NULL && !(m->flags & STEERS))
        return m->fn(c, err);
    ask(c, m);
    return 0;
}

void methods_call(struct web *w, struct web_client *c, const struct request *r)
{
    struct call one = {.web = w, .client = c, .request = r};
    struct err err = {0};

    if (call(&one, &err) < 0)
        web_answer_fail(w, c, r->id, &err);
}

void methods_leave(struct web *w, struct web_client *c)
{
    while (c->n_watches > 0)
        live_unwatch(c->watch[--c->n_watches].run);
    live_forget(w->live, c->serial);
    evals_forget(w->evals, c->serial);
}
