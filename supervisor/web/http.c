#include "supervisor/web/http.h"

#include "common/text/scan.h"
#include "supervisor/proc/descriptors.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    CHUNK = 32 << 10, /* of an answer, per iteration of the loop */
    HEADERS_WITHIN_S = 10,
};

#define LOCAL "local" /* the name of the host at a Unix socket */

/* Content security policy: scripts and styles of this server alone, and no other page may frame
 * it. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

static struct http_server *server_of(struct lws *wsi)
{
    return lws_context_user(lws_get_context(wsi));
}

/* ---- requests ---- */

const char *http_header(struct lws *wsi, enum lws_token_indexes which,
                        char ret[HTTP_MAX_HEADER])
{
    if (lws_hdr_total_length(wsi, which) == 0)
        return NULL;
    if (lws_hdr_copy(wsi, ret, HTTP_MAX_HEADER, which) < 0)
        (void)snprintf(ret, HTTP_MAX_HEADER, "(too long)");
    return ret;
}

const char *http_refusal(struct lws *wsi, int needs_origin)
{
    const struct http_server *s = server_of(wsi);
    static char why[160];
    char text[HTTP_MAX_HEADER];

    if (!guard_host(&s->guard, http_header(wsi, WSI_TOKEN_HOST, text))) {
        (void)snprintf(why, sizeof(why),
                       "This address is not that of `%s`: use the one that it printed.\n",
                       s->program);
        return why;
    }
    if (!guard_origin(&s->guard, http_header(wsi, WSI_TOKEN_ORIGIN, text), needs_origin))
        return "Another page has asked for this; it is refused.\n";
    return NULL;
}

int http_shows_token(struct lws *wsi)
{
    char text[HTTP_MAX_HEADER];
    const char *token = http_header(wsi, WSI_TOKEN_HTTP_AUTHORIZATION, text);

    return token != NULL &&
           guard_token(&server_of(wsi)->guard, text_after(token, "Bearer "));
}

/* ---- answers ---- */

static int add(struct lws *wsi, const char *name, const char *value, uint8_t **p,
               uint8_t *end)
{
    return lws_add_http_header_by_name(wsi, (const unsigned char *)name,
                                       (const unsigned char *)value, (int)strlen(value),
                                       p, end);
}

int http_respond(struct lws *wsi, struct http_answer *a, unsigned status,
                 const char *type, const char *range, const void *body, size_t len)
{
    uint8_t room[LWS_PRE + 2048], *const begin = room + LWS_PRE, *p = begin;
    uint8_t *const end = room + sizeof(room) - 1;

    a->data = body;
    a->len = len;
    if (lws_add_http_common_headers(wsi, status, type, len, &p, end) != 0 ||
        add(wsi, "content-security-policy:", policy, &p, end) != 0 ||
        add(wsi, "x-content-type-options:", "nosniff", &p, end) != 0 ||
        add(wsi, "referrer-policy:", "no-referrer", &p, end) != 0 ||
        add(wsi, "cross-origin-resource-policy:", "same-origin", &p, end) != 0 ||
        add(wsi, "cross-origin-opener-policy:", "same-origin", &p, end) != 0 ||
        add(wsi, "cache-control:", "no-store", &p, end) != 0 ||
        (!a->keeps && add(wsi, "connection:", "close", &p, end) != 0) ||
        (range != NULL && *range != '\0' &&
         add(wsi, "content-range:", range, &p, end) != 0) ||
        lws_finalize_write_http_header(wsi, begin, &p, end) != 0)
        return -1;
    lws_callback_on_writable(wsi);
    return 0;
}

int http_send(struct lws *wsi, struct http_answer *a)
{
    static uint8_t room[LWS_PRE + CHUNK];
    const size_t left = a->len - a->sent, n = left < CHUNK ? left : CHUNK;

    memcpy(room + LWS_PRE, a->data + a->sent, n);
    if (lws_write(wsi, room + LWS_PRE, n,
                  n == left ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < (int)n)
        return -1;
    a->sent += n;
    if (a->sent < a->len) {
        lws_callback_on_writable(wsi);
        return 0;
    }
    if (!a->keeps)
        return -1; /* closes the connection, once all is sent */
    http_answer_done(a);
    return lws_http_transaction_completed(wsi) != 0 ? -1 : 0;
}

void http_answer_done(struct http_answer *a)
{
    free(a->owned);
    *a = (struct http_answer){0};
}

/* ---- listening ---- */

/* Checks the port first, because libwebsockets reports that one is taken only as text. */
static int check_port(int port, struct err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    int rc = 0;

    if (fd < 0)
        return err_errno(err, "socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
        rc = errno == EADDRINUSE
                 ? err_set(err, ERR_EXISTS,
                           "port %d is in use: choose another one with --port, or leave "
                           "it out",
                           port)
                 : err_errno(err, "port %d", port);
    (void)close(fd);
    return rc;
}

/* Without a descriptor left, a listener that has a connection waiting would keep the loop busy. */
static int reserve_descriptors(unsigned files, struct err *err)
{
    struct rlimit limit;

    descriptors_raise();
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < files)
        return err_set(err, -EMFILE,
                       "at most %llu open files are allowed here, and the server may "
                       "need %u: raise the hard limit (ulimit -Hn)",
                       (unsigned long long)limit.rlim_cur, files);
    return 0;
}

static struct lws_context_creation_info info_of(const struct http_server *s)
{
    return (struct lws_context_creation_info){
        .port = s->port,
        .iface = "127.0.0.1",
        .protocols = s->protocols,
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_DISABLE_IPV6 |
                   LWS_SERVER_OPTION_VALIDATE_UTF8 |
                   LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND,
        .user = (void *)(uintptr_t)s,
        .gid = 0, /* none: libwebsockets then leaves a Unix socket's mode alone */
        .uid = (uid_t)-1,
        .server_string = "brood",
        .timeout_secs = HEADERS_WITHIN_S,
        .max_http_header_data = HTTP_MAX_HEADER,
        .keepalive_timeout = HEADERS_WITHIN_S,
        .fd_limit_per_thread = s->sockets,
    };
}

static int listen_on(struct http_server *s, struct err *err)
{
    struct lws_context_creation_info info = info_of(s);
    void *loops[] = {s->loop};
    int rc = reserve_descriptors(s->files, err);

    if (rc == 0)
        rc = check_port(s->port, err);
    if (rc < 0)
        return rc;
    info.foreign_loops = loops;
    lws_set_log_level(0, NULL);
    s->lws = lws_create_context(&info);
    if (s->lws == NULL)
        return err_set(
            err, ERR_STATE,
            "libwebsockets does not start: is libwebsockets-evlib-uv installed?");
    s->port = lws_get_vhost_listen_port(lws_get_vhost_by_name(s->lws, "default"));
    guard_set_port(&s->guard, s->port);
    return 0;
}

/* Removes a socket that nobody listens at. */
static int clear_path(const char *path, struct err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct stat st;
    int fd, is_used;

    if (path[0] == '@') /* libwebsockets: a name that has no file, open to all users */
        return err_set(err, ERR_ARG, "%s: the path of a socket begins with no @", path);
    if (strlen(path) >= sizeof(at.sun_path))
        return err_set(err, ERR_LIMIT, "%s: the path of a socket has at most %zu bytes",
                       path, sizeof(at.sun_path) - 1);
    memcpy(at.sun_path, path, strlen(path) + 1);
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, "%s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_EXISTS, "%s is there, and is no socket", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_errno(err, "socket");
    is_used = connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 ||
              errno != ECONNREFUSED;
    (void)close(fd);
    if (is_used)
        return err_set(err, ERR_EXISTS, "%s is in use: choose another path", path);
    return unlink(path) < 0 ? err_errno(err, "%s", path) : 0;
}

int http_listen_at(const struct http_server *s, const char *path, struct err *err)
{
    struct lws_context_creation_info info = info_of(s);
    int rc = clear_path(path, err);
    struct lws_vhost *host;
    mode_t mask;

    if (rc < 0)
        return rc;
    info.port = 0;
    info.iface = path;
    info.vhost_name = LOCAL;
    info.options |= LWS_SERVER_OPTION_UNIX_SOCK;
    mask = umask(0177);
    host = lws_create_vhost(s->lws, &info);
    (void)umask(mask);
    if (host == NULL)
        return err_set(err, ERR_STATE, "%s: no socket can be made there", path);
    /* some versions of libwebsockets let the group in */
    return chmod(path, 0600) < 0 ? err_errno(err, "%s", path) : 0;
}

int http_is_local(struct lws *wsi)
{
    return strcmp(lws_get_vhost_name(lws_get_vhost(wsi)), LOCAL) == 0;
}

/* ---- the server ---- */

static void on_signal(uv_signal_t *signal, int signum)
{
    struct http_server *s = signal->data;

    (void)signum;
    if (s->is_closing)
        return;
    s->is_closing = 1;
    s->on_stop(s->user);
}

int http_open(struct http_server *s, struct err *err)
{
    static const int signums[HTTP_N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    const int rc = guard_init(&s->guard, err);

    if (rc < 0)
        return rc;
    s->is_open = 1;
    connections_init(&s->connections, s->loop);
    for (int i = 0; i < HTTP_N_SIGNALS; i++) {
        (void)uv_signal_init(s->loop, &s->signal[i]);
        s->signal[i].data = s;
        (void)uv_signal_start(&s->signal[i], on_signal, signums[i]);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    return listen_on(s, err);
}

void http_close(struct http_server *s)
{
    if (!s->is_open)
        return;
    s->is_open = 0;
    s->is_closing = 1;
    if (s->lws != NULL)
        lws_context_destroy(s->lws);
    connections_close(&s->connections);
    for (int i = 0; i < HTTP_N_SIGNALS; i++)
        uv_close((uv_handle_t *)&s->signal[i], NULL);
}

/* libwebsockets is told once more to end when the loop has closed its handles. It removes the Unix
 * socket that it has made. */
void http_end(struct http_server *s)
{
    if (s->lws != NULL)
        lws_context_destroy(s->lws);
    s->lws = NULL;
}

/* ---- connections ---- */

void *http_user(struct lws *wsi)
{
    return server_of(wsi)->user;
}

int http_on_connection(struct lws *wsi, enum lws_callback_reasons reason)
{
    struct http_server *s = server_of(wsi);

    switch (reason) {
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION:
        return !connections_have_room(&s->connections) || s->is_closing;
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        connections_add(&s->connections, wsi);
        return 0;
    case LWS_CALLBACK_RAW_ADOPT:
        return -1; /* "CONNECT x": no HTTP, and no timeout, from here on */
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return -1; /* to what the server does not know */
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return 1;                  /* a websocket without a protocol of the server's */
    case LWS_CALLBACK_WSI_DESTROY: /* of any connection, also a websocket's */
        connections_remove(&s->connections, connections_find(wsi));
        return 0;
    default:
        return 0;
    }
}

void http_begin(struct lws *wsi, enum connection_state state)
{
    connections_begin(&server_of(wsi)->connections, connections_find(wsi), state);
}

void http_drop(struct lws *wsi)
{
    connections_end(&server_of(wsi)->connections, connections_find(wsi));
}
