#include "common/mem/xmalloc.h"
#include "supervisor/chan/event_loop.h"
#include "supervisor/page/assets.h"
#include "supervisor/web/file_part.h"
#include "supervisor/web/web.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CHUNK = 32 << 10, /* of a message, per iteration of the loop */
    WALK_EVERY_MS = 2000,
    MAX_SOCKETS = WEB_MAX_CLIENTS + CONNECTIONS_STRANGERS + CONNECTIONS_SLACK +
                  16 /* the listener, the loop */,
    MAX_FILES = MAX_SOCKETS + 256, /* runs, and what is read of them */
    MAX_WAITS = 8,                 /* requests of a client that threads work at */
    MAX_HELLO = 256,               /* bytes of the message with the token */
    /* Why a websocket is closed, for the page (net.js). */
    CLOSED_STRANGER = 4401,
    CLOSED_FULL = 4429,
};

static struct web *web_of(struct lws *wsi)
{
    return http_user(wsi);
}

/* ---- files ---- */

/* One request for a file: of the page, or of a run. */
struct transfer {
    struct lws *wsi;
    struct file_part *part; /* that a thread reads; NULL: none */
    struct http_answer answer;
};

#define PLAIN "text/plain; charset=utf-8"

static int respond_text(struct lws *wsi, struct transfer *t, unsigned status,
                        const char *text)
{
    return http_respond(wsi, &t->answer, status, PLAIN, NULL, text, strlen(text));
}

/* t: NULL is ignored. */
static void end_transfer(struct transfer *t)
{
    if (t == NULL)
        return;
    if (t->part != NULL)
        file_part_forget(t->part);
    http_answer_done(&t->answer);
    *t = (struct transfer){0};
}

/* Called by the loop, once the part of a run's file is read. */
static void on_part(void *ctx, struct file_part *p)
{
    struct transfer *t = ctx;
    int rc;

    t->part = NULL;
    t->answer.owned = p->err.code == 0 ? p->data : (unsigned char *)xstrdup(p->err.msg);
    if (p->err.code == 0)
        p->data = NULL;
    rc = http_respond(t->wsi, &t->answer, p->status, PLAIN, p->content_range,
                      t->answer.owned, p->err.code == 0 ? p->len : strlen(p->err.msg));
    if (rc < 0)
        http_drop(t->wsi);
}

/* A part of a run's file, for who shows the token: in a header that only a script of this page can
 * send, and that no other server of this machine gets. */
static int take_file_request(struct web *w, struct lws *wsi, struct transfer *t)
{
    static char text[HTTP_MAX_HEADER], run_room[HTTP_MAX_HEADER],
        file_room[HTTP_MAX_HEADER];
    const char *run, *file;
    struct run_place place;

    if (!http_shows_token(wsi))
        return respond_text(wsi, t, HTTP_STATUS_UNAUTHORIZED,
                            "The token is missing or wrong.\n");
    http_begin(wsi, CONNECTION_READS);
    run = lws_get_urlarg_by_name(wsi, "run=", run_room, sizeof(run_room));
    if (!runs_find(w->runs, run, &place)) {
        t->answer.owned = (unsigned char *)xasprintf("there is no run '%.100s'",
                                                     run != NULL ? run : "");
        return respond_text(wsi, t, HTTP_STATUS_NOT_FOUND, (const char *)t->answer.owned);
    }
    file = lws_get_urlarg_by_name(wsi, "name=", file_room, sizeof(file_room));
    t->part = file_part_begin(w->readings, place.path, file != NULL ? file : "",
                              http_header(wsi, WSI_TOKEN_HTTP_RANGE, text), on_part, t);
    return 0;
}

/* The page's own files, which tell nothing of a run: whoever can connect may have them. */
static int take_request(struct web *w, struct lws *wsi, struct transfer *t,
                        const char *path)
{
    const char *why = http_refusal(wsi, 0);

    end_transfer(t); /* of a request before */
    t->wsi = wsi;
    if (why != NULL)
        return respond_text(wsi, t, HTTP_STATUS_FORBIDDEN, why);
    if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) == 0)
        return respond_text(wsi, t, HTTP_STATUS_METHOD_NOT_ALLOWED, "Only GET.\n");
    if (strcmp(path, "/file") == 0)
        return take_file_request(w, wsi, t);
    for (size_t i = 0; i < n_assets; i++)
        if (strcmp(assets[i].path, path) == 0)
            return http_respond(wsi, &t->answer, HTTP_STATUS_OK, assets[i].type, NULL,
                                assets[i].data, assets[i].len);
    return respond_text(wsi, t, HTTP_STATUS_NOT_FOUND, "There is no such file.\n");
}

static int send_chunk(struct lws *wsi, struct transfer *t)
{
    if (t->answer.data == NULL)
        return t->part == NULL && t->wsi != NULL ? -1
                                                 : 0; /* there are none, or not yet */
    return http_send(wsi, &t->answer);
}

/* Checks a connection before it becomes a websocket. Returns -1 to close it. The callback's `in` is
 * not read: libwebsockets refuses an upgrade that it does not know itself, frees the headers, and
 * calls all the same. */
static int refuse_upgrade(struct lws *wsi)
{
    const char *why;
    char to[16];

    if (lws_hdr_copy(wsi, to, sizeof(to), WSI_TOKEN_UPGRADE) <= 0)
        return -1;
    why = strcasecmp(to, "websocket") != 0 ? "Only websockets.\n" : http_refusal(wsi, 1);
    if (why != NULL) {
        (void)lws_return_http_status(wsi, HTTP_STATUS_FORBIDDEN, why);
        return -1;
    }
    http_begin(wsi, CONNECTION_ASKED);
    return 0;
}

static int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user,
                   void *in, size_t len)
{
    struct web *w = web_of(wsi);

    switch (reason) {
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return refuse_upgrade(wsi);
    case LWS_CALLBACK_HTTP:
        http_begin(wsi, CONNECTION_SERVED);
        return take_request(w, wsi, user, in);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return send_chunk(wsi, user);
    case LWS_CALLBACK_HTTP_BODY:
        return -1; /* no request here has a body */
    case LWS_CALLBACK_CLOSED_HTTP:
        end_transfer(user);
        return 0;
    default:
        return http_on_connection(wsi, reason);
    }
}

/* ---- websockets: sending ---- */

struct web_client *web_find_client(struct web *w, uint64_t serial)
{
    struct web_client *c;

    LIST_FOREACH(c, &w->clients, entry)
    if (c->serial == serial)
        return c;
    return NULL;
}

/* Calls send_next once the client's socket takes more. */
static void wake(struct web_client *c)
{
    lws_callback_on_writable(c->wsi);
}

/* The first watch whose newest view the client does not have; n_watches: there is
 * none. */
static size_t find_stale_watch(const struct web_client *c)
{
    size_t i = 0;

    while (i < c->n_watches && !live_is_newer(c->watch[i].run, c->watch[i].revision))
        i++;
    return i;
}

static int has_stale_list(const struct web *w, const struct web_client *c)
{
    return c->wants_list && runs_walked(w->runs) >= c->list_walk &&
           c->list_revision != runs_revision(w->runs);
}

/* Whether there is something to send to the client. */
static int is_behind(const struct web *w, const struct web_client *c)
{
    return !STAILQ_EMPTY(&c->unread) || find_stale_watch(c) < c->n_watches ||
           has_stale_list(w, c);
}

/* Called after a view or the list of runs has changed. */
static void wake_who_is_behind(void *ctx)
{
    struct web *w = ctx;
    struct web_client *c;

    LIST_FOREACH(c, &w->clients, entry)
    if (is_behind(w, c))
        wake(c);
}

static void drop_message(struct web *w, struct web_client *c)
{
    struct web_message *m = STAILQ_FIRST(&c->unread);

    STAILQ_REMOVE_HEAD(&c->unread, entry);
    c->n_unread -= m->len;
    w->held -= m->len;
    free(m->data);
    free(m);
}

static void drop_greediest(struct web *w)
{
    struct web_client *c, *worst = NULL;

    LIST_FOREACH(c, &w->clients, entry)
    if (worst == NULL || c->n_unread > worst->n_unread)
        worst = c;
    if (worst == NULL)
        return;
    while (!STAILQ_EMPTY(&worst->unread))
        drop_message(w, worst);
    http_drop(worst->wsi);
}

/* Reads nothing from a client that has much to read, or much to wait for, until it has half of
 * that. */
static void hold_back(struct web_client *c)
{
    const size_t part = c->is_held_back ? 2 : 1;
    const int is_enough =
        c->n_unread > WEB_MAX_UNREAD / part || c->n_waits > MAX_WAITS / part;

    if (is_enough == c->is_held_back)
        return;
    c->is_held_back = is_enough;
    (void)lws_rx_flow_control(c->wsi, !is_enough);
}

void web_begin_wait(struct web_client *c)
{
    c->n_waits++;
    hold_back(c);
}

void web_end_wait(struct web_client *c)
{
    c->n_waits--;
    hold_back(c);
    wake(c); /* libwebsockets looks at what it has read from the client meanwhile */
}

static void queue(struct web *w, struct web_client *c, const char *text, size_t len)
{
    struct web_message *m = xcalloc(1, sizeof(*m));

    m->data = xcalloc(1, LWS_PRE + len);
    memcpy(m->data + LWS_PRE, text, len);
    m->len = len;
    STAILQ_INSERT_TAIL(&c->unread, m, entry);
    c->n_unread += len;
    w->held += len;
    hold_back(c);
    if (w->held > WEB_MAX_HELD)
        drop_greediest(w);
}

/* Begins an object in w->json, of which the caller puts the first value. */
static struct json *begin_object(struct web *w, const char *first)
{
    json_begin(&w->json);
    json_object(&w->json);
    json_key(&w->json, first);
    return &w->json;
}

/* Closes the object and queues it for the client. */
static void end_object(struct web *w, struct web_client *c)
{
    const char *text;
    size_t len;

    json_close(&w->json);
    text = json_line(&w->json, &len);
    queue(w, c, text, len);
}

/* Queues the list or a view of which this client has an older version. */
static void queue_newest(struct web *w, struct web_client *c)
{
    const size_t stale = find_stale_watch(c);
    struct json *j;

    if (stale < c->n_watches) {
        size_t len;
        const char *text =
            live_view(c->watch[stale].run, &len, &c->watch[stale].revision);

        queue(w, c, text, len);
        return;
    }
    if (!has_stale_list(w, c))
        return;
    j = begin_object(w, "push");
    json_str(j, "list");
    json_put_bool(j, "complete", runs_is_complete(w->runs));
    runs_put(w->runs, c->list_revision, j);
    c->list_revision = runs_revision(w->runs);
    end_object(w, c);
}

static int send_next(struct web *w, struct web_client *c)
{
    struct web_message *m;
    size_t n;
    int flags;

    if (STAILQ_EMPTY(&c->unread))
        queue_newest(w, c);
    m = STAILQ_FIRST(&c->unread);
    if (m == NULL)
        return 0;
    n = m->len - m->sent < CHUNK ? m->len - m->sent : CHUNK;
    flags = lws_write_ws_flags(LWS_WRITE_TEXT, m->sent == 0, m->sent + n == m->len);
    /* The bytes before the chunk were sent already, so the frame's header may overwrite
     * them. */
    if (lws_write(c->wsi, m->data + LWS_PRE + m->sent, n,
                  (enum lws_write_protocol)flags) < (int)n)
        return -1;
    m->sent += n;
    if (m->sent == m->len)
        drop_message(w, c);
    hold_back(c);
    if (is_behind(w, c))
        wake(c);
    return 0;
}

/* ---- websockets: answers ---- */

struct json *web_answer_begin(struct web *w, uint32_t id)
{
    struct json *j = begin_object(w, "id");

    json_u64(j, id);
    json_key(j, "result");
    return j;
}

void web_answer_end(struct web *w, struct web_client *c)
{
    end_object(w, c);
    wake(c);
}

void web_answer_empty(struct web *w, struct web_client *c, uint32_t id)
{
    json_object(web_answer_begin(w, id));
    json_close(&w->json);
    web_answer_end(w, c);
}

void web_answer_fail(struct web *w, struct web_client *c, uint32_t id,
                     const struct err *why)
{
    struct json *j = begin_object(w, "id");

    json_u64(j, id);
    json_put_object(j, "error");
    json_put_i64(j, "code", why->code);
    json_put_str(j, "message", why->msg);
    if (why->key[0] != '\0')
        json_put_str(j, "key", why->key);
    json_close(j);
    web_answer_end(w, c);
}

/* ---- websockets: receiving ---- */

static int close_because(struct lws *wsi, int status, const char *why)
{
    lws_close_reason(wsi, (enum lws_close_status)status, (unsigned char *)(uintptr_t)why,
                     strlen(why));
    return -1;
}

/* The first message, which must have the token. r: NULL: it is malformed. */
static int take_hello(struct web *w, struct web_client *c, const struct request *r)
{
    char host[HOST_NAME_MAX + 1] = "";
    struct json *j;
    if (r == NULL || strcmp(r->method, "hello") != 0 ||
        !guard_token(&w->http.guard, request_get(r, "token")))
        return close_because(c->wsi, CLOSED_STRANGER, "the token is missing or wrong");
    if (w->n_clients == WEB_MAX_CLIENTS)
        return close_because(c->wsi, CLOSED_FULL, "too many browsers are connected");
    c->is_owner = 1;
    c->text = xrealloc(c->text, REQUEST_MAX_BYTES + 1);
    LIST_INSERT_HEAD(&w->clients, c, entry);
    w->n_clients++;
    http_begin(c->wsi, CONNECTION_OWNER);
    web_answer_empty(w, c, r->id);
    (void)gethostname(host, sizeof(host) - 1);
    j = begin_object(w, "push");
    json_str(j, "hello");
    json_put_str(j, "host", host);
    json_put_bool(j, "read_only", w->read_only);
    web_answer_end(w, c);
    return 0;
}

static int take_text(struct web *w, struct web_client *c, const char *in, size_t len)
{
    const size_t left = lws_remaining_packet_payload(c->wsi);
    const size_t max = c->is_owner ? REQUEST_MAX_BYTES : MAX_HELLO;
    struct request r;
    struct err err = {0};
    int rc;

    if (lws_frame_is_binary(c->wsi))
        return close_because(c->wsi, LWS_CLOSE_STATUS_UNACCEPTABLE_OPCODE,
                             "a request is text");
    if (c->text_len + len > max || left > max)
        return close_because(c->wsi, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE,
                             "a request is too long");
    memcpy(c->text + c->text_len, in, len);
    c->text_len += len;
    if (left > 0 || !lws_is_final_fragment(c->wsi))
        return 0;
    rc = request_parse(&r, c->text, c->text_len, &err);
    c->text_len = 0;
    if (!c->is_owner)
        return take_hello(w, c, rc == 0 ? &r : NULL);
    if (rc == 0)
        methods_call(w, c, &r);
    else
        web_answer_fail(w, c, r.id, &err);
    return 0;
}

static void end_client(struct web *w, struct web_client *c)
{
    if (c->is_owner) {
        LIST_REMOVE(c, entry);
        w->n_clients--;
        methods_leave(w, c);
    }
    while (!STAILQ_EMPTY(&c->unread))
        drop_message(w, c);
    free(c->text);
    c->text = NULL;
}

static int on_websocket(struct lws *wsi, enum lws_callback_reasons reason, void *user,
                        void *in, size_t len)
{
    struct web *w = web_of(wsi);
    struct web_client *c = user;

    switch (reason) {
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return http_refusal(wsi, 1) != NULL || w->http.is_closing;
    case LWS_CALLBACK_ESTABLISHED:
        /* it counts as a client once it has shown the token */
        *c = (struct web_client){.serial = ++w->last_serial, .wsi = wsi};
        STAILQ_INIT(&c->unread);
        c->text = xcalloc(1, MAX_HELLO + 1);
        return 0;
    case LWS_CALLBACK_RECEIVE:
        return take_text(w, c, in, len);
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return send_next(w, c);
    case LWS_CALLBACK_CLOSED:
        if (c->text != NULL)
            end_client(w, c);
        return 0;
    default:
        return http_on_connection(wsi, reason);
    }
}

static const struct lws_protocols protocols[] = {
    {"http", on_http, sizeof(struct transfer), 0, 0, NULL, 0},
    {"brood", on_websocket, sizeof(struct web_client), 4096, 0, NULL, 0},
    {0},
};

/* ---- the loop ---- */

static void on_walk(uv_timer_t *timer)
{
    struct web *w = timer->data;
    struct web_client *c;

    LIST_FOREACH(c, &w->clients, entry)
    {
        if (c->wants_list) {
            (void)runs_walk(w->runs);
            return;
        }
    }
}

static void on_stop(void *user)
{
    struct web *w = user;

    runs_close(w->runs);
    readings_close(w->readings);
    evals_close(w->evals);
    actions_close(w->actions);
    http_close(&w->http);
    live_close(w->live);
    uv_close((uv_handle_t *)&w->walk, NULL);
}

int web_serve(struct web *w, void (*on_ready)(const struct web *w), struct err *err)
{
    int rc;

    w->http = (struct http_server){.program = "brood web",
                                   .port = w->http.port,
                                   .protocols = protocols,
                                   .sockets = MAX_SOCKETS,
                                   .files = MAX_FILES,
                                   .loop = &w->loop,
                                   .on_stop = on_stop,
                                   .user = w};
    readings_set_pool();
    rc = event_loop_open(&w->loop, err);
    if (rc == 0)
        rc = event_loop_start_threads(&w->loop, err);
    if (rc < 0)
        return rc;
    LIST_INIT(&w->clients);
    LIST_INIT(&w->studies);
    rc = http_open(&w->http, err);
    if (rc < 0) {
        http_close(&w->http);
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
        http_end(&w->http);
        (void)uv_loop_close(&w->loop);
        return rc;
    }
    w->readings = readings_new(&w->loop);
    w->runs = runs_new(w->readings, &w->folders, wake_who_is_behind, w);
    w->live = live_new(&w->loop, w->readings,
                       (struct live_callbacks){wake_who_is_behind, methods_response, w});
    w->evals = evals_new(w);
    w->actions = actions_new(w);
    (void)uv_timer_init(&w->loop, &w->walk);
    w->walk.data = w;
    (void)uv_timer_start(&w->walk, on_walk, WALK_EVERY_MS, WALK_EVERY_MS);
    on_ready(w);
    (void)runs_walk(w->runs);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    http_end(&w->http);
    readings_end(w->readings);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&w->loop);
    live_free(w->live);
    evals_free(w->evals);
    actions_free(w->actions);
    runs_free(w->runs);
    readings_free(w->readings);
    json_done(&w->json);
    return 0;
}
