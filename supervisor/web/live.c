#include "supervisor/web/live.h"

#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "supervisor/cli/run_facts.h"
#include "supervisor/control/client.h"
#include "supervisor/run/run_dir.h"
#include "supervisor/run/run_record.h"
#include "supervisor/run/run_tags.h"
#include "supervisor/web/stamps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
    CONNECTS_WITHIN_MS = 200, /* and sends; only a hanging supervisor needs longer */
    LOOK_EVERY_MS = 1000,
    SOON_MS = 80,
    ANSWERS_WITHIN_MS = 3000,
    MAX_MESSAGES = 256, /* from one run before the others are read */
};

/* A request that waits for its response; client 0: live.c's own. */
struct waiting {
    uint64_t client;
    uint32_t id, number;
    LIST_ENTRY(waiting) entry;
};
LIST_HEAD(waiting_list, waiting);

struct live_run {
    struct live *live;
    char *name, *path;
    size_t watchers;
    int is_held;
    struct control_client *client; /* NULL: not connected */
    uv_poll_t *poll;
    struct waiting_list waiting;
    uint32_t number;   /* of the last request */
    uint64_t asked_ms; /* when its status was asked for; 0: it has come */
    int has_event;     /* an event came after the last status */
    int has_rest;      /* messages have come that are not looked at yet */
    int is_silent;     /* it has not answered for too long */
    char *view;
    size_t view_len;
    uint64_t revision;
    struct waiting *unsent; /* the request that is being packed */
    struct stamps stamps;   /* of the files, when they were read last */
    LIST_ENTRY(live_run) entry;
};

struct live {
    uv_loop_t *loop;
    struct live_callbacks callbacks;
    uv_timer_t tick, soon;
    uint64_t revision;
    LIST_HEAD(, live_run) runs;
};

/* ---- the connection ---- */

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void disconnect(struct live_run *r, const struct err *why)
{
    struct waiting *w;

    if (r->client == NULL)
        return;
    (void)uv_poll_stop(r->poll);
    uv_close((uv_handle_t *)r->poll, on_closed);
    r->poll = NULL;
    control_client_close(r->client);
    r->client = NULL;
    r->asked_ms = 0;
    r->has_event = r->has_rest = r->is_silent = 0;
    r->stamps = (struct stamps){0}; /* the view was from the connection: read the files */
    while ((w = LIST_FIRST(&r->waiting)) != NULL) {
        LIST_REMOVE(w, entry);
        if (w->client != 0)
            r->live->callbacks.on_response(r->live->callbacks.ctx, w->client, w->id, NULL,
                                           why);
        free(w);
    }
}

static struct waiting *take_waiting(struct live_run *r, uint32_t number)
{
    struct waiting *w;

    LIST_FOREACH(w, &r->waiting, entry)
    if (w->number == number)
        break;
    if (w != NULL)
        LIST_REMOVE(w, entry);
    return w;
}

/* ---- the view ---- */

static uint64_t size_of(const struct live_run *r, const char *sub, int is_time)
{
    char *path = xasprintf("%s/%s", r->path, sub);
    struct stat st;
    uint64_t ret = 0;

    if (beneath_stat(path, &st) == 0)
        ret = is_time ? (uint64_t)st.st_mtim.tv_sec * 1000 +
                            (uint64_t)st.st_mtim.tv_nsec / 1000000
                      : (uint64_t)st.st_size;
    free(path);
    return ret;
}

static void set_view(struct live_run *r, const struct run_status *s, int is_live,
                     int is_denied)
{
    struct run_tags tags = {0};
    struct json j = {0};
    size_t len;
    const char *text;

    json_object(&j);
    json_put_str(&j, "push", "run");
    json_put_str(&j, "run", r->name);
    json_put_bool(&j, "live", is_live);
    json_put_bool(&j, "denied", is_denied);
    json_put_u64(&j, "rows", size_of(r, "metrics/progress.csv", 0));
    json_put_u64(&j, "journal", size_of(r, "journal", 0));
    json_put_u64(&j, "config", size_of(r, "config.yaml", 1));
    json_put_u64(&j, "checkpoints", size_of(r, "checkpoints", 1));
    json_put_object(&j, "status");
    run_status_json(&j, s);
    (void)run_tags_read(&tags, r->path, NULL);
    run_tags_json(&tags, &j);
    run_tags_done(&tags);
    json_close(&j);
    json_close(&j);
    text = json_line(&j, &len);
    if (r->view == NULL || r->view_len != len || memcmp(r->view, text, len) != 0) {
        r->view = xrealloc(r->view, len + 1);
        memcpy(r->view, text, len + 1);
        r->view_len = len;
        r->revision = ++r->live->revision;
        r->live->callbacks.on_view(r->live->callbacks.ctx);
    }
    json_done(&j);
}

/* Makes the view of a run that is over, or does not answer, from its files. */
static void read_view(struct live_run *r)
{
    struct run_record record;
    struct stat st;

    /* Look before reading: the next look then finds what changes meanwhile. */
    (void)stamps_look(&r->stamps, r->path);
    run_record_read(&record, r->path);
    if (record.is_live && r->is_silent)
        record.status.state = "not answering";
    if (lstat(r->path, &st) < 0 && errno == ENOENT)
        record.status.state = "deleted";
    set_view(r, &record.status, record.is_live, record.is_denied);
    run_record_done(&record);
}

static void take_status(struct live_run *r, const msgpack_object *body)
{
    struct arena arena = ARENA_ZERO;
    struct run_status s = {0};

    r->asked_ms = 0;
    r->has_event = r->is_silent = 0;
    run_status_unpack(&s, body, &arena);
    set_view(r, &s, 1, 0);
    arena_done(&arena);
}

/* ---- messages ---- */

static void on_soon(uv_timer_t *timer);

static void come_back_soon(struct live *l, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&l->soon))
        (void)uv_timer_start(&l->soon, on_soon, ms, 0);
}

static void take_message(struct live_run *r, const struct msg *m)
{
    struct waiting *w;

    if (m->type == MSG_NOTIFICATION) {
        const msgpack_object *event = msg_get(&m->body, "event");

        if (event != NULL && msg_str_is(event, "row"))
            return; /* rows come often, and change no agent */
        r->has_event = 1;
        come_back_soon(r->live, SOON_MS);
        return;
    }
    w = take_waiting(r, m->id);
    if (w == NULL)
        return;
    if (w->client != 0)
        r->live->callbacks.on_response(r->live->callbacks.ctx, w->client, w->id,
                                       m->error.code == 0 ? &m->body : NULL, &m->error);
    else if (m->error.code == 0 && m->body.type == MSGPACK_OBJECT_MAP &&
             m->body.via.map.size > 0)
        take_status(r, &m->body);
    free(w);
}

static void read_messages(struct live_run *r)
{
    const struct msg *m;
    struct err why = {0};
    int rc = 1;

    for (int i = 0; i < MAX_MESSAGES && rc > 0; i++) {
        rc = control_client_next(r->client, 0, &m, &why);
        if (rc > 0)
            take_message(r, m);
    }
    r->has_rest = rc > 0;
    if (r->has_rest) /* of messages that are read already, the poll tells nothing */
        come_back_soon(r->live, 1);
    if (rc < 0) {
        disconnect(r, &why);
        read_view(r);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    read_messages(poll->data);
}

static struct msg_out *begin(struct live_run *r, uint64_t client, uint32_t id,
                             const char *method)
{
    struct waiting *w = xcalloc(1, sizeof(*w));

    *w = (struct waiting){.client = client, .id = id, .number = ++r->number};
    r->unsent = w;
    return control_client_begin_as(r->client, w->number, method);
}

int live_send(struct live_run *r, struct err *err)
{
    struct waiting *w = r->unsent;
    const int rc = control_client_send(r->client, err);

    r->unsent = NULL;
    if (rc < 0) {
        free(w);
        disconnect(r, err);
        return rc;
    }
    LIST_INSERT_HEAD(&r->waiting, w, entry);
    return 0;
}

static void ask_status(struct live_run *r)
{
    if (r->client == NULL || r->asked_ms != 0)
        return;
    r->asked_ms = uv_now(r->live->loop) + 1; /* never 0 */
    msg_map(begin(r, 0, 0, "status"), 0);
    if (live_send(r, &(struct err){0}) < 0)
        read_view(r);
}

static void subscribe(struct live_run *r)
{
    struct msg_out *o = begin(r, 0, 0, "subscribe");

    msg_map(o, 1);
    msg_put_bool(o, "events", 1);
    (void)live_send(r, &(struct err){0});
}

static void connect_run(struct live_run *r)
{
    struct err why = {0};

    if (r->client != NULL || run_dir_holder(r->path) == 0 ||
        control_client_open(&r->client, r->path, CONNECTS_WITHIN_MS, &why) < 0)
        return;
    r->poll = xcalloc(1, sizeof(*r->poll));
    r->poll->data = r;
    if (uv_poll_init(r->live->loop, r->poll, control_client_fd(r->client)) < 0) {
        control_client_close(r->client);
        r->client = NULL;
        free(r->poll);
        r->poll = NULL;
        return;
    }
    (void)uv_poll_start(r->poll, UV_READABLE, on_readable);
    subscribe(r);
    ask_status(r);
}

/* Another run of that name may have taken the place of the one that is held. */
static void hold_newest(struct live_run *r)
{
    if (beneath_hold(r->path, NULL) < 0)
        return; /* it was deleted */
    if (r->is_held)
        beneath_release(r->path);
    r->is_held = 1;
}

static void look_at(struct live_run *r)
{
    hold_newest(r);
    connect_run(r);
    if (r->client == NULL) {
        if (stamps_look(&r->stamps, r->path))
            read_view(r);
        return;
    }
    ask_status(r);
    if (r->asked_ms == 0 || uv_now(r->live->loop) <= r->asked_ms + ANSWERS_WITHIN_MS)
        return;
    if (stamps_look(&r->stamps, r->path) || !r->is_silent) {
        r->is_silent = 1;
        read_view(r);
    }
}

static void end_run(struct live_run *r)
{
    LIST_REMOVE(r, entry);
    disconnect(r, &(struct err){.code = ERR_STATE, .msg = "nobody looks at the run"});
    if (r->is_held)
        beneath_release(r->path);
    free(r->name);
    free(r->path);
    free(r->view);
    free(r);
}

static int is_waited_for(const struct live_run *r)
{
    const struct waiting *w;

    LIST_FOREACH(w, &r->waiting, entry)
    if (w->client != 0)
        return 1;
    return 0;
}

static void on_tick(uv_timer_t *timer)
{
    struct live *l = timer->data;
    struct live_run *r = LIST_FIRST(&l->runs), *next;

    for (; r != NULL; r = next) {
        next = LIST_NEXT(r, entry);
        if (r->watchers > 0 || is_waited_for(r))
            look_at(r);
        else
            end_run(r);
    }
}

static void on_soon(uv_timer_t *timer)
{
    struct live *l = timer->data;
    struct live_run *r, *next;

    for (r = LIST_FIRST(&l->runs); r != NULL; r = next) {
        next = LIST_NEXT(r, entry);
        if (r->has_rest)
            read_messages(r);
        if (r->has_event)
            ask_status(r);
    }
}

/* ---- for the server ---- */

struct live *live_new(uv_loop_t *loop, struct live_callbacks callbacks)
{
    struct live *l = xcalloc(1, sizeof(*l));

    *l = (struct live){.loop = loop, .callbacks = callbacks};
    LIST_INIT(&l->runs);
    (void)uv_timer_init(loop, &l->tick);
    (void)uv_timer_init(loop, &l->soon);
    l->tick.data = l->soon.data = l;
    (void)uv_timer_start(&l->tick, on_tick, LOOK_EVERY_MS, LOOK_EVERY_MS);
    return l;
}

void live_close(struct live *l)
{
    struct live_run *r;

    while ((r = LIST_FIRST(&l->runs)) != NULL)
        end_run(r);
    uv_close((uv_handle_t *)&l->tick, NULL);
    uv_close((uv_handle_t *)&l->soon, NULL);
}

void live_free(struct live *l)
{
    free(l);
}

struct live_run *live_watch(struct live *l, const char *name, const char *path)
{
    struct live_run *r;

    LIST_FOREACH(r, &l->runs, entry)
    {
        if (strcmp(r->name, name) == 0) {
            r->watchers++;
            return r;
        }
    }
    r = xcalloc(1, sizeof(*r));
    *r = (struct live_run){
        .live = l, .name = xstrdup(name), .path = xstrdup(path), .watchers = 1};
    LIST_INIT(&r->waiting);
    hold_newest(r);
    LIST_INSERT_HEAD(&l->runs, r, entry);
    connect_run(r);
    if (r->client == NULL)
        read_view(r);
    return r;
}

void live_unwatch(struct live_run *r)
{
    r->watchers--; /* the next tick frees the run, unless it is watched again */
}

const char *live_name(const struct live_run *r)
{
    return r->name;
}

int live_is_newer(const struct live_run *r, uint64_t revision)
{
    return r->view != NULL && r->revision != revision;
}

const char *live_view(const struct live_run *r, size_t *ret_len, uint64_t *ret_revision)
{
    *ret_len = r->view_len;
    *ret_revision = r->revision;
    return r->view;
}

struct msg_out *live_begin(struct live_run *r, uint64_t client, uint32_t id,
                           const char *method, struct err *err)
{
    if (run_facts_refuse_stopped(r->path, err) < 0)
        return NULL;
    connect_run(r);
    if (r->client == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "%s is not running", r->name);
        return NULL;
    }
    return begin(r, client, id, method);
}

void live_forget(struct live *l, uint64_t client)
{
    struct live_run *r;
    struct waiting *w;

    LIST_FOREACH(r, &l->runs, entry)
    LIST_FOREACH(w, &r->waiting, entry)
    if (w->client == client)
        w->client = 0;
}
