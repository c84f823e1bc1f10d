/* listener.h - where the nodes of a run connect to: a listening TCP socket whose peers have to
 * finish the handshake of secure_channel.h before anybody else hears of them.
 *
 * Strangers  are connections that have not yet shown the id of a key that is waited for. Each
 *            takes a descriptor, a fixed amount of memory, and CHANNEL_HANDSHAKE_MS at most.
 *            The more there are, the likelier the next one costs one of them, chosen at random
 *            (random early drop, after MaxStartups of OpenSSH's sshd_config(5)): from
 *            LISTENER_DROP_FROM with LISTENER_DROP_PERCENT, at LISTENER_FULL always. If one
 *            address has more than a quarter of them, it loses one of its own. So a flood mostly drops
 *            itself, and a node, which needs one way through the network to show its id,
 *            seldom falls to it; it may come again.
 * Nodes      that have shown such an id are not dropped.
 * Turns      the loop's other handles have their turn after some connections.
 */
#ifndef SUPERVISOR_NET_LISTENER_H
#define SUPERVISOR_NET_LISTENER_H

#include "supervisor/net/secure_channel.h"

#include <netdb.h>

#define LISTENER_DROP_FROM     16u /* both: beside the expected nodes */
#define LISTENER_FULL          128u
#define LISTENER_DROP_PERCENT  30u
#define LISTENER_REPORT_MS     1000u
#define LISTENER_ADDRESS_BYTES 300u

struct listener; /* opaque */

struct listener_options {
    /* "HOST", "HOST:PORT" or "[IPV6]:PORT"; a port of 0 or none: the kernel chooses one. */
    const char *address;
    struct channel_options channel;
    unsigned expected; /* nodes that may connect at once */
    /* As of channel_accept; also sets the ctx of channel_callbacks. */
    channel_find_fn find;
    void *find_ctx;
    struct channel_callbacks callbacks; /* of the channels that are ready */
    /* n connections were refused, or ended before they were ready, since the last call, which
     * was LISTENER_REPORT_MS ago or more. peer: "ADDRESS:PORT" of the last one. NULL is fine. */
    void (*on_refused)(void *ctx, const char *peer, const struct err *why, size_t n);
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

/* Looks up "HOST:PORT", "[IPV6]:PORT" or "HOST" (port 0), which may take long unless HOST is an
 * address. flags: of getaddrinfo; *ret: freeaddrinfo(). ERR_ARG, ERR_NOT_FOUND. */
int net_resolve(const char *address, int flags, struct addrinfo **ret, struct err *err);
/* Both return a descriptor (nonblocking, close-on-exec), or -errno. net_listen also looks the
 * address up, with the errors of that. net_connect only begins to connect: the socket becomes
 * writable when it is connected, and reading it tells why it could not be; channel_open takes it
 * as it is. */
int net_listen(const char *address, struct err *err);
int net_connect(const struct addrinfo *to, struct err *err);

#endif
