#include "supervisor/control/rpc.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* Clients can save up this much unused time, so that a rare request is served at once. */
enum { ADVANCE_NS = 5000000, NS_PER_MS = 1000000 };
/* Clients wait no longer than this after a request, however long it took: the machine may
 * have been suspended meanwhile. */
#define LONGEST_WAIT_NS INT64_C(5000000000)

struct rpc_reply {
    struct rpc *rpc;
    struct rpc_peer *peer; /* NULL: the client has disconnected */
    uint32_t id;
    LIST_ENTRY(rpc_reply) entry;
};

struct rpc {
    const struct rpc_method *methods;
    size_t n_methods;
    void *ctx;
    LIST_HEAD(, rpc_peer) peers;
    struct rpc_peer *next; /* the peer that rpc_notify_end notifies next */
    size_t n_subscribed[RPC_CHANNELS + 1];
    int notified; /* channel of the notification being packed */
    LIST_HEAD(, rpc_reply) replies;
    struct msg request; /* the request being served */
    struct msg_out out; /* the message being packed */
    unsigned time_parts;
    int64_t credit_ns; /* time that clients have left, at credit_at_ns */
    uint64_t credit_at_ns;
};

struct rpc *rpc_new(const struct rpc_method *methods, size_t n_methods, void *ctx)
{
    struct rpc *rpc = xcalloc(1, sizeof(*rpc));

    rpc->methods = methods;
    rpc->n_methods = n_methods;
    rpc->ctx = ctx;
    LIST_INIT(&rpc->peers);
    LIST_INIT(&rpc->replies);
    msg_out_init(&rpc->out);
    return rpc;
}

static void reply_free(struct rpc_reply *r)
{
    LIST_REMOVE(r, entry);
    free(r);
}

void rpc_free(struct rpc *rpc)
{
    if (rpc == NULL)
        return;
    CHECK(LIST_EMPTY(&rpc->peers));
    while (!LIST_EMPTY(&rpc->replies))
        reply_free(LIST_FIRST(&rpc->replies));
    msg_out_done(&rpc->out);
    msg_done(&rpc->request);
    free(rpc);
}

/* ---- replies and notifications ---- */

/* Sends the message without the frame's header: clients use plain msgpack-rpc. */
static void send_out(struct rpc_peer *peer)
{
    const uint8_t *frame;
    size_t len;

    msg_end(&peer->rpc->out, &frame, &len);
    peer->send(peer, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES);
}

struct msg_out *rpc_reply_begin(struct rpc_reply *r)
{
    msg_begin_response(&r->rpc->out, r->id);
    return &r->rpc->out;
}

void rpc_reply_end(struct rpc_reply *r)
{
    if (r->peer != NULL)
        send_out(r->peer);
    reply_free(r);
}

void rpc_reply_fail(struct rpc_reply *r, const struct err *why)
{
    msg_error_response(&r->rpc->out, r->id, why);
    rpc_reply_end(r);
}

void rpc_reply_empty(struct rpc_reply *r)
{
    msg_map(rpc_reply_begin(r), 0);
    rpc_reply_end(r);
}

int rpc_reply_is_awaited(const struct rpc_reply *r)
{
    return r->peer != NULL;
}

void rpc_subscribe(struct rpc_reply *r, int channel)
{
    if (r->peer == NULL)
        return;
    r->rpc->n_subscribed[r->peer->channel]--;
    r->peer->channel = channel;
    r->rpc->n_subscribed[channel]++;
}

struct msg_out *rpc_notify_begin(struct rpc *rpc, int channel, const char *method)
{
    if (rpc->n_subscribed[channel] == 0)
        return NULL;
    rpc->notified = channel;
    msg_begin_notification(&rpc->out, method);
    return &rpc->out;
}

void rpc_notify_end(struct rpc *rpc)
{
    for (struct rpc_peer *p = LIST_FIRST(&rpc->peers); p != NULL; p = rpc->next) {
        rpc->next = LIST_NEXT(p, entry);
        if (p->channel == rpc->notified)
            send_out(p);
    }
}

/* ---- requests ---- */

void rpc_attach(struct rpc *rpc, struct rpc_peer *peer)
{
    peer->rpc = rpc;
    peer->channel = 0;
    rpc->n_subscribed[0]++;
    LIST_INSERT_HEAD(&rpc->peers, peer, entry);
}

void rpc_detach(struct rpc_peer *peer)
{
    struct rpc *rpc = peer->rpc;
    struct rpc_reply *r;

    if (rpc->next == peer)
        rpc->next = LIST_NEXT(peer, entry);
    rpc->n_subscribed[peer->channel]--;
    LIST_REMOVE(peer, entry);
    LIST_FOREACH(r, &rpc->replies, entry)
    {
        if (r->peer == peer)
            r->peer = NULL;
    }
}

static int check_param(const struct rpc_param *p, const msgpack_object *params,
                       struct err *err)
{
    const msgpack_object *list;
    char text[RPC_MAX_TEXT + 1];
    uint64_t number = p->min;
    int flag;
    int rc = p->required ? msg_require(params, p->key, err) : 0;

    if (rc < 0)
        return rc;
    switch (p->type) {
    case RPC_TEXT:
        CHECK(p->max <= RPC_MAX_TEXT);
        return msg_get_str(params, p->key, text, (size_t)p->max + 1, err);
    case RPC_LIST:
        return msg_get_array(params, p->key, &list, err);
    case RPC_BOOL:
        return msg_get_bool(params, p->key, &flag, err);
    default:
        rc = msg_get_u64(params, p->key, p->max, &number, err);
        return rc < 0 || number >= p->min
                   ? rc
                   : err_set(err, ERR_PROTOCOL, "%s: expected at least %llu", p->key,
                             (unsigned long long)p->min);
    }
}

static int call_method(struct rpc_reply *reply, struct err *err)
{
    struct rpc *rpc = reply->rpc;
    const struct msg *request = &rpc->request;
    const struct rpc_method *m = rpc->methods;

    while (m < rpc->methods + rpc->n_methods && strcmp(m->name, request->method) != 0)
        m++;
    if (m == rpc->methods + rpc->n_methods)
        return err_set(err, ERR_NOT_FOUND, "there is no method '%s'", request->method);
    for (size_t i = 0; i < RPC_MAX_PARAMS && m->params[i].key != NULL; i++) {
        if (check_param(&m->params[i], &request->body, err) < 0)
            return err_note(err, ERR_AT(.key = m->params[i].key));
    }
    return m->fn(rpc->ctx, &request->body, reply, err);
}

int rpc_take(struct rpc_peer *peer, const uint8_t *message, size_t len, struct err *err)
{
    struct rpc *rpc = peer->rpc;
    struct err why = {0};
    struct rpc_reply *reply;
    int rc = msg_reparse(&rpc->request, message, len, err);

    if (rc < 0)
        return rc;
    if (rpc->request.type != MSG_REQUEST)
        return err_set(err, ERR_PROTOCOL, "expected a request: [0, id, method, params]");
    reply = xcalloc(1, sizeof(*reply));
    reply->rpc = rpc;
    reply->peer = peer;
    reply->id = rpc->request.id;
    LIST_INSERT_HEAD(&rpc->replies, reply, entry);
    if (call_method(reply, &why) < 0)
        rpc_reply_fail(reply, &why);
    return 0;
}

/* ---- time ---- */

void rpc_limit_time(struct rpc *rpc, unsigned parts)
{
    rpc->time_parts = parts;
}

int rpc_may_take(struct rpc *rpc)
{
    const uint64_t now = uv_hrtime();

    if (rpc->time_parts == 0)
        return 1;
    rpc->credit_ns += (int64_t)((now - rpc->credit_at_ns) / rpc->time_parts);
    rpc->credit_at_ns = now;
    if (rpc->credit_ns > ADVANCE_NS)
        rpc->credit_ns = ADVANCE_NS;
    return rpc->credit_ns > 0;
}

uint64_t rpc_may_take_in_ms(const struct rpc *rpc)
{
    return rpc->credit_ns > 0 || rpc->time_parts == 0
               ? 0
               : (uint64_t)-rpc->credit_ns * rpc->time_parts / NS_PER_MS + 1;
}

void rpc_charge(struct rpc *rpc, uint64_t since_ns)
{
    int64_t least;

    if (rpc->time_parts == 0)
        return;
    least = -LONGEST_WAIT_NS / rpc->time_parts;
    rpc->credit_ns -= (int64_t)(uv_hrtime() - since_ns);
    if (rpc->credit_ns < least)
        rpc->credit_ns = least;
}
