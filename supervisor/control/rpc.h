/* rpc.h - dispatches msgpack-rpc requests to methods, independent of the transport.
 *
 * Method     one row of a table: its name, its params, its function. It responds through a
 *            struct rpc_reply, at once or later, and knows neither transport nor client.
 * Transport  accepts clients and reads whole messages from them (rpc_server.h does so on a
 *            Unix socket). Each of its clients holds a struct rpc_peer, through which
 *            responses and notifications come back, also as whole messages.
 * Time       transports call rpc_may_take before each request and rpc_charge after it, so
 *            that the clients of all transports together cannot starve the run.
 * Threads    loop thread only.
 */
#ifndef SUPERVISOR_CONTROL_RPC_H
#define SUPERVISOR_CONTROL_RPC_H

#include "common/msg/msg.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct rpc;       /* opaque: a table of methods and the peers that may call them */
struct rpc_reply; /* opaque: a request that has no response yet */

/* ---- methods ---- */

enum rpc_type { RPC_NUMBER, RPC_TEXT, RPC_LIST, RPC_BOOL };
enum { RPC_MAX_PARAMS = 4, RPC_MAX_TEXT = 255 };

/* A param that is checked before the method is called; others reach it unchecked. */
struct rpc_param {
    const char *key; /* NULL: the list ends here */
    enum rpc_type type;
    int required;
    uint64_t min, max; /* of a number; max of a text: its bytes, at most RPC_MAX_TEXT */
};

/* Carries out the request. params, a map or nil, is valid during the call. Returns 0
 * if it has sent the reply, or will send it later. An error, which is allowed only
 * before the reply is sent, becomes the response. */
typedef int (*rpc_method_fn)(void *ctx, const msgpack_object *params,
                             struct rpc_reply *reply, struct err *err);

struct rpc_method {
    const char *name;
    rpc_method_fn fn;
    struct rpc_param params[RPC_MAX_PARAMS];
};

/* methods is borrowed; ctx is passed to each method. */
struct rpc *rpc_new(const struct rpc_method *methods, size_t n_methods, void *ctx);
/* No peer may be attached. Drops the replies that were never sent. */
void rpc_free(struct rpc *rpc); /* NULL is fine */

/* A reply is sent once: by begin, packing one object, and end; or as an error; or as an
 * empty map. Sending frees it. If its client has disconnected, it is freed unsent. */
struct msg_out *rpc_reply_begin(struct rpc_reply *r);
void rpc_reply_end(struct rpc_reply *r);
void rpc_reply_fail(struct rpc_reply *r, const struct err *why);
void rpc_reply_empty(struct rpc_reply *r);

/* 0: its client has disconnected, and nobody waits for it any more. */
int rpc_reply_is_awaited(const struct rpc_reply *r);

/* Subscribes the client that waits for this reply to a channel, 1 to RPC_CHANNELS, in place
 * of the channel to which it was subscribed before. */
enum { RPC_CHANNELS = 2 };
void rpc_subscribe(struct rpc_reply *r, int channel);
/* Sends a notification to all subscribers of a channel: begin, pack one object, end. NULL:
 * there are no subscribers; do not pack anything. */
struct msg_out *rpc_notify_begin(struct rpc *rpc, int channel, const char *method);
void rpc_notify_end(struct rpc *rpc);

/* ---- transports ---- */

/* A part of the transport's own client. */
struct rpc_peer {
    /* Sends or queues a whole message, which is valid during the call. May detach this
     * peer or any other. */
    void (*send)(struct rpc_peer *peer, const uint8_t *message, size_t len);
    /* private */
    struct rpc *rpc;
    int channel; /* 0: not subscribed */
    LIST_ENTRY(rpc_peer) entry;
};

/* The caller has set peer->send. */
void rpc_attach(struct rpc *rpc, struct rpc_peer *peer);
/* The client has disconnected; its requests are still carried out. */
void rpc_detach(struct rpc_peer *peer);
/* Calls the method of one whole request. An error (ERR_PROTOCOL and the like) means that
 * this is not a msgpack-rpc request: the transport should disconnect the client. */
int rpc_take(struct rpc_peer *peer, const uint8_t *message, size_t len, struct err *err);

/* Limits requests to 1/parts of the time; after a request that took very long, the
 * next one waits at most 5 s. 0, the initial value: no limit. */
void rpc_limit_time(struct rpc *rpc, unsigned parts);
/* rpc_may_take returns 1 if there is time for another request now; if it returns 0,
 * rpc_may_take_in_ms returns the number of milliseconds to wait. */
int rpc_may_take(struct rpc *rpc);
uint64_t rpc_may_take_in_ms(const struct rpc *rpc);
/* Charges the time since since_ns (uv_hrtime), in which a request was served. */
void rpc_charge(struct rpc *rpc, uint64_t since_ns);

#endif
