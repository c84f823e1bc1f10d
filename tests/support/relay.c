/* A TCP relay that simulates a bad network: it forwards connections to another address,
 * and delays, splits, cuts or damages what it forwards. No kernel support is needed.
 *
 *     relay TARGET [HOST]
 *
 * listens on HOST (127.0.0.1) at a port that the kernel chooses. TARGET is a file whose
 * one line is the "HOST:PORT" to connect to; it is read for every connection. Each line
 * on standard input changes the behaviour from then on; the relay exits at the end of its
 * standard input:
 *
 *     seed N     of all random choices (1)
 *     delay US   each way, in microseconds
 *     shred 0|1  bytes are forwarded in pieces of random sizes, some of them with a delay
 *     cut N      ends one connection before N more bytes, of both directions, have come
 *     flip N     flips one bit of the next N bytes
 *     stall 0|1  forwards nothing; connections stay open
 *     count      prints how many bytes were forwarded
 *
 * Standard output has a line for "listening HOST:PORT", each "cut", each "flip" and
 * "count UP DOWN CONNECTIONS" (UP: from clients to the target; DOWN: back to them).
 */
#include "common/err/check.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "supervisor/net/listener.h"
#include "tests/support/simulated.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    MAX_PAIRS = 256,
    PIECE_BYTES = 1 << 16,
    MAX_HELD_BYTES = 8 << 20, /* of one direction */
    SHRED_BYTES = 1500,       /* largest size of most pieces */
    SHRED_HOLD_US = 1500,
    CONNECT_MS = 5000,
};

struct chunk {
    STAILQ_ENTRY(chunk) entry;
    uint64_t due_ns;
    size_t from, len;
    uint8_t data[];
};

struct way {
    STAILQ_HEAD(, chunk) held;
    size_t held_bytes;
    uint64_t due_ns; /* of the last chunk; keeps the order */
    int is_over;     /* end of the input */
};

struct pair {
    int fd[2];         /* the client, the target; -1: there is no pair */
    struct way way[2]; /* way[i]: from fd[i] to the other */
};

static struct pair pairs[MAX_PAIRS];
static const char *target;
static uint64_t delay_ns, carried[2], n_connections;
static uint64_t cut_in = UINT64_MAX, flip_in = UINT64_MAX; /* bytes until the event */
static int is_shredding, is_stalled;

/* ---- connections ---- */

static void end_way(struct way *w)
{
    struct chunk *c;

    while ((c = STAILQ_FIRST(&w->held)) != NULL) {
        STAILQ_REMOVE_HEAD(&w->held, entry);
        free(c);
    }
    w->held_bytes = 0;
}

static void end_pair(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        (void)close(p->fd[i]);
        p->fd[i] = -1;
        end_way(&p->way[i]);
    }
}

/* A connected socket; -1: it cannot be had. */
static int connect_now(const char *address)
{
    struct addrinfo *list;
    struct pollfd p = {.fd = -1, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int error = 0;

    if (net_resolve(address, 0, &list, NULL) < 0)
        return -1;
    p.fd = net_connect(list, NULL);
    freeaddrinfo(list);
    if (p.fd < 0 ||
        (poll(&p, 1, CONNECT_MS) > 0 &&
         getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0))
        return p.fd;
    (void)close(p.fd);
    return -1;
}

static int connect_to_target(void)
{
    char address[300] = "";
    FILE *f = fopen(target, "re");

    if (f != NULL && fgets(address, sizeof(address), f) != NULL)
        address[strcspn(address, "\n")] = '\0';
    if (f != NULL)
        (void)fclose(f);
    return connect_now(address);
}

static void take_connection(int listening)
{
    const int one = 1, fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct pair *p = pairs;

    if (fd < 0)
        return;
    while (p < pairs + MAX_PAIRS && p->fd[0] >= 0)
        p++;
    CHECK(p < pairs + MAX_PAIRS);
    *p = (struct pair){.fd = {fd, connect_to_target()}};
    n_connections++;
    for (int i = 0; i < 2; i++) {
        STAILQ_INIT(&p->way[i].held);
        if (p->fd[1] >= 0)
            (void)setsockopt(p->fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    if (p->fd[1] < 0) {
        (void)close(fd);
        p->fd[0] = -1;
    }
}

/* ---- bytes ---- */

static void hold(struct way *w, const uint8_t *data, size_t len)
{
    struct chunk *c = xmalloc(sizeof(*c) + len);
    uint64_t due = simulated_now_ns() + delay_ns;

    if (is_shredding && simulated_draw(4) == 0)
        due += simulated_draw(SHRED_HOLD_US) * 1000;
    w->due_ns = due > w->due_ns ? due : w->due_ns;
    c->due_ns = w->due_ns;
    c->from = 0;
    c->len = len;
    memcpy(c->data, data, len);
    STAILQ_INSERT_TAIL(&w->held, c, entry);
    w->held_bytes += len;
}

/* Counts down by len. Returns whether the event is within these bytes, and at which of
 * them. */
static int comes_now(uint64_t *in, size_t len, size_t *ret_at)
{
    if (*in == UINT64_MAX)
        return 0;
    if (*in >= len) {
        *in -= len;
        return 0;
    }
    *ret_at = (size_t)*in;
    *in = UINT64_MAX;
    return 1;
}

static void take_bytes(struct pair *p, int i)
{
    static uint8_t data[PIECE_BYTES];
    size_t most = sizeof(data), at;
    ssize_t n;

    if (is_shredding && simulated_draw(8) > 0)
        most = 1 + simulated_draw(SHRED_BYTES);
    n = recv(p->fd[i], data, most, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        p->way[i].is_over = 1;
        return;
    }
    carried[i] += (uint64_t)n;
    if (comes_now(&flip_in, (size_t)n, &at)) {
        data[at] ^= (uint8_t)(1u << simulated_draw(8));
        simulated_print("flip");
    }
    if (comes_now(&cut_in, (size_t)n, &at)) {
        (void)send(p->fd[!i], data, at, MSG_NOSIGNAL | MSG_DONTWAIT);
        end_pair(p);
        simulated_print("cut");
        return;
    }
    hold(&p->way[i], data, (size_t)n);
}

/* Returns the time of the next chunk, ns; 0: none is waiting for its time. */
static uint64_t give_bytes(struct pair *p, int i)
{
    struct way *w = &p->way[i];
    struct chunk *c;
    ssize_t n;

    while ((c = STAILQ_FIRST(&w->held)) != NULL) {
        if (c->due_ns > simulated_now_ns())
            return c->due_ns;
        n = send(p->fd[!i], c->data + c->from, c->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n < 0) {
            end_pair(p);
            return 0;
        }
        c->from += (size_t)n;
        c->len -= (size_t)n;
        w->held_bytes -= (size_t)n;
        if (c->len > 0)
            return 0;
        STAILQ_REMOVE_HEAD(&w->held, entry);
        free(c);
    }
    if (w->is_over)
        end_pair(p);
    return 0;
}

/* ---- commands ---- */

static void obey(const char *word, uint64_t n)
{
    char text[100];

    if (strcmp(word, "delay") == 0)
        delay_ns = n * 1000;
    else if (strcmp(word, "shred") == 0)
        is_shredding = n != 0;
    else if (strcmp(word, "cut") == 0)
        cut_in = simulated_draw(n);
    else if (strcmp(word, "flip") == 0)
        flip_in = simulated_draw(n);
    else if (strcmp(word, "stall") == 0)
        is_stalled = n != 0;
    if (strcmp(word, "count") == 0) {
        (void)snprintf(text, sizeof(text), "count %llu %llu %llu",
                       (unsigned long long)carried[0], (unsigned long long)carried[1],
                       (unsigned long long)n_connections);
        simulated_print(text);
    }
}

/* ---- the loop ---- */

struct polled {
    struct pollfd fds[2 + 2 * MAX_PAIRS];
    struct pair *of[2 + 2 * MAX_PAIRS];
    nfds_t n;
    uint64_t due_ns; /* earliest due time of a chunk; 0: none */
};

static void watch_pair(struct polled *w, struct pair *p)
{
    for (int i = 0; i < 2 && p->fd[0] >= 0; i++) {
        const uint64_t due = give_bytes(p, i);

        if (due > 0 && (w->due_ns == 0 || due < w->due_ns))
            w->due_ns = due;
    }
    for (int i = 0; i < 2 && p->fd[0] >= 0; i++) {
        const struct way *in = &p->way[i], *out = &p->way[!i];
        const struct chunk *next = STAILQ_FIRST(&out->held);

        w->of[w->n] = p;
        w->fds[w->n] = (struct pollfd){.fd = p->fd[i]};
        if (!in->is_over && in->held_bytes < MAX_HELD_BYTES)
            w->fds[w->n].events |= POLLIN;
        if (next != NULL && next->due_ns <= simulated_now_ns())
            w->fds[w->n].events |= POLLOUT;
        if (w->fds[w->n].events == 0)
            /* an error on this descriptor would make poll return at once, again and
             * again */
            w->fds[w->n].fd = -1;
        w->n++;
    }
}

static int turn(struct polled *w, int listening)
{
    w->n = 2;
    w->due_ns = 0;
    w->fds[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    w->fds[1] = (struct pollfd){.fd = listening, .events = POLLIN};
    for (struct pair *p = pairs; p < pairs + MAX_PAIRS && !is_stalled; p++)
        if (p->fd[0] >= 0)
            watch_pair(w, p);
    simulated_poll(w->fds, w->n, w->due_ns);
    if (w->fds[1].revents != 0 && !is_stalled)
        take_connection(listening);
    for (nfds_t k = 2; k < w->n; k++)
        if (w->fds[k].revents & (POLLIN | POLLHUP | POLLERR) && w->of[k]->fd[0] >= 0 &&
            w->fds[k].events & POLLIN)
            take_bytes(w->of[k], w->fds[k].fd == w->of[k]->fd[1]);
    return w->fds[0].revents == 0 || simulated_commands(obey);
}

int main(int argc, char **argv)
{
    static struct polled polled;
    struct sockaddr_storage own;
    struct sockaddr_in *in = (struct sockaddr_in *)&own;
    socklen_t len = sizeof(own);
    char text[300];
    int listening;

    if (argc < 2)
        return 2;
    target = argv[1];
    for (int i = 0; i < MAX_PAIRS; i++)
        pairs[i].fd[0] = -1;
    /* delays are fractions of a millisecond */
    (void)prctl(PR_SET_TIMERSLACK, 1);
    listening = net_listen(argc > 2 ? argv[2] : "127.0.0.1", NULL);
    CHECK(listening >= 0 && getsockname(listening, (struct sockaddr *)&own, &len) == 0);
    (void)snprintf(text, sizeof(text), "listening %s:%d",
                   argc > 2 ? argv[2] : "127.0.0.1", ntohs(in->sin_port));
    simulated_print(text);
    while (turn(&polled, listening))
        ;
    return 0;
}
