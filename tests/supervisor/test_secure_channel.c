#include "common/io/signal_process.h"
#include "supervisor/net/listener.h"
#include "supervisor/net/secure_channel.h"
#include "tests/support/test_main.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Tests of channels between two machines. The test is in the middle: it carries the bytes
 * from one socket to the other, and reads, changes or drops them on the way. */

#define MARKER "an observation that nobody else may read"

struct side {
    struct channel *channel;
    int n_ready, n_messages, n_ends;
    size_t last_len;
    uint8_t first_byte, last_byte;
    struct err end;
    int wait_for; /* on_message waits until this number of messages has come */
};

static uv_loop_t loop;
static uv_timer_t deadline;
static int timed_out;
static struct channel_secret secret;
static int secret_is_used;
static struct side node, supervisor;
static int node_wire = -1, supervisor_wire = -1; /* the test's ends */
static uint64_t n_carried;                       /* in both directions */
static uint64_t flip_at = UINT64_MAX;            /* a bit of this byte is flipped */
static int saw_marker;

static void on_deadline(uv_timer_t *t)
{
    timed_out = 1;
}

static void on_ready(void *ctx, struct channel *c)
{
    struct side *s = ctx;

    s->n_ready++;
    s->channel = c;
}

static void on_message(void *ctx, struct channel *c, const uint8_t *data, size_t len)
{
    struct side *s = ctx;

    s->n_messages++;
    s->last_len = len;
    s->first_byte = data[0];
    s->last_byte = data[len - 1];
    while (s->n_messages < s->wait_for)
        ck_assert_int_ne(channel_wait(c, 20000), UV_ETIMEDOUT);
}

static void on_end(void *ctx, struct channel *c, const struct err *why)
{
    struct side *s = ctx;

    s->n_ends++;
    s->end = *why;
}

static const struct channel_secret *find(void *ctx, const uint8_t id[CHANNEL_ID_BYTES],
                                         void **ret_ctx, struct err *why)
{
    if (secret_is_used || memcmp(id, secret.id, CHANNEL_ID_BYTES) != 0)
        return NULL;
    secret_is_used = 1;
    *ret_ctx = &supervisor;
    return &secret;
}

/* Carries the available bytes from one wire to the other. */
static void carry(int from, int to)
{
    static uint8_t bytes[1 << 16];
    const ssize_t n = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (n <= 0)
        return;
    if (flip_at >= n_carried && flip_at < n_carried + (uint64_t)n)
        bytes[flip_at - n_carried] ^= 0x10;
    if (memmem(bytes, (size_t)n, MARKER, strlen(MARKER)) != NULL)
        saw_marker = 1;
    n_carried += (uint64_t)n;
    for (ssize_t at = 0; at < n;) {
        const ssize_t sent = send(to, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);

        if (sent < 0 && errno == EAGAIN) {
            (void)uv_run(&loop, UV_RUN_NOWAIT);
            continue;
        }
        if (sent < 0)
            return; /* that side has closed its end */
        at += sent;
    }
}

static void turn(void)
{
    ck_assert_msg(!timed_out, "waited in vain");
    carry(node_wire, supervisor_wire);
    carry(supervisor_wire, node_wire);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

#define RUN_UNTIL(condition)                                                             \
    do {                                                                                 \
        while (!(condition))                                                             \
            turn();                                                                      \
    } while (0)

static void open_sides(const struct channel_secret *of_node,
                       const struct channel_options *o_node,
                       const struct channel_options *o)
{
    const struct channel_callbacks cb_node = {on_ready, on_message, on_end, &node};
    const struct channel_callbacks cb = {on_ready, on_message, on_end, &supervisor};
    int a[2], b[2];

    ck_assert_int_eq(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, a), 0);
    ck_assert_int_eq(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, b), 0);
    node_wire = a[1];
    supervisor_wire = b[1];
    ck_assert_int_eq(
        channel_open(&node.channel, &loop, a[0], of_node, o_node, &cb_node, NULL), 0);
    ck_assert_int_eq(
        channel_accept(&supervisor.channel, &loop, b[0], find, NULL, o, &cb, NULL), 0);
}

static void close_sides(void)
{
    channel_close(node.channel);
    channel_close(supervisor.channel);
    (void)close(node_wire);
    (void)close(supervisor_wire);
    node_wire = supervisor_wire = -1;
    node = supervisor = (struct side){0};
    secret_is_used = 0;
    n_carried = 0;
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static struct channel_options options(int encrypt)
{
    return (struct channel_options){.encrypt = encrypt, .max_bytes = 8u << 20};
}

static void open_ready(int encrypt)
{
    const struct channel_options o = options(encrypt);

    open_sides(&secret, &o, &o);
    RUN_UNTIL(node.n_ready == 1 && supervisor.n_ready == 1);
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_timer_init(&loop, &deadline), 0);
    ck_assert_int_eq(uv_timer_start(&deadline, on_deadline, 240000, 0), 0);
    uv_unref((uv_handle_t *)&deadline);
    channel_secret_make(&secret);
}

static void teardown(void)
{
    uv_close((uv_handle_t *)&deadline, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* ---- messages ---- */

static void exchange(struct side *from, struct side *to, size_t len)
{
    const int n = to->n_messages;
    uint8_t *data = malloc(len);

    memset(data, 7, len);
    data[0] = 1;
    data[len - 1] = 2;
    ck_assert_int_eq(channel_send(from->channel, data, len, NULL), 0);
    RUN_UNTIL(to->n_messages == n + 1);
    ck_assert_uint_eq(to->last_len, len);
    ck_assert(to->last_byte == 2 && (len == 1 || to->first_byte == 1));
    free(data);
}

START_TEST(messages_of_any_length_arrive_whole_in_both_directions)
{
    static const size_t lengths[] = {1, 2, 100, 65535, 65536, 65537, 131072, 3000000};

    open_ready(_i);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        exchange(&node, &supervisor, lengths[i]);
        exchange(&supervisor, &node, lengths[i]);
    }
    ck_assert_uint_gt(channel_bytes_sent(node.channel), 3000000);
    ck_assert_uint_eq(channel_bytes_sent(node.channel),
                      channel_bytes_received(supervisor.channel));
    close_sides();
}
END_TEST

START_TEST(two_parts_arrive_as_one_message)
{
    uint8_t big[70000] = {9};

    open_ready(_i);
    ck_assert_int_eq(channel_send2(node.channel, "head", 4, big, sizeof(big), NULL), 0);
    RUN_UNTIL(supervisor.n_messages == 1);
    ck_assert_uint_eq(supervisor.last_len, 4 + sizeof(big));
    ck_assert_int_eq(channel_send2(node.channel, "head", 4, NULL, 0, NULL), 0);
    RUN_UNTIL(supervisor.n_messages == 2);
    ck_assert_uint_eq(supervisor.last_len, 4);
    close_sides();
}
END_TEST

START_TEST(on_message_may_wait_for_the_next_message)
{
    open_ready(1);
    supervisor.wait_for = 2;
    ck_assert_int_eq(channel_send(node.channel, "first", 5, NULL), 0);
    ck_assert_int_eq(channel_send(node.channel, "second", 6, NULL), 0);
    carry(node_wire, supervisor_wire);
    RUN_UNTIL(supervisor.n_messages == 2);
    ck_assert_uint_eq(supervisor.last_len, 6);
    close_sides();
}
END_TEST

START_TEST(no_byte_of_a_message_is_readable_on_the_way_if_encrypted)
{
    saw_marker = 0;
    open_ready(_i);
    ck_assert_int_eq(channel_send(node.channel, MARKER, strlen(MARKER), NULL), 0);
    ck_assert_int_eq(channel_send(supervisor.channel, MARKER, strlen(MARKER), NULL), 0);
    RUN_UNTIL(node.n_messages == 1 && supervisor.n_messages == 1);
    ck_assert_int_eq(saw_marker, _i == 0);
    close_sides();
}
END_TEST

START_TEST(a_longer_message_than_allowed_ends_the_channel)
{
    uint8_t *big = calloc(1, (8u << 20) + 1);

    open_ready(1);
    ck_assert_int_eq(channel_send(node.channel, big, (8u << 20) + 1, NULL), 0);
    RUN_UNTIL(supervisor.n_ends == 1);
    ck_assert_int_eq(supervisor.end.code, ERR_LIMIT);
    ck_assert_int_eq(supervisor.n_messages, 0);
    close_sides();
    free(big);
}
END_TEST

START_TEST(a_message_that_does_not_fit_in_the_queue_ends_the_channel)
{
    uint8_t *big = calloc(1, CHANNEL_MAX_QUEUED_BYTES);

    open_ready(1);
    ck_assert_int_eq(
        channel_send2(node.channel, "x", 1, big, CHANNEL_MAX_QUEUED_BYTES, NULL),
        ERR_LIMIT);
    ck_assert_int_eq(channel_send(node.channel, "small", 5, NULL), ERR_STATE);
    ck_assert_int_eq(node.n_ends, 0);
    RUN_UNTIL(node.n_ends == 1);
    ck_assert_int_eq(node.end.code, ERR_LIMIT);
    close_sides();
    free(big);
}
END_TEST

/* Another process, which reads the node's bytes. */
static pid_t read_elsewhere(void)
{
    static uint8_t bytes[1 << 16];
    struct pollfd p = {.fd = node_wire, .events = POLLIN};
    const pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    while (pid == 0)
        if (poll(&p, 1, -1) == 1 &&
            recv(node_wire, bytes, sizeof(bytes), MSG_DONTWAIT) == 0)
            _exit(0);
    return pid;
}

START_TEST(a_sender_may_wait_for_its_queue)
{
    const size_t len = 3u << 20;
    uint8_t *big = calloc(1, len);
    pid_t reader;

    open_ready(_i);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(channel_send(node.channel, big, len, NULL), 0);
    ck_assert_uint_lt(channel_bytes_sent(node.channel), 2 * len);
    reader = read_elsewhere();
    ck_assert_int_eq(channel_drain(node.channel, 2 * len), 0);
    ck_assert_uint_gt(channel_bytes_sent(node.channel), 2 * len);
    ck_assert_int_eq(channel_drain(node.channel, 0), 0);
    ck_assert_uint_gt(channel_bytes_sent(node.channel), 4 * len);
    (void)signal_process(reader, SIGKILL);
    ck_assert_int_eq(waitpid(reader, NULL, 0), reader);
    close_sides();
    free(big);
}
END_TEST

START_TEST(a_sender_does_not_wait_for_a_silent_side)
{
    const size_t len = 3u << 20;
    struct channel_options o = options(1);
    uint8_t *big = calloc(1, len);

    o.silence_ms = 1000;
    open_sides(&secret, &o, &o);
    RUN_UNTIL(node.n_ready == 1 && supervisor.n_ready == 1);
    ck_assert_int_eq(channel_send(node.channel, big, len, NULL), 0);
    ck_assert_int_eq(channel_drain(node.channel, 0), UV_ECONNRESET);
    ck_assert_int_eq(node.n_ends, 1);
    ck_assert_int_eq(node.end.code, UV_ETIMEDOUT);
    ck_assert_int_eq(channel_drain(node.channel, 0), UV_ECONNRESET);
    close_sides();
    free(big);
}
END_TEST

/* ---- an attacker in between ---- */

/* Flips a bit in every step-th byte of the first `total` bytes, one at a time. */
static void flip_each(int encrypt, uint64_t total, uint64_t step)
{
    for (uint64_t at = 0; at < total; at += step) {
        const struct channel_options o = options(encrypt);

        flip_at = at;
        open_sides(&secret, &o, &o);
        for (int i = 0; i < 3; i++) {
            if (node.n_ready == 1 && node.n_ends == 0)
                (void)channel_send(node.channel, MARKER, strlen(MARKER), NULL);
            for (int k = 0; k < 4 && node.n_ends + supervisor.n_ends == 0; k++)
                turn();
        }
        /* in the length of a record: the channel still waits for the record's end */
        if (n_carried > at + 4) {
            for (int k = 0; k < 10; k++)
                turn();
            ck_assert_msg(node.n_ends + supervisor.n_ends > 0 ||
                              supervisor.n_messages < 3,
                          "byte %d", (int)at);
        }
        if (supervisor.n_messages > 0)
            ck_assert_uint_eq(supervisor.last_len, strlen(MARKER));
        flip_at = UINT64_MAX;
        close_sides();
    }
}

START_TEST(no_changed_byte_gets_through)
{
    flip_each(_i, 420, 1);
}
END_TEST

START_TEST(another_key_is_refused_by_both_sides)
{
    const struct channel_options o = options(1);
    struct channel_secret other = secret;

    other.key[0] ^= 1;
    open_sides(&other, &o, &o);
    RUN_UNTIL(node.n_ends == 1);
    ck_assert_int_eq(node.end.code, ERR_PROTOCOL);
    ck_assert_str_eq(node.end.msg, "the other side does not have this run's key");
    ck_assert_int_eq(supervisor.n_ready, 0);
    close_sides();
}
END_TEST

START_TEST(an_unknown_or_used_key_is_refused)
{
    const struct channel_options o = options(1);
    struct channel_secret other = secret;

    other.id[0] ^= 1;
    open_sides(&other, &o, &o);
    RUN_UNTIL(supervisor.n_ends == 1 && node.n_ends == 1);
    ck_assert_int_eq(supervisor.end.code, ERR_NOT_FOUND);
    ck_assert_int_eq(node.end.code, ERR_NOT_FOUND); /* it need not try again */
    close_sides();

    secret_is_used = 1;
    open_sides(&secret, &o, &o);
    RUN_UNTIL(supervisor.n_ends == 1 && node.n_ends == 1);
    ck_assert_int_eq(supervisor.end.code, ERR_NOT_FOUND);
    ck_assert_int_eq(node.end.code, ERR_NOT_FOUND);
    close_sides();
}
END_TEST

START_TEST(a_repeated_handshake_proves_nothing)
{
    const struct channel_options o = options(1);
    const struct channel_callbacks cb = {on_ready, on_message, on_end, &supervisor};
    uint8_t said[4096];
    size_t n_said = 0;
    ssize_t n;
    int b[2];

    /* records the bytes of a real node */
    open_sides(&secret, &o, &o);
    while (node.n_ready == 0) {
        n = recv(node_wire, said + n_said, sizeof(said) - n_said, MSG_DONTWAIT);
        if (n > 0) {
            ck_assert_int_eq(send(supervisor_wire, said + n_said, (size_t)n, 0), n);
            n_said += (size_t)n;
        }
        carry(supervisor_wire, node_wire);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert(!timed_out);
    }
    ck_assert_int_eq(supervisor.n_ready, 1);
    close_sides();

    /* sends them again, to a supervisor that would accept the key a second time */
    ck_assert_int_eq(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, b), 0);
    ck_assert_int_eq(
        channel_accept(&supervisor.channel, &loop, b[0], find, NULL, &o, &cb, NULL), 0);
    ck_assert_int_eq(send(b[1], said, n_said, 0), (ssize_t)n_said);
    supervisor_wire = b[1];
    RUN_UNTIL(supervisor.n_ends == 1);
    ck_assert_int_eq(supervisor.end.code, ERR_PROTOCOL);
    ck_assert_int_eq(supervisor.n_ready, 0);
    close_sides();
}
END_TEST

START_TEST(both_sides_must_agree_about_encryption)
{
    const struct channel_options plain = options(0), encrypted = options(1);

    open_sides(&secret, _i ? &plain : &encrypted, _i ? &encrypted : &plain);
    RUN_UNTIL(supervisor.n_ends == 1);
    ck_assert_int_eq(supervisor.end.code, ERR_PROTOCOL);
    close_sides();
}
END_TEST

/* ---- silence ---- */

START_TEST(a_side_that_hears_nothing_ends)
{
    struct channel_options o = options(1);

    o.silence_ms = 50;
    open_sides(&secret, &o, &o);
    RUN_UNTIL(node.n_ready == 1 && supervisor.n_ready == 1);
    /* from now on no bytes are carried */
    while (node.n_ends == 0 || supervisor.n_ends == 0) {
        (void)uv_run(&loop, UV_RUN_ONCE);
        ck_assert(!timed_out);
    }
    ck_assert(node.end.code == UV_ETIMEDOUT && supervisor.end.code == UV_ETIMEDOUT);
    close_sides();
}
END_TEST

START_TEST(heartbeats_are_not_the_rest_of_a_record_whose_length_was_changed)
{
    struct channel_options o = options(1);

    o.silence_ms = 300;
    open_sides(&secret, &o, &o);
    RUN_UNTIL(node.n_ready == 1 && supervisor.n_ready == 1);
    /* adds 4096 to the length of the next record, whichever side sends it */
    flip_at = n_carried + 1;
    RUN_UNTIL(node.n_ends + supervisor.n_ends > 0);
    flip_at = UINT64_MAX;
    ck_assert_int_eq(node.n_ends > 0 ? node.end.code : supervisor.end.code, UV_ETIMEDOUT);
    close_sides();
}
END_TEST

START_TEST(heartbeats_keep_an_idle_channel)
{
    struct channel_options o = options(1);
    uint64_t before;

    o.silence_ms = 6000;
    open_sides(&secret, &o, &o);
    RUN_UNTIL(node.n_ready == 1 && supervisor.n_ready == 1);
    before = channel_bytes_received(supervisor.channel);
    RUN_UNTIL(channel_bytes_received(supervisor.channel) >= before + 2 * 21);
    ck_assert(node.n_ends == 0 && supervisor.n_ends == 0 && supervisor.n_messages == 0);
    close_sides();
}
END_TEST

START_TEST(an_orderly_end_is_no_error)
{
    open_ready(1);
    ck_assert_int_eq(channel_send(node.channel, "last", 4, NULL), 0);
    carry(node_wire, supervisor_wire);
    (void)shutdown(supervisor_wire, SHUT_WR);
    RUN_UNTIL(supervisor.n_ends == 1);
    ck_assert_int_eq(supervisor.end.code, 0);
    ck_assert_int_eq(supervisor.n_messages, 1);
    ck_assert_int_eq(channel_send(supervisor.channel, "x", 1, NULL), ERR_STATE);
    close_sides();
}
END_TEST

/* ---- the listener ---- */

static size_t n_refused, n_reports;
static char refused[ERR_MSG_BYTES];

static void on_refused(void *ctx, const char *peer, const struct err *why, size_t n)
{
    ck_assert_int_eq(strncmp(peer, "127.0.0.", 8), 0);
    n_refused += n;
    n_reports++;
    (void)snprintf(refused, sizeof(refused), "%s", why->msg);
}

static struct listener *listen_at(const char *address, unsigned expected)
{
    const struct listener_options o = {.address = address,
                                       .expected = expected,
                                       .channel = options(1),
                                       .find = find,
                                       .callbacks = {on_ready, on_message, on_end, NULL},
                                       .on_refused = on_refused};
    struct listener *l = NULL;

    n_refused = n_reports = 0;
    ck_assert_int_eq(listener_open(&l, &loop, &o, NULL), 0);
    return l;
}

/* Connects from another address of this machine. Returns a descriptor. */
static int connect_from(const char *source, const struct listener *l)
{
    const char *port = strrchr(listener_address(l), ':') + 1;
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(inet_pton(AF_INET, source, &from.sin_addr), 1);
    ck_assert_int_eq(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
    to.sin_port = htons((uint16_t)atoi(port));
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static int is_open(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* n connections that say nothing, each of which the listener has seen before the next one
 * comes. */
static void flood(struct listener *l, const char *source, int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fds[i] = connect_from(source, l);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert(!timed_out);
    }
}

/* Closes what flood has opened. Returns how many the listener had not ended. */
static size_t end_flood(const int *fds, size_t n)
{
    size_t n_open = 0;

    for (size_t i = 0; i < n; i++) {
        n_open += is_open(fds[i]) != 0;
        (void)close(fds[i]);
    }
    return n_open;
}

static void run_loop_until_refused(size_t n)
{
    while (n_refused < n) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert(!timed_out);
    }
}

/* Begins to connect the node's channel. */
static void connect_node(const char *address)
{
    const struct channel_options o = options(1);
    const struct channel_callbacks cb = {on_ready, on_message, on_end, &node};
    struct addrinfo *to;
    int fd;

    ck_assert_int_eq(net_resolve(address, 0, &to, NULL), 0);
    fd = net_connect(to, NULL);
    freeaddrinfo(to);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(channel_open(&node.channel, &loop, fd, &secret, &o, &cb, NULL), 0);
}

/* A socket of this machine, bound and perhaps listening, and its address. */
static int bind_any(int listens, char ret[LISTENER_ADDRESS_BYTES])
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(inet_pton(AF_INET, "127.0.0.1", &at.sin_addr), 1);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    ck_assert(!listens || listen(fd, 0) == 0);
    (void)snprintf(ret, LISTENER_ADDRESS_BYTES, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static void on_turn(uv_timer_t *timer)
{
    ++*(int *)timer->data;
}

START_TEST(a_node_connects_to_the_address)
{
    struct listener *l = listen_at("127.0.0.1", 0);

    connect_node(listener_address(l));
    while (node.n_ready == 0 || supervisor.n_ready == 0) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert(!timed_out);
    }
    ck_assert_int_eq(channel_send(supervisor.channel, "hello", 5, NULL), 0);
    while (node.n_messages == 0) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert(!timed_out);
    }
    ck_assert_int_eq(n_refused, 0);
    listener_close(l);
    close_sides();
}
END_TEST

/* As when packets are dropped on the way: here the queue of connections is full. */
START_TEST(a_connection_that_is_not_answered_holds_up_nobody)
{
    enum { FILL = 4 }; /* more than such a queue holds */
    char address[LISTENER_ADDRESS_BYTES];
    const int deaf = bind_any(1, address);
    struct addrinfo *to;
    int fill[FILL], n_turns = 0;
    uv_timer_t turn;

    ck_assert_int_eq(net_resolve(address, 0, &to, NULL), 0);
    for (int i = 0; i < FILL; i++)
        ck_assert_int_ge(fill[i] = net_connect(to, NULL), 0);
    freeaddrinfo(to);
    connect_node(address);
    (void)uv_timer_init(&loop, &turn);
    turn.data = &n_turns;
    (void)uv_timer_start(&turn, on_turn, 1, 1);
    while (n_turns < 20) {
        (void)uv_run(&loop, UV_RUN_ONCE);
        ck_assert(!timed_out);
    }
    ck_assert_int_eq(node.n_ready + node.n_ends, 0);
    uv_close((uv_handle_t *)&turn, NULL);
    for (int i = 0; i < FILL; i++)
        (void)close(fill[i]);
    (void)close(deaf);
    close_sides();
}
END_TEST

START_TEST(a_connection_that_is_refused_ends_with_the_cause)
{
    char address[LISTENER_ADDRESS_BYTES];
    const int bound = bind_any(0, address);

    connect_node(address);
    while (node.n_ends == 0) {
        (void)uv_run(&loop, UV_RUN_ONCE);
        ck_assert(!timed_out);
    }
    ck_assert_int_eq(node.end.code, UV_ECONNREFUSED);
    ck_assert_str_eq(node.end.msg, "Connection refused");
    (void)close(bound);
    close_sides();
}
END_TEST

START_TEST(strangers_are_refused_with_a_reason)
{
    struct listener *l = listen_at("127.0.0.1:0", 0);
    static const char http[] =
        "GET / HTTP/1.1\r\nHost: a\r\nAccept: all that is longer than a hello\r\n\r\n";
    int fd = connect_from("127.0.0.1", l);

    ck_assert_int_gt(send(fd, http, sizeof(http) - 1, 0), 0);
    run_loop_until_refused(1);
    ck_assert_str_eq(refused, "it is no node of this version of brood");
    (void)close(fd);

    fd = connect_from("127.0.0.1", l);
    (void)close(fd);
    run_loop_until_refused(2);
    ck_assert_str_eq(refused, "it left before the handshake was over");
    listener_close(l);
}
END_TEST

START_TEST(strangers_are_dropped_early_and_reported_seldom)
{
    enum { N = 600 };
    static int fds[N];
    const unsigned expected = _i == 0 ? 0 : 24;
    struct listener *l = listen_at("127.0.0.1:0", expected);
    const uint64_t began = uv_now(&loop); /* as the timer of the reports sees it */
    size_t n_open;

    flood(l, "127.0.0.1", fds, LISTENER_DROP_FROM + expected);
    ck_assert_uint_eq(n_refused, 0);
    flood(l, "127.0.0.1", fds + LISTENER_DROP_FROM + expected,
          N - LISTENER_DROP_FROM - expected);
    ck_assert_str_eq(refused, "too many connections at once");
    ck_assert_uint_le(n_reports, (uv_now(&loop) - began) / LISTENER_REPORT_MS + 1);
    n_open = 0;
    for (size_t i = 0; i < N; i++)
        n_open += is_open(fds[i]) != 0;
    ck_assert_uint_ge(n_open, LISTENER_DROP_FROM + expected);
    ck_assert_uint_le(n_open, LISTENER_FULL + expected);
    /* Neither the first nor the last ones alone were kept. */
    ck_assert_uint_lt(end_flood(fds, N / 2), n_open);
    ck_assert_uint_lt(end_flood(fds + N / 2, N / 2), n_open);
    run_loop_until_refused(N);
    ck_assert_uint_le(n_reports, (uv_now(&loop) - began) / LISTENER_REPORT_MS + 1);
    listener_close(l);
}
END_TEST

/* One way through the network, then another: the node's id is known in between. */
START_TEST(a_node_that_has_shown_its_id_is_not_dropped)
{
    enum { N = 600 };
    static int fds[N];
    struct listener *l = listen_at("127.0.0.1:0", 0);
    const struct channel_options o = options(1);
    const struct channel_callbacks cb = {on_ready, on_message, on_end, &node};
    struct pollfd p;
    int a[2];

    ck_assert_int_eq(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, a), 0);
    ck_assert_int_eq(channel_open(&node.channel, &loop, a[0], &secret, &o, &cb, NULL), 0);
    node_wire = a[1];
    supervisor_wire = connect_from("127.0.0.1", l);
    while (n_carried == 0) {
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        carry(node_wire, supervisor_wire);
    }
    p = (struct pollfd){.fd = supervisor_wire, .events = POLLIN};
    while (poll(&p, 1, 0) == 0) { /* its answer waits on the way */
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert(!timed_out);
    }
    flood(l, "127.0.0.1", fds, N);
    ck_assert_uint_gt(n_refused, 0);
    RUN_UNTIL(node.n_ready == 1 && supervisor.n_ready == 1);
    (void)end_flood(fds, N);
    listener_close(l);
    close_sides();
}
END_TEST

START_TEST(a_flood_drops_itself)
{
    enum { N = 300 };
    static int fds[2 * N];
    struct listener *l = listen_at("127.0.0.1:0", 0);
    int late;

    flood(l, "127.0.0.2", fds, N);
    flood(l, "127.0.0.1", &late, 1);
    flood(l, "127.0.0.2", fds + N, N);
    ck_assert(is_open(late));
    ck_assert_uint_gt(end_flood(fds, 2 * N), 0);
    (void)close(late);
    listener_close(l);
}
END_TEST

static void limit_descriptors(rlim_t n)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = n;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The listener can take none of these, and then can again. */
START_TEST(a_lack_of_descriptors_passes)
{
    struct listener *l = listen_at("127.0.0.1:0", 0);
    int waiting = connect_from("127.0.0.1", l), full[64], n = 0;
    struct rlimit before;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit_descriptors(60);
    while (n < 64 && (full[n] = dup(waiting)) >= 0)
        n++;
    ck_assert_int_lt(n, 64);
    run_loop_until_refused(1);
    ck_assert_msg(strstr(refused, "no descriptor is left") != NULL, "%s", refused);
    while (n > 0)
        (void)close(full[--n]);
    ck_assert_int_eq(send(waiting, refused, 64, 0), 64);
    run_loop_until_refused(2);
    ck_assert_str_eq(refused, "it is no node of this version of brood");
    (void)close(waiting);
    listener_close(l);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}
END_TEST

START_TEST(addresses_that_are_none_are_named)
{
    static const struct {
        const char *address, *message;
    } cases[] = {
        {"", "'' is no address, expected HOST or HOST:PORT"},
        {"host:port", "'host:port' is no address, expected HOST or HOST:PORT"},
        {"host:123456789", "'host:123456789' is no address, expected HOST or HOST:PORT"},
        {"[::1", "'[::1' is no address"},
    };
    struct addrinfo *list;
    struct err err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(net_resolve(cases[i].address, 0, &list, &err), ERR_ARG);
        ck_assert_str_eq(err.msg, cases[i].message);
    }
    ck_assert_int_lt(net_listen("192.0.2.1:1", &err), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("secure_channel");
    TCase *tc = tcase_create("channel");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, messages_of_any_length_arrive_whole_in_both_directions, 0, 2);
    tcase_add_loop_test(tc, two_parts_arrive_as_one_message, 0, 2);
    tcase_add_test(tc, on_message_may_wait_for_the_next_message);
    tcase_add_loop_test(tc, no_byte_of_a_message_is_readable_on_the_way_if_encrypted, 0,
                        2);
    tcase_add_test(tc, a_longer_message_than_allowed_ends_the_channel);
    tcase_add_test(tc, a_message_that_does_not_fit_in_the_queue_ends_the_channel);
    tcase_add_loop_test(tc, a_sender_may_wait_for_its_queue, 0, 2);
    tcase_add_test(tc, a_sender_does_not_wait_for_a_silent_side);
    tcase_add_loop_test(tc, no_changed_byte_gets_through, 0, 2);
    tcase_add_test(tc, another_key_is_refused_by_both_sides);
    tcase_add_test(tc, an_unknown_or_used_key_is_refused);
    tcase_add_test(tc, a_repeated_handshake_proves_nothing);
    tcase_add_loop_test(tc, both_sides_must_agree_about_encryption, 0, 2);
    tcase_add_test(tc, a_side_that_hears_nothing_ends);
    tcase_add_test(tc, heartbeats_are_not_the_rest_of_a_record_whose_length_was_changed);
    tcase_add_test(tc, heartbeats_keep_an_idle_channel);
    tcase_add_test(tc, an_orderly_end_is_no_error);
    tcase_add_test(tc, a_node_connects_to_the_address);
    tcase_add_test(tc, a_connection_that_is_not_answered_holds_up_nobody);
    tcase_add_test(tc, a_connection_that_is_refused_ends_with_the_cause);
    tcase_add_test(tc, strangers_are_refused_with_a_reason);
    tcase_add_loop_test(tc, strangers_are_dropped_early_and_reported_seldom, 0, 2);
    tcase_add_test(tc, a_node_that_has_shown_its_id_is_not_dropped);
    tcase_add_test(tc, a_flood_drops_itself);
    tcase_add_test(tc, a_lack_of_descriptors_passes);
    tcase_add_test(tc, addresses_that_are_none_are_named);
    suite_add_tcase(s, tc);
    return s;
}

FORKING_TEST_MAIN(make_suite)
