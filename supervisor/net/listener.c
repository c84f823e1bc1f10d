#include "supervisor/net/listener.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/net/record_seal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TURN_CONNECTIONS = 64, /* accepted before the loop's other handles have their turn */
    PAUSE_MS = 100,        /* without descriptors, until the next try */
};

struct pending {
    struct listener *listener;
    struct channel *channel;
    void *ctx;       /* as found */
    uint64_t source; /* network address of the peer: IPv4's, or IPv6's first half */
    int is_known;    /* it has shown the id of a key */
    char peer[LISTENER_ADDRESS_BYTES];
    TAILQ_ENTRY(pending) entry;
};

struct listener {
    struct listener_options o;
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t report; /* active: a refusal was reported a moment ago */
    uv_timer_t pause;
    int open_handles;
    int fd;
    unsigned n_strangers, n_known;
    uint64_t crowd; /* the source that most strangers have, as of the last one's coming */
    TAILQ_HEAD(, pending) pending;
    struct { /* not reported yet */
        size_t n;
        char peer[LISTENER_ADDRESS_BYTES];
        struct err why;
    } refused;
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

int net_resolve(const char *address, int flags, struct addrinfo **ret, struct err *err)
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
    int fd = net_resolve(address, AI_PASSIVE, &list, err);

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

int net_connect(const struct addrinfo *to, struct err *err)
{
    const int fd = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC,
                          to->ai_protocol);
    int r = fd < 0 ? errno : 0;

    if (fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS)
        r = errno;
    if (r == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return err_set(err, -r, "%s", strerror(r));
}

/* ---- refusals ---- */

static void on_report(uv_timer_t *timer)
{
    struct listener *l = timer->data;
    const size_t n = l->refused.n;

    if (n == 0)
        return;
    l->refused.n = 0;
    (void)uv_timer_start(&l->report, on_report, LISTENER_REPORT_MS, 0);
    if (l->o.on_refused != NULL)
        l->o.on_refused(l->o.refused_ctx, l->refused.peer, &l->refused.why, n);
}

/* The first one is reported at once, the others of the same moment together. */
static void note_refused(struct listener *l, const char *peer, const struct err *why)
{
    l->refused.n++;
    (void)snprintf(l->refused.peer, sizeof(l->refused.peer), "%s", peer);
    l->refused.why = *why;
    if (!uv_is_active((uv_handle_t *)&l->report))
        on_report(&l->report);
}

/* ---- connections in their handshake ---- */

static void forget(struct pending *p)
{
    TAILQ_REMOVE(&p->listener->pending, p, entry);
    if (p->is_known)
        p->listener->n_known--;
    else
        p->listener->n_strangers--;
    free(p);
}

static void refuse(struct pending *p, const struct err *why)
{
    channel_close(p->channel);
    note_refused(p->listener, p->peer, why);
    forget(p);
}

/* Whoever shows an id is known from then on; not any number, since ids are no secrets. */
static const struct channel_secret *
find(void *find_ctx, const uint8_t id[CHANNEL_ID_BYTES], void **ret_ctx, struct err *why)
{
    struct pending *p = find_ctx;
    struct listener *l = p->listener;
    const struct channel_secret *secret = l->o.find(l->o.find_ctx, id, &p->ctx, why);

    *ret_ctx = p; /* as before: until the channel is ready */
    if (secret != NULL && l->n_known < l->o.expected + LISTENER_DROP_FROM) {
        p->is_known = 1;
        l->n_known++;
        l->n_strangers--;
    }
    return secret;
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

/* ---- too many ---- */

static uint64_t source_of(const struct sockaddr *from)
{
    uint64_t ret = 0;

    if (from->sa_family == AF_INET)
        ret = ((const struct sockaddr_in *)(const void *)from)->sin_addr.s_addr;
    else if (from->sa_family == AF_INET6)
        memcpy(&ret, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
               sizeof(ret));
    return ret;
}

/* Whether the stranger that has just come is one too many. */
static int is_too_much(const struct listener *l)
{
    const unsigned from = LISTENER_DROP_FROM + l->o.expected;
    const unsigned full = LISTENER_FULL + l->o.expected, n = l->n_strangers;
    unsigned percent;

    if (n <= from)
        return 0;
    if (n > full)
        return 1;
    percent = LISTENER_DROP_PERCENT +
              (100 - LISTENER_DROP_PERCENT) * (n - from) / (full - from);
    return randombytes_uniform(100) < percent;
}

static unsigned count_of(const struct listener *l, uint64_t source)
{
    const struct pending *p;
    unsigned n = 0;

    TAILQ_FOREACH(p, &l->pending, entry)
    n += !p->is_known && p->source == source;
    return n;
}

/* A stranger, perhaps the one that has just come. */
static struct pending *draw_stranger(const struct listener *l)
{
    const unsigned n = count_of(l, l->crowd);
    const int is_flood = n > (LISTENER_FULL + l->o.expected) / 4;
    uint32_t skip = randombytes_uniform(is_flood ? n : l->n_strangers);
    struct pending *p;

    TAILQ_FOREACH(p, &l->pending, entry)
    if (!p->is_known && (!is_flood || p->source == l->crowd) && skip-- == 0)
        return p;
    return NULL;
}

static const struct err too_many = {.code = ERR_LIMIT,
                                    .msg = "too many connections at once"};

static void listener_take(struct listener *l, int fd, const struct sockaddr *from,
                          socklen_t len)
{
    struct pending *p = xcalloc(1, sizeof(*p)), *dropped;
    const struct channel_callbacks cb = {
        .on_ready = on_ready, .on_message = NULL, .on_end = on_end, .ctx = p};
    struct err err = {0};
    int is_welcome;

    p->listener = l;
    p->source = source_of(from);
    print_address(p->peer, from, len);
    TAILQ_INSERT_TAIL(&l->pending, p, entry);
    l->n_strangers++;
    if (count_of(l, p->source) >= count_of(l, l->crowd))
        l->crowd = p->source;
    dropped = is_too_much(l) ? draw_stranger(l) : NULL;
    is_welcome = dropped != p;
    if (dropped != NULL)
        refuse(dropped, &too_many);
    if (!is_welcome)
        (void)close(fd);
    else if (channel_accept(&p->channel, l->loop, fd, find, p, &l->o.channel, &cb, &err) <
             0) {
        p->channel = NULL;
        refuse(p, &err);
    }
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void on_pause(uv_timer_t *timer)
{
    struct listener *l = timer->data;

    (void)uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

/* Without descriptors a stranger gives one back; without strangers a pause spares the loop. */
static void on_shortage(struct listener *l, int code)
{
    struct err why;

    (void)err_set(&why, -code, "no descriptor is left for one more: %s", strerror(code));
    if (l->n_strangers > 0) {
        refuse(draw_stranger(l), &why);
        return;
    }
    note_refused(l, l->address, &why);
    (void)uv_poll_stop(&l->poll);
    (void)uv_timer_start(&l->pause, on_pause, PAUSE_MS, 0);
}

static int is_shortage(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct listener *l = poll->data;
    struct sockaddr_storage from;
    socklen_t len;
    int fd;

    for (int i = 0; i < TURN_CONNECTIONS; i++) {
        len = sizeof(from);
        fd = accept4(l->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) { /* no more, or one that has left again */
            if (is_shortage(errno))
                on_shortage(l, errno);
            return;
        }
        listener_take(l, fd, (const struct sockaddr *)&from, len);
    }
}

/* ---- opening and closing ---- */

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
    TAILQ_INIT(&l->pending);
    r = uv_poll_init(loop, &l->poll, fd);
    if (r < 0) {
        (void)close(fd);
        free(l);
        return err_set(err, r, "watching a socket: %s", uv_strerror(r));
    }
    (void)uv_timer_init(loop, &l->report);
    (void)uv_timer_init(loop, &l->pause);
    l->poll.data = l->report.data = l->pause.data = l;
    l->open_handles = 3;
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
    struct listener *l = h->data;

    if (--l->open_handles == 0)
        free(l);
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
    uv_close((uv_handle_t *)&l->report, on_closed);
    uv_close((uv_handle_t *)&l->pause, on_closed);
    (void)close(l->fd);
}
