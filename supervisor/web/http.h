/* http.h - what the servers of this machine share: the sockets that they listen at, the life of
 * their connections, checks of a request's headers, answers that are sent in pieces, and the
 * signals that end them. Used by `brood web`, and by `brood serve` (supervisor/serve/).
 *
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_WEB_HTTP_H
#define SUPERVISOR_WEB_HTTP_H

/* libwebsockets.h includes OpenSSL, which has a type of this name; err.h has a code. */
#define ERR_STATE OPENSSL_ERR_STATE
#include <libwebsockets.h>
#undef ERR_STATE

#include "common/err/err.h"
#include "supervisor/web/connections.h"
#include "supervisor/web/guard.h"

#include <stddef.h>
#include <uv.h>

/* The Cookie header is long, though nothing here reads it: a browser sends up to 180 cookies of a
 * host, those of programs at its other ports. */
enum { HTTP_MAX_HEADER = 16 << 10, HTTP_N_SIGNALS = 3 };

/* Copies a header; NULL if it is missing. In place of one that is too long it returns a
 * text that no check accepts. */
const char *http_header(struct lws *wsi, enum lws_token_indexes which,
                        char ret[HTTP_MAX_HEADER]);
/* Checks Host and Origin. Returns why the request is refused, or NULL. The token is checked
 * elsewhere. */
const char *http_refusal(struct lws *wsi, int needs_origin);
/* Whether the request shows the token: "Authorization: Bearer TOKEN". */
int http_shows_token(struct lws *wsi);

/* One answer, of which the rest is still to be sent. */
struct http_answer {
    unsigned char *owned; /* its bytes, malloc(); NULL: the body is somebody else's */
    const unsigned char *data;
    size_t len, sent;
    int keeps; /* the connection, for further requests; 0: it ends after the answer */
};

/* Sends the head of an answer; the body follows when the socket is writable (http_send). range:
 * NULL or "": it is no part. Returns -1 to close the connection.
 * keeps: with requests at hand before an answer is read, libwebsockets 4.1 does not sleep while it
 * waits for the client to read. */
int http_respond(struct lws *wsi, struct http_answer *a, unsigned status,
                 const char *type, const char *range, const void *body, size_t len);
/* Sends the next piece. Returns -1 to close the connection, which has all. */
int http_send(struct lws *wsi, struct http_answer *a);
void http_answer_done(struct http_answer *a); /* an all-zero struct is fine */

struct http_server {
    const char *program;                   /* whose address it has, "brood web" */
    int port;                              /* 0: one that is free, which is set */
    const struct lws_protocols *protocols; /* outlive the server */
    unsigned sockets;                      /* at once, with the listeners */
    unsigned files;                        /* descriptors that the program may need */
    uv_loop_t *loop;
    void (*on_stop)(void *user); /* at the first SIGINT, SIGTERM or SIGHUP */
    void *user;

    struct guard guard; /* set from here on */
    struct connections connections;
    struct lws_context *lws; /* its user is the server */
    uv_signal_t signal[HTTP_N_SIGNALS];
    int is_open, is_closing;
};
/* Draws the token, listens on 127.0.0.1, and watches the signals. ERR_EXISTS: the port is in use;
 * -EMFILE; ERR_STATE. Also after an error, http_close and http_end follow. */
int http_open(struct http_server *s, struct err *err);
/* Also listens at a Unix socket of this path, which only this user can connect to; a socket that is
 * there already is replaced if nobody listens at it. ERR_EXISTS, ERR_LIMIT, -errno. */
int http_listen_at(const struct http_server *s, const char *path, struct err *err);
/* Accepts nobody any more, and begins to close what it has in the loop. Once the loop has closed
 * that, http_end. All-zero is fine. */
void http_close(struct http_server *s);
void http_end(struct http_server *s);

/* The server's user, of a connection. */
void *http_user(struct lws *wsi);
/* What any server does about a connection: the default of its protocols' callbacks. */
int http_on_connection(struct lws *wsi, enum lws_callback_reasons reason);
/* connections_begin and connections_end. */
void http_begin(struct lws *wsi, enum connection_state state);
void http_drop(struct lws *wsi);
/* Whether a connection came by the Unix socket. */
int http_is_local(struct lws *wsi);

#endif
