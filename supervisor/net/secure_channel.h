/* secure_channel.h - messages between two machines of a run over one TCP connection: each
 * side knows that the other one has the key, and nobody else reads or changes a byte.
 *
 * Key        32 random bytes, made for one start of one node, handed over on the launcher's
 *            standard input and used for one connection. No key is ever sent.
 * Handshake  1. node -> supervisor: CHANNEL_MAGIC, the key's id, a nonce (32 bytes)
 *            2. supervisor -> node: a nonce, and a keyed hash (BLAKE2b) of both
 *            3. node -> supervisor: a keyed hash of both, in the other direction's name
 *            A supervisor that knows no key of that id answers step 2 with zeros: an end
 *            without this answer says nothing about the key, and may be tried again.
 *            The keys of the two directions are hashes of the key and both nonces. So an old
 *            handshake proves nothing when it is repeated.
 * Records    a 4-byte little-endian length, then at most CHANNEL_RECORD_BYTES: with encryption
 *            libsodium's secretstream (XChaCha20-Poly1305), which also notices a record that is
 *            lost, repeated or moved; without it the bytes and Poly1305 of them, keyed for
 *            their number (16 bytes). A message is one or more records; an empty one is a
 *            heartbeat.
 * Bounds     before the handshake is over, one fixed buffer of CHANNEL_HANDSHAKE_BYTES a
 *            connection; afterwards a message grows with the bytes that came, up to max_bytes.
 * Silence    a side that sent nothing for a quarter of silence_ms sends a heartbeat. A side
 *            that received no whole record for silence_ms ends the channel with UV_ETIMEDOUT:
 *            slow processes are no silence, since the loops answer for them.
 * Sending    at once as far as the kernel takes it, otherwise queued in order; the queue is
 *            bounded by CHANNEL_MAX_QUEUED_BYTES. A message that does not fit ends the channel,
 *            so that none that follows seems to be whole without it.
 * Threads    loop thread only. No callback may run the loop.
 */
#ifndef SUPERVISOR_NET_SECURE_CHANNEL_H
#define SUPERVISOR_NET_SECURE_CHANNEL_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define CHANNEL_KEY_BYTES        32u
#define CHANNEL_ID_BYTES         16u /* the id of a key: public, random */
#define CHANNEL_HANDSHAKE_BYTES  128u
#define CHANNEL_HANDSHAKE_MS     10000u
#define CHANNEL_RECORD_BYTES     (64u << 10)
#define CHANNEL_MAX_QUEUED_BYTES ((size_t)256 << 20)

struct channel; /* opaque */

struct channel_secret {
    uint8_t id[CHANNEL_ID_BYTES];
    uint8_t key[CHANNEL_KEY_BYTES];
};

struct channel_options {
    int encrypt;         /* 0: records are authenticated only */
    uint64_t silence_ms; /* 0: neither heartbeats nor an end by silence */
    size_t max_bytes;    /* of a message received */
};

struct channel_callbacks {
    /* The handshake is over: the other side has the key. */
    void (*on_ready)(void *ctx, struct channel *c);
    /* One whole message, borrowed for the call. */
    void (*on_message)(void *ctx, struct channel *c, const uint8_t *data, size_t len);
    /* The channel ended: nothing more comes and nothing more can be sent. why->code is 0 at
     * an orderly end of the connection. Called once, not after channel_close. */
    void (*on_end)(void *ctx, struct channel *c, const struct err *why);
    void *ctx;
};

/* Makes random bytes (getrandom(2)). */
void channel_secret_make(struct channel_secret *ret);

/* The node's side of a socket that is connected, or about to be (net_connect), for which there is
 * CHANNEL_HANDSHAKE_MS, too: begins the handshake. Takes the descriptor, also on failure. on_end
 * before on_ready has ERR_NOT_FOUND if the supervisor refused the key. */
int channel_open(struct channel **ret, uv_loop_t *loop, int fd,
                 const struct channel_secret *secret, const struct channel_options *o,
                 const struct channel_callbacks *cb, struct err *err);

/* The supervisor's side. find: the secret with this id, and *ret_ctx for the callbacks of the
 * channel that has it, or NULL: refused, with the reason in *why if there is more to say than
 * that nobody has this key. It is called once a connection; a secret that must not be used
 * twice is no longer found the second time. */
typedef const struct channel_secret *(*channel_find_fn)(
    void *find_ctx, const uint8_t id[CHANNEL_ID_BYTES], void **ret_ctx, struct err *why);
int channel_accept(struct channel **ret, uv_loop_t *loop, int fd, channel_find_fn find,
                   void *find_ctx, const struct channel_options *o,
                   const struct channel_callbacks *cb, struct err *err);

/* Later callbacks are these; also from within a callback. */
void channel_hand_over(struct channel *c, const struct channel_callbacks *cb);

/* Sends one message, borrowed for the call. ERR_STATE: the channel has not begun or has ended;
 * ERR_LIMIT: the other side does not read, and the channel ends by this: later messages get
 * ERR_STATE, and on_end comes from the loop. */
int channel_send(struct channel *c, const void *data, size_t len, struct err *err);
/* Sends a message in two parts, of which a large one is not copied. */
int channel_send2(struct channel *c, const void *head, size_t head_len, const void *data,
                  size_t len, struct err *err);
/* Between hold and release, messages only join the queue: they are written together. Nothing else
 * may be done with the channel meanwhile. */
void channel_hold(struct channel *c);
void channel_release(struct channel *c);
/* Waits at most timeout_ms for bytes to come or go and delivers what is whole. Returns 0,
 * UV_ETIMEDOUT, or UV_ECONNRESET once it ended (on_end was called). For a caller that cannot go
 * on without an answer; also from within on_message, which is then called again before it
 * returned, and keeps what it cannot handle now. */
int channel_wait(struct channel *c, uint64_t timeout_ms);
/* Waits until at most max_bytes are queued, as long as the channel is not silent; delivers
 * meanwhile as channel_wait does. For a sender of more than the queue holds. Returns 0, or
 * UV_ECONNRESET once the channel ended. */
int channel_drain(struct channel *c, size_t max_bytes);
/* Closes the socket; no callback comes any more; frees the channel when the loop has let go of
 * it. NULL is fine. */
void channel_close(struct channel *c);

uint64_t channel_bytes_sent(const struct channel *c);
/* Of the handshake and of whole records: it grows only by what the other side has sealed. */
uint64_t channel_bytes_received(const struct channel *c);

#endif
