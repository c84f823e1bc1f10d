#include "supervisor/web/live.h"

#include "common/mem/xmalloc.h"
#include "supervisor/control/client.h"
#include "supervisor/facts/run_view.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/rundir/run_tags.h"
#include "supervisor/web/runs.h"
#include "supervisor/web/stamps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

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

/* What the view has of a run's files. */
struct facts {
    struct stamps stamps;
    struct run_tags tags;
};

struct look;
struct live_run {
    struct live *live;
    char *name, *path;
    size_t watchers;
    struct control_client *client; /* NULL: not connected */
    uv_poll_t *poll;
    struct waiting_list waiting;
    uint32_t number;   /* of the last request */
    uint64_t asked_ms; /* when its status was asked for; 0: it has come */
    int has_event;     /* an event came after the last status */
    int has_rest;      /* messages have come that are not looked at yet */
    int is_silent;     /* it has not answered for too long */
    uint64_t read_us;  /* of processor time, for its messages since the last tick */
    uint64_t connects_after_ms; /* it has sent too much */
    struct run_status status;   /* what it has said last */
    struct arena arena;         /* of the status */
    int has_status;
    struct facts facts; /* as read last */
    struct look *look;  /* under way; NULL: none is */
    int wants_look;     /* another one after it */
    int must_read;      /* the next one reads the record also if no file has changed */
    char *view;
    size_t view_len;
    uint64_t revision;
    struct waiting *unsent; /* the request that is being packed */
    struct stamps stamps;   /* of the files, when the record was read last */
    LIST_ENTRY(live_run) entry;
};

struct live {
    uv_loop_t *loop;
    struct readings *readings;
    int is_closing;
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
    r->has_event = r->has_rest = r->is_silent = r->has_status = 0;
    r->must_read = 1; /* the view was from the connection */
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

/* Processor time of this thread. */
static uint64_t spent_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Milliseconds since 1970. */
static uint64_t time_of(const struct stamp *s)
{
    return (uint64_t)s->changed.tv_sec * 1000 + (uint64_t)s->changed.tv_nsec / 1000000;
}

static void put_view(struct json *j, const char *name, const struct run_status *s,
                     const struct facts *facts, int is_live, int is_denied)
{
    const struct stamp *file = facts->stamps.file;
    const struct run_view view = {
        .name = name,
        .status = s,
        .tags = &facts->tags,
        .stamps = {.rows = (uint64_t)file[STAMP_ROWS].size,
                   .journal = (uint64_t)file[STAMP_JOURNAL].size,
                   .config = time_of(&file[STAMP_CONFIG]),
                   .checkpoints = time_of(&file[STAMP_CHECKPOINTS])},
        .is_live = is_live,
        .is_denied = is_denied};

    json_begin(j);
    run_view_put(&view, j);
}

static void set_view(struct live_run *r, struct json *j)
{
    size_t len;
    const char *text = json_line(j, &len);

    if (r->view != NULL && r->view_len == len && memcmp(r->view, text, len) == 0)
        return;
    r->view = xrealloc(r->view, len + 1);
    memcpy(r->view, text, len + 1);
    r->view_len = len;
    r->revision = ++r->live->revision;
    r->live->callbacks.on_view(r->live->callbacks.ctx);
}

/* Shows what the run has said last, with what was read last. */
static void show_status(struct live_run *r)
{
    const uint64_t began_us = spent_us();
    struct json j = {0};

    put_view(&j, r->name, &r->status, &r->facts, 1, 0);
    set_view(r, &j);
    json_done(&j);
    r->read_us += spent_us() - began_us;
}

/* ---- a look at the files, on a thread ---- */

struct look {
    struct reading reading;
    struct live_run *run; /* NULL: nobody looks at it any more */
    char *name, *path;
    int is_silent;
    struct stamps stamps;
    struct facts facts;
    struct live_reach reach;
    int is_read;              /* its record is wanted, if it cannot be reached */
    struct json view, unread; /* unread: in place of a view that was not made */
    int has_view;             /* 0: nothing has changed */
};

static void look(struct reading *reading)
{
    struct look *l = READING_OF(struct look, reading);
    struct run_record record;

    (void)live_reach(&l->reach, l->path, NULL);
    /* before reading: the next look finds later changes */
    stamps_look(&l->facts.stamps, l->path);
    (void)run_tags_read(&l->facts.tags, l->path, NULL);
    if (l->reach.client != NULL || !l->is_read)
        return; /* the run says how it is */
    if (!stamps_renew(&l->stamps, &l->facts.stamps))
        return;
    run_record_read(&record, l->path); /* it is over, or does not answer */
    if (record.is_live && l->is_silent)
        run_record_note_silence(&record);
    put_view(&l->view, l->name, &record.status, &l->facts, record.is_live,
             record.is_denied);
    l->has_view = 1;
    run_record_done(&record);
}

static void adopt(struct live_run *r, struct live_reach *reach);

/* Without a look: what is shown of the run. A late one leaves what is known of it. */
static void show_unread(struct live_run *r, struct look *l, const struct err *why)
{
    struct run_status unknown = runs_unreadable();

    if (r->client != NULL && r->has_status) {
        show_status(r);
        return;
    }
    if (why->code == ERR_TIMEOUT && r->view != NULL)
        return;
    r->must_read = 1; /* of another run, perhaps, that takes its place */
    if (why->code == -ENOENT)
        unknown.state = "deleted";
    put_view(&l->unread, r->name, &unknown, &r->facts, 0, 0);
    set_view(r, &l->unread);
}

static void on_looked(struct reading *reading, const struct err *why)
{
    struct look *l = READING_OF(struct look, reading);
    struct live_run *r = l->run;

    if (r == NULL)
        return;
    if (why != NULL) {
        show_unread(r, l, why);
        return;
    }
    run_tags_done(&r->facts.tags);
    r->facts = l->facts;
    l->facts = (struct facts){0};
    if (!r->must_read)
        r->stamps = l->stamps;
    adopt(r, &l->reach);
    if (r->client != NULL && r->has_status && !r->is_silent)
        show_status(r);
    else if (l->has_view)
        set_view(r, &l->view);
}

static void start_look(struct live_run *r);

static void after_look(struct reading *reading)
{
    struct look *l = READING_OF(struct look, reading);
    struct live_run *r = l->run;

    live_reach_done(&l->reach);
    run_tags_done(&l->facts.tags);
    json_done(&l->view);
    json_done(&l->unread);
    free(l->name);
    free(l->path);
    free(l);
    if (r == NULL)
        return;
    r->look = NULL;
    if (r->wants_look)
        start_look(r);
}

/* Looks now, or again when the look under way has ended. */
static void start_look(struct live_run *r)
{
    struct look *l;

    r->wants_look = r->look != NULL;
    if (r->look != NULL || r->live->is_closing)
        return;
    if (r->must_read) /* also if nothing has changed */
        r->stamps = (struct stamps){0};
    r->must_read = 0;
    r->look = l = xcalloc(1, sizeof(*l));
    l->run = r;
    l->name = xstrdup(r->name);
    l->path = xstrdup(r->path);
    l->is_silent = r->is_silent;
    l->stamps = r->stamps;
    l->reach.is_needed =
        r->client == NULL && uv_now(r->live->loop) >= r->connects_after_ms;
    l->is_read = r->client == NULL || r->is_silent;
    l->reading = (struct reading){READING_VIEW, l->path, look, on_looked, after_look};
    reading_add(r->live->readings, &l->reading);
}

/* ---- messages ---- */

static void take_status(struct live_run *r, const msgpack_object *body)
{
    r->asked_ms = 0;
    r->has_event = r->is_silent = 0;
    arena_done(&r->arena);
    r->arena = (struct arena)ARENA_ZERO;
    r->status = (struct run_status){0};
    run_status_unpack(&r->status, body, &r->arena);
    r->has_status = 1;
    start_look(r); /* then it is shown */
}

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
    const uint64_t began_us = spent_us();
    const struct msg *m;
    struct err why = {0};
    int rc = 1;

    for (int i = 0; i < MAX_MESSAGES && rc > 0; i++) {
        rc = control_client_next(r->client, 0, &m, &why);
        if (rc > 0)
            take_message(r, m);
        if (r->read_us + spent_us() - began_us > 1000 * LIVE_MAX_MS_A_SECOND) {
            r->connects_after_ms = uv_now(r->live->loop) + LIVE_REST_MS;
            rc = err_set(&why, ERR_LIMIT, "%s sends too much", r->name);
        }
    }
    r->read_us += spent_us() - began_us;
    r->has_rest = rc > 0;
    if (r->has_rest) /* of messages that are read already, the poll tells nothing */
        come_back_soon(r->live, 1);
    if (rc < 0) {
        disconnect(r, &why);
        start_look(r);
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
        start_look(r);
}

static void subscribe(struct live_run *r)
{
    struct msg_out *o = begin(r, 0, 0, "subscribe");

    msg_map(o, 1);
    msg_put_bool(o, "events", 1);
    (void)live_send(r, &(struct err){0});
}

static struct live_run *find_run(const struct live *l, const char *name)
{
    struct live_run *r;

    LIST_FOREACH(r, &l->runs, entry)
    if (strcmp(r->name, name) == 0)
        return r;
    return NULL;
}

int live_is_connected(const struct live *l, const char *name)
{
    const struct live_run *r = find_run(l, name);

    return r != NULL && r->client != NULL;
}

int live_reach(struct live_reach *ret, const char *path, struct err *err)
{
    const int rc = control_refuse_stopped(path, err);

    if (ret->is_needed && run_dir_holder(path) != 0)
        (void)control_client_open(&ret->client, path, CONNECTS_WITHIN_MS, NULL);
    return rc;
}

void live_reach_done(struct live_reach *reach)
{
    control_client_close(reach->client);
    reach->client = NULL;
}

static void adopt(struct live_run *r, struct live_reach *reach)
{
    if (r->client != NULL || reach->client == NULL)
        return;
    r->poll = xcalloc(1, sizeof(*r->poll));
    r->poll->data = r;
    if (uv_poll_init(r->live->loop, r->poll, control_client_fd(reach->client)) < 0) {
        free(r->poll);
        r->poll = NULL;
        return;
    }
    r->client = reach->client;
    reach->client = NULL;
    (void)uv_poll_start(r->poll, UV_READABLE, on_readable);
    subscribe(r);
    ask_status(r);
}

void live_reached(struct live_run *r, struct live_reach *reach)
{
    adopt(r, reach);
}

static void look_at(struct live_run *r)
{
    r->read_us = 0;
    if (r->client == NULL) {
        start_look(r);
        return;
    }
    ask_status(r);
    if (r->asked_ms == 0 || uv_now(r->live->loop) <= r->asked_ms + ANSWERS_WITHIN_MS)
        return;
    if (!r->is_silent)
        r->must_read = 1;
    r->is_silent = 1;
    start_look(r);
}

static void end_run(struct live_run *r)
{
    LIST_REMOVE(r, entry);
    disconnect(r, &(struct err){.code = ERR_STATE, .msg = "nobody looks at the run"});
    if (r->look != NULL)
        r->look->run = NULL;
    run_tags_done(&r->facts.tags);
    arena_done(&r->arena);
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

struct live *live_new(uv_loop_t *loop, struct readings *readings,
                      struct live_callbacks callbacks)
{
    struct live *l = xcalloc(1, sizeof(*l));

    *l = (struct live){.loop = loop, .readings = readings, .callbacks = callbacks};
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

    l->is_closing = 1;
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
    struct live_run *r = find_run(l, name);

    if (r != NULL) {
        r->watchers++;
        return r;
    }
    r = xcalloc(1, sizeof(*r));
    *r = (struct live_run){
        .live = l, .name = xstrdup(name), .path = xstrdup(path), .watchers = 1};
    LIST_INIT(&r->waiting);
    LIST_INSERT_HEAD(&l->runs, r, entry);
    start_look(r);
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
