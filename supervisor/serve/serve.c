#include "supervisor/serve/serve.h"

#include "common/mem/xmalloc.h"
#include "common/msg/unpack.h"
#include "common/text/scan.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/serve/json_unpack.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_SOCKETS = CONNECTIONS_STRANGERS + CONNECTIONS_SLACK + 16,
    MAX_FILES = MAX_SOCKETS + 256, /* and the agents' */
    DRAIN_ROUNDS = 64,
};

#define JSON    "application/json"
#define MSGPACK "application/msgpack"

/* One request, and its answer. */
struct transfer {
    struct serve *serve;
    struct lws *wsi;
    struct act *act; /* that waits for its agent; NULL: none */
    char *body;      /* [expected + 1]; NULL: none is awaited */
    size_t len, expected;
    int is_msgpack;
    struct http_answer answer;
};

static void forget_request(struct transfer *t)
{
    if (t->act != NULL)
        acts_forget(t->act);
    t->act = NULL;
    free(t->body);
    t->body = NULL;
}

static void end_transfer(struct transfer *t)
{
    if (t == NULL)
        return;
    forget_request(t);
    http_answer_done(&t->answer);
    *t = (struct transfer){0};
}

/* ---- answers ---- */

static int answer_bytes(struct transfer *t, unsigned status, const char *type,
                        const void *data, size_t len)
{
    t->answer.owned = xcalloc(1, len + 1);
    memcpy(t->answer.owned, data, len);
    return http_respond(t->wsi, &t->answer, status, type, NULL, t->answer.owned, len);
}

/* Sends a msgpack object, as JSON unless the request was msgpack. */
static int answer_object(struct transfer *t, unsigned status, const msgpack_sbuffer *b)
{
    struct json j = {0};
    msgpack_zone zone;
    msgpack_object o;
    const char *text;
    size_t len;
    int rc;

    if (t->is_msgpack)
        return answer_bytes(t, status, MSGPACK, b->data, b->size);
    if (!msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE))
        return -1;
    rc = msg_unpack(b->data, b->size, &zone, &o, NULL);
    if (rc == 0) {
        msg_json_put(&j, &o);
        text = json_line(&j, &len);
        rc = answer_bytes(t, status, JSON, text, len);
    }
    msgpack_zone_destroy(&zone);
    json_done(&j);
    return rc;
}

/* Refuses, and ends the connection, whose body nobody reads. */
static int refuse(struct transfer *t, unsigned status, const char *why)
{
    msgpack_sbuffer b;
    int rc;

    msgpack_sbuffer_init(&b);
    acts_refuse(&b, why);
    t->answer.keeps = 0;
    rc = answer_object(t, status, &b);
    msgpack_sbuffer_destroy(&b);
    return rc;
}

static void on_answer(void *ctx, enum acts_status status, const msgpack_sbuffer *answer)
{
    struct transfer *t = ctx;

    t->act = NULL;
    t->answer.keeps = 1;
    if (answer_object(t, status, answer) < 0)
        http_drop(t->wsi);
}

/* ---- requests ---- */

/* Any other type is read as JSON: few programs name it. */
static int is_msgpack(struct lws *wsi)
{
    char text[HTTP_MAX_HEADER];
    const char *type = http_header(wsi, WSI_TOKEN_HTTP_CONTENT_TYPE, text);

    return type != NULL && (text_after(type, MSGPACK) != NULL ||
                            text_after(type, "application/x-msgpack") != NULL);
}

static int take_act(struct transfer *t)
{
    char text[HTTP_MAX_HEADER];
    const char *length = http_header(t->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH, text);
    uint64_t n;

    t->is_msgpack = is_msgpack(t->wsi);
    if (length == NULL || !text_u64(length, &n) || n == 0)
        return refuse(t, HTTP_STATUS_LENGTH_REQUIRED,
                      "a body with its Content-Length is missing");
    if (n > SERVE_MAX_BODY)
        return refuse(t, HTTP_STATUS_REQ_ENTITY_TOO_LARGE, "the body is too large");
    t->expected = (size_t)n;
    t->body = xcalloc(1, t->expected + 1);
    return 0;
}

static int take_description(struct transfer *t)
{
    msgpack_sbuffer b;
    int rc;

    msgpack_sbuffer_init(&b);
    acts_describe(t->serve->answering, &b);
    t->answer.keeps = 1;
    rc = answer_object(t, HTTP_STATUS_OK, &b);
    msgpack_sbuffer_destroy(&b);
    return rc;
}

static int take_request(struct serve *s, struct lws *wsi, struct transfer *t,
                        const char *path)
{
    const int is_get = lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) > 0;
    const int is_post = lws_hdr_total_length(wsi, WSI_TOKEN_POST_URI) > 0;
    const int is_local = http_is_local(wsi);
    const char *why = is_local ? NULL : http_refusal(wsi, 0);

    end_transfer(t); /* of a request before */
    t->serve = s;
    t->wsi = wsi;
    http_begin(wsi, CONNECTION_SERVED);
    if (why != NULL)
        return refuse(t, HTTP_STATUS_FORBIDDEN, why);
    if (!is_local && !http_shows_token(wsi))
        return refuse(t, HTTP_STATUS_UNAUTHORIZED,
                      "the token is missing or wrong (Authorization: Bearer TOKEN)");
    http_begin(wsi, CONNECTION_READS);
    if (strcmp(path, "/act") == 0)
        return is_post ? take_act(t)
                       : refuse(t, HTTP_STATUS_METHOD_NOT_ALLOWED, "POST /act");
    if (strcmp(path, "/") == 0)
        return is_get ? take_description(t)
                      : refuse(t, HTTP_STATUS_METHOD_NOT_ALLOWED, "GET /");
    return refuse(t, HTTP_STATUS_NOT_FOUND, "there are GET / and POST /act");
}

static void take_piece(struct transfer *t, const void *in, size_t len)
{
    if (t->body == NULL || len > t->expected - t->len)
        return; /* of a request that was refused; libwebsockets gives no more than announced */
    memcpy(t->body + t->len, in, len);
    t->len += len;
}

/* The body is there. */
static int take_body(struct transfer *t)
{
    msgpack_sbuffer converted;
    msgpack_zone zone;
    msgpack_object request;
    struct err err = {0};
    int has_zone, rc;

    if (t->body == NULL)
        return 0;
    msgpack_sbuffer_init(&converted);
    has_zone = msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE);
    rc = has_zone ? 0 : err_set(&err, ERR_NOMEM, "no memory");
    if (rc == 0 && !t->is_msgpack)
        rc = json_unpack(&converted, t->body, t->len, &err);
    if (rc == 0)
        rc = msg_unpack(t->is_msgpack ? t->body : converted.data,
                        t->is_msgpack ? t->len : converted.size, &zone, &request, &err);
    if (rc == 0)
        t->act = acts_ask(t->serve->answering, &request, on_answer, t);
    else
        rc = refuse(t,
                    rc == ERR_NOMEM ? HTTP_STATUS_SERVICE_UNAVAILABLE
                                    : HTTP_STATUS_BAD_REQUEST,
                    err.msg);
    if (has_zone)
        msgpack_zone_destroy(&zone);
    msgpack_sbuffer_destroy(&converted);
    free(t->body);
    t->body = NULL;
    return rc;
}

static int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user,
                   void *in, size_t len)
{
    struct transfer *t = user;

    switch (reason) {
    case LWS_CALLBACK_HTTP:
        return take_request(http_user(wsi), wsi, t, in);
    case LWS_CALLBACK_HTTP_BODY:
        take_piece(t, in, len);
        return 0;
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        return take_body(t);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return t->answer.data != NULL ? http_send(wsi, &t->answer) : 0;
    case LWS_CALLBACK_CLOSED_HTTP:
        end_transfer(t);
        return 0;
    default:
        return http_on_connection(wsi, reason);
    }
}

static const struct lws_protocols protocols[] = {
    {"http", on_http, sizeof(struct transfer), 0, 0, NULL, 0},
    {0},
};

/* ---- the loop ---- */

static void on_stop(void *user)
{
    struct serve *s = user;

    ask_done(s->ask);
}

/* The agents keep the loop alive. */
static void close_all(struct serve *s)
{
    acts_close(s->answering);
    http_close(&s->http);
    for (int i = 0; i < DRAIN_ROUNDS; i++)
        (void)uv_run(ask_loop(s->ask), UV_RUN_NOWAIT);
    http_end(&s->http);
}

int serve_run(struct serve *s, void (*on_ready)(const struct serve *s), struct err *err)
{
    int rc;

    s->ask = players_ask(s->acts.players);
    s->http = (struct http_server){.program = "brood serve",
                                   .port = s->http.port,
                                   .protocols = protocols,
                                   .sockets = MAX_SOCKETS,
                                   .files = MAX_FILES,
                                   .loop = ask_loop(s->ask),
                                   .on_stop = on_stop,
                                   .user = s};
    rc = acts_open(&s->answering, &s->acts, err);
    if (rc == 0)
        rc = http_open(&s->http, err);
    if (rc == 0 && s->socket != NULL)
        rc = http_listen_at(&s->http, s->socket, err);
    if (rc == 0) {
        on_ready(s);
        rc = ask_wait(s->ask, err);
    }
    close_all(s);
    return rc;
}
