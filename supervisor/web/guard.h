/* guard.h - who may use the page: checks of a request's headers, without I/O.
 *
 * Token    random, in the URL that `brood web` prints. The first request exchanges it for a
 *          cookie, another random value, so that the token is not kept in the browser's
 *          history. Both are compared in constant time.
 * Host     must be 127.0.0.1:PORT or localhost:PORT (for port 80, also without it). Another
 *          name that resolves to this address belongs to a page that poses as this one
 *          (DNS rebinding).
 * Origin   of a request that has one: must be http:// and one of these hosts.
 * Source   RFC 6454 (origin), RFC 6265 (cookies)
 */
#ifndef SUPERVISOR_WEB_GUARD_H
#define SUPERVISOR_WEB_GUARD_H

#include "common/err/err.h"

enum {
    GUARD_SECRET_BYTES = 2 * 32 + 1, /* hexadecimal digits of 256 bits, terminator */
    GUARD_HOSTS = 4
};

struct guard {
    char token[GUARD_SECRET_BYTES];
    char cookie[GUARD_SECRET_BYTES];
    char cookie_name
        [32]; /* has the port: a browser sends cookies to all ports of a host */
    char hosts[GUARD_HOSTS][32]; /* "": none */
};

/* Draws the secrets. */
int guard_init(struct guard *ret, struct err *err);
/* Sets what depends on the port: the cookie's name and the hosts. Call it before any
 * check. */
void guard_set_port(struct guard *g, int port);

/* Each returns 1 if the header or the token is accepted. NULL: it is missing. */
int guard_token(const struct guard *g, const char *token);
int guard_host(const struct guard *g, const char *host);
/* A missing origin is accepted unless it is required, as for a websocket, which any page
 * may try to open to this server. */
int guard_origin(const struct guard *g, const char *origin, int is_required);
/* cookies: the header, "a=1; b=2". */
int guard_cookie(const struct guard *g, const char *cookies);

#endif
