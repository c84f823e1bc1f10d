/* listener.h - where the nodes of a run connect to: a listening TCP socket whose peers have to
 * finish the handshake of secure_channel.h before anybody else hears of them.
 *
 * At most max_pending connections are in their handshake; one more ends the oldest.
 * Each takes a fixed amount of memory, and CHANNEL_HANDSHAKE_MS at most.
 */
#ifndef SUPERVISOR_NET_LISTENER_H
#define SUPERVISOR_NET_LISTENER_H

#include "supervisor/net/secure_channel.h"

#define LISTENER_MAX_PENDING   16u /* if nothing else is said */
#define LISTENER_ADDRESS_BYTES 300u

struct listener; /* opaque */

struct listener_options {
    /* "HOST", "HOST:PORT" or "[IPV6]:PORT"; a port of 0 or none: the kernel chooses one. */
    const char *address;
    struct channel_options channel;
    unsigned max_pending; /* more than may connect at once; 0: LISTENER_MAX_PENDING */
    channel_find_fn
        find; /* as of channel_accept; also sets the ctx of channel_callbacks */
    void *find_ctx;
    struct channel_callbacks callbacks; /* of the channels that are ready */
    /* A connection was refused, or ended before it was ready. peer: "ADDRESS:PORT". NULL is
     * fine. */
    void (*on_refused)(void *ctx, const char *peer, const struct err *why);
    void *refused_ctx;
};

/* ERR_NOT_FOUND: no such host; -errno. */
int listener_open(struct listener **ret, uv_loop_t *loop,
                  const struct listener_options *o, struct err *err);
/* "ADDRESS:PORT", or "[ADDRESS]:PORT", with the port that is really listened on. */
const char *listener_address(const struct listener *l);
/* Ends pending connections without a call; channels that are ready stay. Freed when the loop has
 * let go of it. NULL is fine. */
void listener_close(struct listener *l);

/* Splits "HOST:PORT", "[IPV6]:PORT" or "HOST" (port 0) and connects or binds. Both return a
 * descriptor (nonblocking, close-on-exec), or ERR_ARG, ERR_NOT_FOUND, -errno. net_connect waits at
 * most timeout_ms. */
int net_listen(const char *address, struct err *err);
int net_connect(const char *address, uint64_t timeout_ms, struct err *err);

#endif
