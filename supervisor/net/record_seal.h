/* record_seal.h - the cryptography of secure_channel.h: proofs of the handshake, and records
 * that are sealed by one side and opened by the other. No I/O.
 *
 * libsodium does the work: keyed BLAKE2b (RFC 7693) for proofs and keys; its secretstream,
 * XChaCha20-Poly1305 with a counter, for encrypted records; the Poly1305 of RFC 8439 for others.
 */
#ifndef SUPERVISOR_NET_RECORD_SEAL_H
#define SUPERVISOR_NET_RECORD_SEAL_H

#include "common/err/err.h"

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

#define SEAL_KEY_BYTES   32u
#define SEAL_NONCE_BYTES 32u
#define SEAL_PROOF_BYTES 32u
#define SEAL_EXTRA_BYTES 17u /* what a sealed record has beyond its data */
#define SEAL_HEAD_BYTES  crypto_secretstream_xchacha20poly1305_HEADERBYTES

/* A hash of the transcript by the key, in one direction's name ("node", "supervisor"). Proof
 * that its maker has the key, and the key of that direction's records. */
void seal_hash(uint8_t ret[SEAL_PROOF_BYTES], const uint8_t key[SEAL_KEY_BYTES],
               const char *purpose, const void *transcript, size_t len);

/* One direction of records. */
struct seal {
    int encrypt;
    uint64_t n;                  /* records so far; the nonce of those not encrypted */
    uint8_t key[SEAL_KEY_BYTES]; /* not encrypted */
    crypto_secretstream_xchacha20poly1305_state stream; /* encrypted */
};

/* The sending side; head: for the other side, random. */
void seal_begin(struct seal *s, const uint8_t key[SEAL_KEY_BYTES], int encrypt,
                uint8_t head[SEAL_HEAD_BYTES]);
/* The receiving side. ERR_FORMAT: no such head. */
int seal_receive(struct seal *s, const uint8_t key[SEAL_KEY_BYTES], int encrypt,
                 const uint8_t head[SEAL_HEAD_BYTES], struct err *err);

/* Seals len bytes into ret, which has room for SEAL_EXTRA_BYTES more. is_last: of a message. */
void seal_record(struct seal *s, uint8_t *ret, const void *data, size_t len, int is_last);
/* Opens a sealed record of len bytes, at least SEAL_EXTRA_BYTES, into ret, which has room for
 * len - SEAL_EXTRA_BYTES and does not overlap. ERR_CORRUPT: it is not the next one that the
 * other side sealed. */
int seal_open(struct seal *s, uint8_t *ret, const uint8_t *data, size_t len, int *is_last,
              struct err *err);

#endif
