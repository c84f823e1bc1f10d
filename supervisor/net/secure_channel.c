#include "supervisor/net/secure_channel.h"

#include "common/err/check.h"
#include "common/io/monotonic.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/net/record_seal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint8_t magic[8] = {'b', 'r', 'o', 'o', 'd', '-', 1, '\n'};

#define LENGTH_BYTES 4u
#define RECORD_MAX   (CHANNEL_RECORD_BYTES + SEAL_EXTRA_BYTES)
/* One burst of reading, after which the loop's other handles get their turn. */
#define READ_MAX     (1u << 20)
#define ROOM_MIN     4096u
#define QUEUE_KEEP   (1u << 20) /* an empty queue's memory beyond this is freed */
#define JOINED_BYTES 4096u      /* a shorter message of two parts is one record */
#define DRAIN_MS     100u       /* between two looks at the silence */

/* The first message of the handshake, and what both proofs are of. */
struct hello {
    uint8_t magic[sizeof(magic)];
    uint8_t encrypt;
    uint8_t id[CHANNEL_ID_BYTES];
    uint8_t nonce[SEAL_NONCE_BYTES];
};
struct transcript {
    struct hello hello;
    uint8_t nonce[SEAL_NONCE_BYTES]; /* the supervisor's */
};
struct reply {
    uint8_t nonce[SEAL_NONCE_BYTES];
    uint8_t proof[SEAL_PROOF_BYTES];
};
struct confirmation {
    uint8_t proof[SEAL_PROOF_BYTES];
    uint8_t head[SEAL_HEAD_BYTES];
};

enum state {
    WAITS_FOR_HELLO, /* supervisor */
    WAITS_FOR_REPLY, /* node */
    WAITS_FOR_PROOF, /* supervisor */
    WAITS_FOR_HEAD,  /* node: of the supervisor's records */
    READY,
    ENDED,
};

struct channel {
    uv_loop_t *loop;
    uv_poll_t poll;
    uv_timer_t timer; /* the handshake's deadline, then heartbeats and silence */
    int fd;
    int open_handles, closing;
    enum state state;
    struct channel_options o;
    struct channel_callbacks cb;
    channel_find_fn find;
    void *find_ctx;
    struct channel_secret secret; /* cleared after the handshake */
    struct transcript transcript;
    uint8_t handshake[CHANNEL_HANDSHAKE_BYTES];
    size_t handshake_len;
    struct seal sends, receives;
    uint64_t sent_at, received_at; /* ms */
    uint64_t bytes_sent, bytes_received;

    uint8_t
        *in; /* NULL during the handshake; one record, perhaps the beginning of more */
    size_t in_start, in_len;
    uint8_t *message; /* as far as it came */
    size_t message_len, message_cap;
    int watched;  /* events that the loop waits for */
    int is_held;  /* what is sent only joins the queue */
    int is_full;  /* a message did not fit in the queue: nothing is sent after it */
    uint8_t *out; /* queued: out_len bytes from out_start on */
    size_t out_start, out_len, out_cap;
};

_Static_assert(sizeof(struct hello) <= CHANNEL_HANDSHAKE_BYTES, "bounded");
_Static_assert(sizeof(struct confirmation) <= CHANNEL_HANDSHAKE_BYTES, "bounded");
_Static_assert(sizeof(struct hello) == 8 + 1 + CHANNEL_ID_BYTES + SEAL_NONCE_BYTES,
               "packed");

void channel_secret_make(struct channel_secret *ret)
{
    randombytes_buf(ret, sizeof(*ret));
}

static void end(struct channel *c, const struct err *why)
{
    if (c->state == ENDED || c->closing)
        return;
    c->state = ENDED;
    (void)uv_poll_stop(&c->poll);
    c->watched = 0;
    (void)uv_timer_stop(&c->timer);
    c->cb.on_end(c->cb.ctx, c, why);
}

static void end_with(struct channel *c, int code, const char *text)
{
    struct err why = {0};

    (void)err_set(&why, code, "%s", text);
    end(c, &why);
}

/* ---- writing ---- */

static void on_poll(uv_poll_t *poll, int status, int events);

/* uv_poll_start makes two system calls, also if nothing changes. */
static void watch(struct channel *c)
{
    const int events = UV_READABLE | (c->out_len > 0 ? UV_WRITABLE : 0);

    if (c->state == ENDED || c->closing || events == c->watched)
        return;
    c->watched = events;
    (void)uv_poll_start(&c->poll, events, on_poll);
}

/* Returns 0, also if the kernel takes no more for now; -errno. */
static int flush(struct channel *c)
{
    while (c->out_len > 0) {
        const ssize_t n =
            send(c->fd, c->out + c->out_start, c->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
        c->out_start += (size_t)n;
        c->out_len -= (size_t)n;
        c->bytes_sent += (uint64_t)n;
        c->sent_at = (uint64_t)monotonic_ms();
    }
    c->out_start = 0;
    if (c->out_cap > QUEUE_KEEP) {
        free(c->out);
        c->out = NULL;
        c->out_cap = 0;
    }
    return 0;
}

/* Room for len more bytes at the end of the queue. */
static uint8_t *queue_room(struct channel *c, size_t len)
{
    if (c->out_start > 0 && c->out_start + c->out_len + len > c->out_cap) {
        memmove(c->out, c->out + c->out_start, c->out_len);
        c->out_start = 0;
    }
    if (c->out_len + len > c->out_cap) {
        c->out_cap = (c->out_len + len) * 2;
        c->out = xrealloc(c->out, c->out_cap);
    }
    return c->out + c->out_start + c->out_len;
}

static void queue_bytes(struct channel *c, const void *data, size_t len)
{
    memcpy(queue_room(c, len), data, len);
    c->out_len += len;
}

static void queue_record(struct channel *c, const uint8_t *data, size_t len, int is_last)
{
    uint8_t *room = queue_room(c, LENGTH_BYTES + len + SEAL_EXTRA_BYTES);

    for (size_t i = 0; i < LENGTH_BYTES; i++)
        room[i] = (uint8_t)((len + SEAL_EXTRA_BYTES) >> (8 * i));
    seal_record(&c->sends, room + LENGTH_BYTES, data, len, is_last);
    c->out_len += LENGTH_BYTES + len + SEAL_EXTRA_BYTES;
}

static void queue_records(struct channel *c, const uint8_t *data, size_t len, int is_last)
{
    while (len > CHANNEL_RECORD_BYTES) {
        queue_record(c, data, CHANNEL_RECORD_BYTES, 0);
        data += CHANNEL_RECORD_BYTES;
        len -= CHANNEL_RECORD_BYTES;
    }
    queue_record(c, data, len, is_last);
}

/* A failed write is reported from the loop: the caller may be in the midst of something. */
static void push(struct channel *c)
{
    if (flush(c) < 0)
        (void)shutdown(c->fd, SHUT_RDWR);
    watch(c);
}

int channel_send2(struct channel *c, const void *head, size_t head_len, const void *data,
                  size_t len, struct err *err)
{
    uint8_t joined[JOINED_BYTES];

    CHECK(head_len + len > 0, "an empty message is a heartbeat");
    if (c->state != READY || c->closing || c->is_full)
        return err_set(err, ERR_STATE, "the connection is not open");
    if (c->out_len >= CHANNEL_MAX_QUEUED_BYTES ||
        head_len + len > CHANNEL_MAX_QUEUED_BYTES - c->out_len) {
        c->is_full = 1;
        (void)shutdown(c->fd, SHUT_RDWR); /* on_end follows, from the loop */
        return err_set(err, ERR_LIMIT, "the other side has %zu unread bytes already",
                       c->out_len);
    }
    if (len == 0) {
        queue_records(c, head, head_len, 1);
    } else if (head_len + len <= JOINED_BYTES) {
        memcpy(joined, head, head_len);
        memcpy(joined + head_len, data, len);
        queue_record(c, joined, head_len + len, 1);
    } else {
        if (head_len > 0)
            queue_records(c, head, head_len, 0);
        queue_records(c, data, len, 1);
    }
    if (!c->is_held)
        push(c);
    return 0;
}

void channel_hold(struct channel *c)
{
    c->is_held = 1;
}

void channel_release(struct channel *c)
{
    c->is_held = 0;
    if (c->out_len > 0 && c->state == READY && !c->closing)
        push(c);
}

int channel_send(struct channel *c, const void *data, size_t len, struct err *err)
{
    return channel_send2(c, data, len, NULL, 0, err);
}

/* ---- the handshake ---- */

static void seal_keys(struct channel *c, int is_node, uint8_t send_head[SEAL_HEAD_BYTES],
                      uint8_t ret_receive[SEAL_KEY_BYTES])
{
    uint8_t up[SEAL_KEY_BYTES], down[SEAL_KEY_BYTES];

    seal_hash(up, c->secret.key, "brood records of the node", &c->transcript,
              sizeof(c->transcript));
    seal_hash(down, c->secret.key, "brood records of the supervisor", &c->transcript,
              sizeof(c->transcript));
    seal_begin(&c->sends, is_node ? up : down, c->o.encrypt, send_head);
    memcpy(ret_receive, is_node ? down : up, SEAL_KEY_BYTES);
    sodium_memzero(up, sizeof(up));
    sodium_memzero(down, sizeof(down));
}

static void prove(const struct channel *c, const char *who, uint8_t ret[SEAL_PROOF_BYTES])
{
    seal_hash(ret, c->secret.key, who, &c->transcript, sizeof(c->transcript));
}

static int is_proof(const struct channel *c, const char *who,
                    const uint8_t proof[SEAL_PROOF_BYTES])
{
    uint8_t want[SEAL_PROOF_BYTES];

    prove(c, who, want);
    return sodium_memcmp(want, proof, sizeof(want)) == 0;
}

#define NODE_PROOF       "brood node"
#define SUPERVISOR_PROOF "brood supervisor"

static void on_timer(uv_timer_t *timer);

static void begin_records(struct channel *c, const uint8_t key[SEAL_KEY_BYTES],
                          const uint8_t head[SEAL_HEAD_BYTES])
{
    struct err err = {0};

    if (seal_receive(&c->receives, key, c->o.encrypt, head, &err) < 0) {
        end(c, &err);
        return;
    }
    sodium_memzero(&c->secret, sizeof(c->secret));
    c->in = xmalloc(LENGTH_BYTES + RECORD_MAX);
    c->state = READY;
    (void)uv_timer_stop(&c->timer);
    if (c->o.silence_ms > 0) {
        const uint64_t beat = c->o.silence_ms / 4 > 0 ? c->o.silence_ms / 4 : 1;

        (void)uv_timer_start(&c->timer, on_timer, beat, beat);
    }
    c->cb.on_ready(c->cb.ctx, c);
}

/* So the node knows that another try would be in vain. */
static void refuse_key(struct channel *c, const struct err *why)
{
    const struct reply none = {0};

    queue_bytes(c, &none, sizeof(none));
    (void)flush(c);
    end(c, why);
}

static void on_hello(struct channel *c)
{
    const struct channel_secret *secret = NULL;
    struct err why = {0};
    struct reply reply;
    struct hello *hello = &c->transcript.hello;

    memcpy(hello, c->handshake, sizeof(*hello));
    if (memcmp(hello->magic, magic, sizeof(magic)) != 0) {
        end_with(c, ERR_PROTOCOL, "it is no node of this version of brood");
        return;
    }
    secret = c->find(c->find_ctx, hello->id, &c->cb.ctx, &why);
    if (secret == NULL) {
        if (why.code == 0)
            (void)err_set(&why, ERR_NOT_FOUND,
                          "it has no key of this run, or one that was used before");
        refuse_key(c, &why);
        return;
    }
    if (hello->encrypt != (c->o.encrypt != 0)) {
        (void)err_set(&why, ERR_PROTOCOL, "it has another setting of cluster.encrypt");
        refuse_key(c, &why);
        return;
    }
    c->secret = *secret;
    randombytes_buf(reply.nonce, sizeof(reply.nonce));
    memcpy(c->transcript.nonce, reply.nonce, sizeof(reply.nonce));
    prove(c, SUPERVISOR_PROOF, reply.proof);
    queue_bytes(c, &reply, sizeof(reply));
    c->state = WAITS_FOR_PROOF;
    push(c);
}

/* The node keeps the key of what it will receive in the place of the secret. */
static void on_reply(struct channel *c)
{
    struct confirmation confirmation;
    uint8_t receive_key[SEAL_KEY_BYTES];
    struct reply reply;

    memcpy(&reply, c->handshake, sizeof(reply));
    memcpy(c->transcript.nonce, reply.nonce, sizeof(reply.nonce));
    if (sodium_is_zero((const uint8_t *)&reply, sizeof(reply))) {
        end_with(c, ERR_NOT_FOUND, "the other side refused the key");
        return;
    }
    if (!is_proof(c, SUPERVISOR_PROOF, reply.proof)) {
        end_with(c, ERR_PROTOCOL, "the other side does not have this run's key");
        return;
    }
    prove(c, NODE_PROOF, confirmation.proof);
    seal_keys(c, 1, confirmation.head, receive_key);
    memcpy(c->secret.key, receive_key, sizeof(receive_key));
    queue_bytes(c, &confirmation, sizeof(confirmation));
    c->state = WAITS_FOR_HEAD;
    push(c);
}

static void on_proof(struct channel *c)
{
    struct confirmation confirmation;
    uint8_t head[SEAL_HEAD_BYTES], receive_key[SEAL_KEY_BYTES];

    memcpy(&confirmation, c->handshake, sizeof(confirmation));
    if (!is_proof(c, NODE_PROOF, confirmation.proof)) {
        end_with(c, ERR_PROTOCOL, "it does not have this run's key");
        return;
    }
    seal_keys(c, 0, head, receive_key);
    queue_bytes(c, head, sizeof(head));
    push(c);
    begin_records(c, receive_key, confirmation.head);
}

static void on_head(struct channel *c)
{
    begin_records(c, c->secret.key, c->handshake);
}

/* How many bytes a state of the handshake waits for, and what takes them. */
static const struct {
    size_t bytes;
    void (*take)(struct channel *c);
} handshake[ENDED + 1] = {
    [WAITS_FOR_HELLO] = {sizeof(struct hello), on_hello},
    [WAITS_FOR_REPLY] = {sizeof(struct reply), on_reply},
    [WAITS_FOR_PROOF] = {sizeof(struct confirmation), on_proof},
    [WAITS_FOR_HEAD] = {SEAL_HEAD_BYTES, on_head},
};

/* ---- reading ---- */

static int message_reserve(struct channel *c, size_t len, struct err *err)
{
    const size_t need = c->message_len + len, max = c->o.max_bytes;
    size_t cap;
    uint8_t *more;

    if (need > max)
        return err_set(err, ERR_LIMIT, "a message is longer than %zu bytes", max);
    if (need <= c->message_cap)
        return 0;
    cap = need < ROOM_MIN ? ROOM_MIN : need > max / 2 ? max : need * 2;
    more = realloc(c->message, cap);
    if (more == NULL)
        return err_set(err, ERR_NOMEM, "no memory for a message of %zu bytes", need);
    c->message = more;
    c->message_cap = cap;
    return 0;
}

/* Lends the message out: on_message may wait for others meanwhile. */
static void deliver(struct channel *c)
{
    uint8_t *message = c->message;
    const size_t len = c->message_len, cap = c->message_cap;

    c->message = NULL;
    c->message_len = c->message_cap = 0;
    c->cb.on_message(c->cb.ctx, c, message, len);
    if (c->message == NULL && cap <= QUEUE_KEEP) {
        c->message = message;
        c->message_cap = cap;
    } else {
        free(message);
    }
}

static void heard(struct channel *c, size_t n)
{
    c->bytes_received += n;
    c->received_at = (uint64_t)monotonic_ms();
}

/* Returns 1: there was a whole record; 0: not yet. A length is sealed only together with its
 * record: if it was changed on the way, heartbeats would seem to be the rest of it for long. So
 * only whole records end a silence. */
static int next_record(struct channel *c)
{
    const uint8_t *data = c->in + c->in_start;
    struct cursor length = cursor_of(data, LENGTH_BYTES);
    struct err err = {0};
    int is_last = 0;
    size_t len;

    if (c->in_len < LENGTH_BYTES)
        return 0;
    len = cursor_u32(&length);
    if (len < SEAL_EXTRA_BYTES || len > RECORD_MAX) {
        end_with(c, ERR_CORRUPT, "a record has an impossible length");
        return 0;
    }
    if (c->in_len < LENGTH_BYTES + len)
        return 0;
    if (message_reserve(c, len - SEAL_EXTRA_BYTES, &err) < 0 ||
        seal_open(&c->receives, c->message == NULL ? NULL : c->message + c->message_len,
                  data + LENGTH_BYTES, len, &is_last, &err) < 0) {
        end(c, &err);
        return 0;
    }
    heard(c, LENGTH_BYTES + len);
    c->in_start += LENGTH_BYTES + len;
    c->in_len -= LENGTH_BYTES + len;
    c->message_len += len - SEAL_EXTRA_BYTES;
    if (is_last && c->message_len > 0)
        deliver(c);
    return 1;
}

static void took(struct channel *c, size_t n)
{
    if (c->state == READY) {
        c->in_len += n;
        while (c->state == READY && !c->closing && next_record(c))
            ;
        return;
    }
    heard(c, n);
    c->handshake_len += n;
    if (c->handshake_len == handshake[c->state].bytes) {
        c->handshake_len = 0;
        handshake[c->state].take(c);
    }
}

/* Where the next bytes go: during the handshake no more than its present step needs. */
static uint8_t *room(struct channel *c, size_t *ret_size)
{
    if (c->state != READY) {
        *ret_size = handshake[c->state].bytes - c->handshake_len;
        return c->handshake + c->handshake_len;
    }
    if (c->in_start > 0) {
        memmove(c->in, c->in + c->in_start, c->in_len);
        c->in_start = 0;
    }
    *ret_size = LENGTH_BYTES + RECORD_MAX - c->in_len;
    return c->in + c->in_len;
}

static void read_some(struct channel *c)
{
    size_t total = 0, size;

    while (c->state != ENDED && !c->closing && total < READ_MAX) {
        uint8_t *to = room(c, &size);
        const ssize_t n = recv(c->fd, to, size, MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0) {
            end_with(c, -errno, strerror(errno));
        } else if (n == 0 && c->is_full) {
            end_with(c, ERR_LIMIT, "the other side does not read what is sent to it");
        } else if (n == 0) {
            const struct err none = {0};

            end(c, &none);
        } else {
            total += (size_t)n;
            took(c, (size_t)n);
            if ((size_t)n < size) /* there was no more: the loop tells when there is */
                return;
        }
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct channel *c = poll->data;
    int r;

    /* libuv reports an error of the socket, such as a reset, as UV_EBADF: reading tells. */
    r = status >= 0 && events & UV_WRITABLE ? flush(c) : 0;
    /* What came before a failed write is still delivered. */
    read_some(c);
    if (r < 0)
        end_with(c, r, err_text(r));
    else if (status < 0)
        end_with(c, UV_ECONNRESET, uv_strerror(UV_ECONNRESET));
    watch(c);
}

/* ---- silence ---- */

static void end_if_silent(struct channel *c)
{
    if (c->o.silence_ms == 0)
        return;
    /* This process may have been stopped: what came meanwhile counts. */
    if ((uint64_t)monotonic_ms() - c->received_at > c->o.silence_ms)
        read_some(c);
    if (c->state == READY && !c->closing &&
        (uint64_t)monotonic_ms() - c->received_at > c->o.silence_ms)
        end_with(c, UV_ETIMEDOUT, "it was silent for too long");
}

static void on_timer(uv_timer_t *timer)
{
    struct channel *c = timer->data;

    if (c->state != READY) {
        end_with(c, UV_ETIMEDOUT, "it did not finish the handshake in time");
        return;
    }
    end_if_silent(c);
    if (c->state == READY && !c->closing && c->out_len == 0 &&
        (uint64_t)monotonic_ms() - c->sent_at >= c->o.silence_ms / 4) {
        queue_record(c, NULL, 0, 1);
        push(c);
    }
}

/* ---- waiting ---- */

int channel_wait(struct channel *c, uint64_t timeout_ms)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    int r;

    if (c->state == ENDED || c->closing)
        return UV_ECONNRESET;
    /* A record that came together with the one that is being handled. */
    if (c->state == READY && next_record(c) > 0)
        return 0;
    if (c->state == ENDED || c->closing)
        return UV_ECONNRESET;
    if (c->out_len > 0)
        p.events |= POLLOUT;
    r = poll(&p, 1, timeout_ms > 1000 ? 1000 : (int)timeout_ms);
    if (r == 0)
        return timeout_ms > 1000 ? 0 : UV_ETIMEDOUT;
    if (r > 0)
        on_poll(&c->poll, 0,
                p.revents & POLLOUT ? UV_READABLE | UV_WRITABLE : UV_READABLE);
    return c->state == ENDED || c->closing ? UV_ECONNRESET : 0;
}

int channel_drain(struct channel *c, size_t max_bytes)
{
    while (c->state == READY && !c->closing && c->out_len > max_bytes) {
        (void)channel_wait(c, DRAIN_MS);
        end_if_silent(c);
    }
    return c->state == READY && !c->closing ? 0 : UV_ECONNRESET;
}

/* ---- opening and closing ---- */

static int make(struct channel **ret, uv_loop_t *loop, int fd, enum state state,
                const struct channel_options *o, const struct channel_callbacks *cb,
                struct err *err)
{
    const int one = 1;
    struct channel *c;
    int r;

    if (sodium_init() < 0) {
        (void)close(fd);
        return err_set(err, ERR_IO, "libsodium has no random bytes");
    }
    c = xcalloc(1, sizeof(*c));
    *c = (struct channel){.loop = loop, .fd = fd, .state = state, .o = *o, .cb = *cb};
    c->sent_at = c->received_at = (uint64_t)monotonic_ms();
    /* Frames are small and answered: none waits for another to share its packet. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    r = uv_poll_init(loop, &c->poll, fd);
    if (r < 0) {
        (void)close(fd);
        free(c);
        return err_set(err, r, "watching a connection: %s", uv_strerror(r));
    }
    (void)uv_timer_init(loop, &c->timer);
    c->open_handles = 2;
    c->poll.data = c->timer.data = c;
    (void)uv_timer_start(&c->timer, on_timer, CHANNEL_HANDSHAKE_MS, 0);
    *ret = c;
    return 0;
}

int channel_open(struct channel **ret, uv_loop_t *loop, int fd,
                 const struct channel_secret *secret, const struct channel_options *o,
                 const struct channel_callbacks *cb, struct err *err)
{
    const int r = make(ret, loop, fd, WAITS_FOR_REPLY, o, cb, err);
    struct hello *hello;

    if (r < 0)
        return r;
    (*ret)->secret = *secret;
    hello = &(*ret)->transcript.hello;
    memcpy(hello->magic, magic, sizeof(magic));
    hello->encrypt = o->encrypt != 0;
    memcpy(hello->id, secret->id, sizeof(hello->id));
    randombytes_buf(hello->nonce, sizeof(hello->nonce));
    queue_bytes(*ret, hello, sizeof(*hello));
    watch(*ret); /* it may not be connected yet */
    return 0;
}

int channel_accept(struct channel **ret, uv_loop_t *loop, int fd, channel_find_fn find,
                   void *find_ctx, const struct channel_options *o,
                   const struct channel_callbacks *cb, struct err *err)
{
    const int r = make(ret, loop, fd, WAITS_FOR_HELLO, o, cb, err);

    if (r < 0)
        return r;
    (*ret)->find = find;
    (*ret)->find_ctx = find_ctx;
    watch(*ret);
    return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
    struct channel *c = h->data;

    if (--c->open_handles > 0)
        return;
    free(c->in);
    free(c->message);
    free(c->out);
    sodium_memzero(c, sizeof(*c));
    free(c);
}

void channel_close(struct channel *c)
{
    if (c == NULL || c->closing)
        return;
    c->closing = 1;
    uv_close((uv_handle_t *)&c->poll, on_handle_closed);
    uv_close((uv_handle_t *)&c->timer, on_handle_closed);
    (void)close(c->fd);
}

void channel_hand_over(struct channel *c, const struct channel_callbacks *cb)
{
    c->cb = *cb;
}

uint64_t channel_bytes_sent(const struct channel *c)
{
    return c->bytes_sent;
}

uint64_t channel_bytes_received(const struct channel *c)
{
    return c->bytes_received;
}
