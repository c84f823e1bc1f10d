/* rpc_client.h - a client of the methods of rpc.h in the same process, with its own
 * transport. */
#ifndef TESTS_SUPPORT_RPC_CLIENT_H
#define TESTS_SUPPORT_RPC_CLIENT_H

#include "common/msg/frame.h"
#include "supervisor/control/rpc.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct rpc_client {
    struct rpc_peer peer;
    int n; /* messages received */
    uint8_t *data;
    struct msg last;                             /* points into data */
    void (*on_message)(struct rpc_client *self); /* may be NULL */
};

static inline void rpc_client_on_send(struct rpc_peer *peer, const uint8_t *message,
                                      size_t len)
{
    struct rpc_client *c = (struct rpc_client *)peer; /* peer is the first member */
    struct err err = {0};

    c->n++;
    c->data = realloc(c->data, len);
    ck_assert_ptr_nonnull(c->data);
    memcpy(c->data, message, len);
    ck_assert_msg(msg_reparse(&c->last, c->data, len, &err) == 0, "%s", err.msg);
    if (c->on_message != NULL)
        c->on_message(c);
}

static inline void rpc_client_open(struct rpc_client *c, struct rpc *rpc)
{
    *c = (struct rpc_client){.peer.send = rpc_client_on_send};
    rpc_attach(rpc, &c->peer);
}

static inline void rpc_client_close(struct rpc_client *c)
{
    rpc_detach(&c->peer);
    msg_done(&c->last);
    free(c->data);
}

/* Sends the message that was packed into o; returns the result of rpc_take. */
static inline int rpc_client_send(struct rpc_client *c, struct msg_out *o,
                                  struct err *err)
{
    const uint8_t *frame;
    size_t len;

    msg_end(o, &frame, &len);
    return rpc_take(&c->peer, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, err);
}

#endif
