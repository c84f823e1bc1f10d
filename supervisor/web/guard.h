/* guard.h - who may use the page: checks of a request's headers, without I/O.
 *
 * Token    random, in the fragment of the URL that `brood web` prints: a browser sends that
 *          nowhere. The page sends the token in the first message of its websocket, so that it
 *          reaches this server alone; a cookie would go to every port of this machine. It is
 *          compared in constant time.
 * Host     must be 127.0.0.1:PORT or localhost:PORT (for port 80, also without it). Another
 *          name that resolves to this address belongs to a page that poses as this one
 *          (DNS rebinding).
 * Origin   of a request that has one: must be http:// and one of these hosts.
 * Source   RFC 6454 (origin)
 */
#ifndef SUPERVISOR_WEB_GUARD_H
#define SUPERVISOR_WEB_GUARD_H

#include "common/err/err.h"

enum {
    GUARD_TOKEN_BYTES = 2 * 32 + 1, /* hexadecimal digits of 256 bits, terminator */
    GUARD_HOSTS = 4
};

struct guard {
    char token[GUARD_TOKEN_BYTES];
    char hosts[GUARD_HOSTS][32]; /* "": none */
};

/* Draws the token. */
int guard_init(struct guard *ret, struct err *err);
/* Sets the hosts. Call it before any check of headers. */
void guard_set_port(struct guard *g, int port);

/* Each returns 1 if the header or the token is accepted. NULL: it is missing. */
int guard_token(const struct guard *g, const char *token);
int guard_host(const struct guard *g, const char *host);
/* A missing origin is accepted unless it is required, as for a websocket, which any page
 * may try to open to this server. */
int guard_origin(const struct guard *g, const char *origin, int is_required);

#endif
