/* serve.h - the policies of a run over HTTP, at 127.0.0.1 and at a Unix socket.
 *
 * GET /      what there is: the run, its agents, what they see and do
 * POST /act  acts.h; the body is JSON, or msgpack (Content-Type: application/msgpack), and the answer
 *            is likewise
 *
 * Who      at 127.0.0.1 whoever shows the token (Authorization: Bearer TOKEN), with the checks of
 *          web/guard.h; at the Unix socket whoever may connect to it: this user.
 * Bounds   SERVE_MAX_BODY, connections.h, acts.h
 * Ends     with SIGINT, SIGTERM or SIGHUP; what waits then gets no answer.
 * Threads  main thread.
 */
#ifndef SUPERVISOR_SERVE_SERVE_H
#define SUPERVISOR_SERVE_SERVE_H

#include "supervisor/serve/acts.h"
#include "supervisor/web/http.h"

enum { SERVE_MAX_BODY = 8 << 20 };

struct serve {
    struct http_server http; /* its port: 0: one that is free, which is set */
    const char *socket;      /* the Unix socket's path; NULL: none */
    struct acts_args acts;

    struct acts *answering; /* set from here on */
    struct ask *ask;
};

/* Serves until a signal, or until an agent fails for good. on_ready: it listens. */
int serve_run(struct serve *s, void (*on_ready)(const struct serve *s), struct err *err);

#endif
