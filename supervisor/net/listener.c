#include "supervisor/net/listener.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

struct pending {
    struct listener *listener;
    struct channel *channel;
    void *ctx; /* as found */
    char peer[LISTENER_ADDRESS_BYTES];
    TAILQ_ENTRY(pending) entry;
};

struct listener {
    struct listener_options o;
    uv_loop_t *loop;
    uv_poll_t poll;
    int fd;
    unsigned n_pending;
    TAILQ_HEAD(, pending) pending; /* the oldest first */
    char address[LISTENER_ADDRESS_BYTES];
};

/* ---- addresses ---- */

struct host_port {
    char host[256], port[8];
};

static int split(const char *address, struct host_port *ret, struct err *err)
{
    const char *host = address, *end, *port = "0";
    size_t len;

    if (address[0] == '[') {
        host = address + 1;
        end = strchr(host, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return err_set(err, ERR_ARG, "'%s' is no address", address);
        if (end[1] == ':')
            port = end + 2;
    } else {
        end = strrchr(address, ':');
        if (end != NULL)
            port = end + 1;
        else
            end = address + strlen(address);
    }
    len = (size_t)(end - host);
    if (len == 0 || len >= sizeof(ret->host) || strlen(port) >= sizeof(ret->port) ||
        !text_is_digits(port))
        return err_set(err, ERR_ARG, "'%s' is no address, expected HOST or HOST:PORT",
                       address);
    memcpy(ret->host, host, len);
    ret->host[len] = '\0';
    (void)snprintf(ret->port, sizeof(ret->port), "%s", port);
    return 0;
}

static int resolve(const char *address, int flags, struct addrinfo **ret, struct err *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct host_port where;
    int r = split(address, &where, err);

    if (r < 0)
        return r;
    r = getaddrinfo(where.host, where.port, &hints, ret);
    if (r != 0)
        return err_set(err, ERR_NOT_FOUND, "%s: %s", where.host, gai_strerror(r));
    return 0;
}

static void print_address(char ret[LISTENER_ADDRESS_BYTES], const struct sockaddr *a,
                          socklen_t len)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];

    if (getnameinfo(a, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        (void)snprintf(ret, LISTENER_ADDRESS_BYTES, "unknown");
    else
        (void)snprintf(ret, LISTENER_ADDRESS_BYTES,
                       strchr(host, ':') != NULL ? "[%.256s]:%.8s" : "%.256s:%.8s", host,
                       port);
}

static int try_listen(const struct addrinfo *a)
{
    const int one = 1;
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                          a->ai_protocol);

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    const int r = -errno;
    (void)close(fd);
    return r;
}

int net_listen(const char *address, struct err *err)
{
    struct addrinfo *list;
    int fd = resolve(address, AI_PASSIVE, &list, err);

    if (fd < 0)
        return fd;
    fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
        fd = try_listen(a);
    freeaddrinfo(list);
    if (fd < 0)
        return err_set(err, fd, "listening on %s: %s", address, strerror(-fd));
    return fd;
}

static int try_connect(const struct addrinfo *a, uint64_t timeout_ms)
{
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                          a->ai_protocol);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int r = 0;

    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0)
        r = errno;
    if (r == EINPROGRESS) {
        const int n = poll(&p, 1, (int)timeout_ms);

        r = n == 0 ? ETIMEDOUT : errno;
        if (n > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &r, &len) < 0)
            r = errno;
    }
    if (r == 0)
        return fd;
    (void)close(fd);
    return -r;
}

int net_connect(const char *address, uint64_t timeout_ms, struct err *err)
{
    struct addrinfo *list;
    int fd = resolve(address, 0, &list, err);

    if (fd < 0)
        return fd;
    fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = list; a != NULL && fd < 0; a = a->ai_next)
        fd = try_connect(a, timeout_ms);
    freeaddrinfo(list);
    if (fd < 0)
        return err_set(err, fd, "connecting to %s: %s", address, strerror(-fd));
    return fd;
}

/* ---- connections in their handshake ---- */

static void forget(struct pending *p)
{
    TAILQ_REMOVE(&p->listener->pending, p, entry);
    p->listener->n_pending--;
    free(p);
}

static void refuse(struct pending *p, const struct err *why)
{
    struct listener *l = p->listener;

    channel_close(p->channel);
    if (l->o.on_refused != NULL)
        l->o.on_refused(l->o.refused_ctx, p->peer, why);
    forget(p);
}

static const struct channel_secret *
find(void *find_ctx, const uint8_t id[CHANNEL_ID_BYTES], void **ret_ctx)
{
    struct pending *p = find_ctx;

    *ret_ctx = p; /* as before: until the channel is ready */
    return p->listener->o.find(p->listener->o.find_ctx, id, &p->ctx);
}

static void on_ready(void *ctx, struct channel *c)
{
    struct pending *p = ctx;
    struct channel_callbacks cb = p->listener->o.callbacks;

    cb.ctx = p->ctx;
    channel_hand_over(c, &cb);
    forget(p);
    cb.on_ready(cb.ctx, c);
}

static void on_end(void *ctx, struct channel *c, const struct err *why)
{
    static const struct err left = {.msg = "it left before the handshake was over"};

    refuse(ctx, why->code == 0 ? &left : why);
}

static void take(struct listener *l, int fd, const struct sockaddr *from, socklen_t len)
{
    static const struct err too_many = {.code = ERR_LIMIT,
                                        .msg = "too many connections at once"};
    struct pending *p = xcalloc(1, sizeof(*p));
    const struct channel_callbacks cb = {
        .on_ready = on_ready, .on_message = NULL, .on_end = on_end, .ctx = p};

    if (l->n_pending == l->o.max_pending)
        refuse(TAILQ_FIRST(&l->pending), &too_many);
    p->listener = l;
    print_address(p->peer, from, len);
    TAILQ_INSERT_TAIL(&l->pending, p, entry);
    l->n_pending++;
    if (channel_accept(&p->channel, l->loop, fd, find, p, &l->o.channel, &cb, NULL) < 0)
        forget(p);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *l = poll->data;
    struct sockaddr_storage from;
    socklen_t len;
    int fd;

    for (;;) {
        len = sizeof(from);
        fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return; /* no more, or one that has left again */
        take(l, fd, (const struct sockaddr *)&from, len);
    }
}

int listener_open(struct listener **ret, uv_loop_t *loop,
                  const struct listener_options *o, struct err *err)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof(own);
    struct listener *l;
    const int fd = net_listen(o->address, err);
    int r;

    if (fd < 0)
        return fd;
    l = xcalloc(1, sizeof(*l));
    *l = (struct listener){.o = *o, .loop = loop, .fd = fd};
    l->o.address = NULL;
    if (l->o.max_pending == 0)
        l->o.max_pending = LISTENER_MAX_PENDING;
    TAILQ_INIT(&l->pending);
    r = uv_poll_init(loop, &l->poll, fd);
    if (r < 0) {
        (void)close(fd);
        free(l);
        return err_set(err, r, "watching a socket: %s", uv_strerror(r));
    }
    l->poll.data = l;
    (void)uv_poll_start(&l->poll, UV_READABLE, on_poll);
    if (getsockname(fd, (struct sockaddr *)&own, &len) == 0)
        print_address(l->address, (const struct sockaddr *)&own, len);
    *ret = l;
    return 0;
}

const char *listener_address(const struct listener *l)
{
    return l->address;
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void listener_close(struct listener *l)
{
    struct pending *p;

    if (l == NULL)
        return;
    while ((p = TAILQ_FIRST(&l->pending)) != NULL) {
        channel_close(p->channel);
        forget(p);
    }
    uv_close((uv_handle_t *)&l->poll, on_closed);
    (void)close(l->fd);
}
