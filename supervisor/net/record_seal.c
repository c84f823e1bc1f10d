#include "supervisor/net/record_seal.h"

#include "common/err/check.h"

#include <string.h>

#define MAC_BYTES 16u

void seal_hash(uint8_t ret[SEAL_PROOF_BYTES], const uint8_t key[SEAL_KEY_BYTES],
               const char *purpose, const void *transcript, size_t len)
{
    crypto_generichash_state h;

    (void)crypto_generichash_init(&h, key, SEAL_KEY_BYTES, SEAL_PROOF_BYTES);
    /* With its terminator: no purpose continues as a transcript. */
    (void)crypto_generichash_update(&h, (const uint8_t *)purpose, strlen(purpose) + 1);
    (void)crypto_generichash_update(&h, transcript, len);
    (void)crypto_generichash_final(&h, ret, SEAL_PROOF_BYTES);
}

void seal_begin(struct seal *s, const uint8_t key[SEAL_KEY_BYTES], int encrypt,
                uint8_t head[SEAL_HEAD_BYTES])
{
    *s = (struct seal){.encrypt = encrypt};
    memcpy(s->key, key, SEAL_KEY_BYTES);
    if (encrypt)
        (void)crypto_secretstream_xchacha20poly1305_init_push(&s->stream, head, key);
    else
        randombytes_buf(head, SEAL_HEAD_BYTES);
}

int seal_receive(struct seal *s, const uint8_t key[SEAL_KEY_BYTES], int encrypt,
                 const uint8_t head[SEAL_HEAD_BYTES], struct err *err)
{
    *s = (struct seal){.encrypt = encrypt};
    memcpy(s->key, key, SEAL_KEY_BYTES);
    if (encrypt &&
        crypto_secretstream_xchacha20poly1305_init_pull(&s->stream, head, key) != 0)
        return err_set(err, ERR_FORMAT, "no head of a stream");
    return 0;
}

/* Of the records that are not encrypted: Poly1305, keyed for this record by its number, as the
 * AEAD of RFC 8439 computes it for data that it does not encrypt. */
static void mac(const struct seal *s, uint8_t ret[MAC_BYTES], const uint8_t *data,
                size_t len)
{
    uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES] = {0}, nothing[1];

    memcpy(nonce, &s->n, sizeof(s->n));
    (void)crypto_aead_chacha20poly1305_ietf_encrypt_detached(
        nothing, ret, NULL, NULL, 0, data, len, NULL, nonce, s->key);
}

void seal_record(struct seal *s, uint8_t *ret, const void *data, size_t len, int is_last)
{
    if (s->encrypt) {
        const uint8_t tag = is_last ? crypto_secretstream_xchacha20poly1305_TAG_PUSH
                                    : crypto_secretstream_xchacha20poly1305_TAG_MESSAGE;

        (void)crypto_secretstream_xchacha20poly1305_push(&s->stream, ret, NULL, data, len,
                                                         NULL, 0, tag);
        return;
    }
    ret[0] = is_last != 0;
    if (len > 0)
        memcpy(ret + 1, data, len);
    mac(s, ret + 1 + len, ret, 1 + len);
    s->n++;
}

static int open_plain(struct seal *s, uint8_t *ret, const uint8_t *data, size_t len,
                      int *is_last)
{
    const size_t n = len - SEAL_EXTRA_BYTES;
    uint8_t want[MAC_BYTES];

    mac(s, want, data, 1 + n);
    if (sodium_memcmp(want, data + 1 + n, MAC_BYTES) != 0)
        return -1;
    s->n++;
    *is_last = data[0];
    if (n > 0)
        memcpy(ret, data + 1, n);
    return 0;
}

int seal_open(struct seal *s, uint8_t *ret, const uint8_t *data, size_t len, int *is_last,
              struct err *err)
{
    uint8_t tag = 0;
    int r;

    CHECK(len >= SEAL_EXTRA_BYTES);
    if (s->encrypt) {
        r = crypto_secretstream_xchacha20poly1305_pull(&s->stream, ret, NULL, &tag, data,
                                                       len, NULL, 0);
        *is_last = tag == crypto_secretstream_xchacha20poly1305_TAG_PUSH;
    } else {
        r = open_plain(s, ret, data, len, is_last);
    }
    if (r != 0)
        return err_set(err, ERR_CORRUPT, "a record is not the one that was sent");
    return 0;
}
