/* replay.h - what is needed to restore a dead agent: its newest snapshot, and every writing
 * request since, in order.
 *
 * A request is kept as the frame that was sent, with a digest of its response. The list is
 * cut only when a newer snapshot is complete. A snapshot is taken when copying costs under
 * 1 % of the time since the last one, and always before the list would exceed
 * REPLAY_MAX_BYTES or max_requests; with due_after, when the list has that many requests, whatever
 * copying costs. One earlier snapshot can be kept beside it: there are two buffers.
 * Units  times in nanoseconds of uv_hrtime.
 */
#ifndef SUPERVISOR_PROC_REPLAY_H
#define SUPERVISOR_PROC_REPLAY_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

#define REPLAY_MAX_BYTES ((size_t)64 << 20)

/* The source of a snapshot. copy writes all of dst or, if it fails, none of it. */
struct replay_block {
    int (*copy)(void *ctx, void *dst, size_t len_bytes, struct err *err);
    void *ctx;
    size_t len_bytes;
    int is_far; /* on another machine: the copy takes as long as the network needs */
    uint64_t asked_ns; /* when it was asked for, if that was before; 0: now */
};
/* A source in memory; bytes: borrowed. */
struct replay_block replay_block_at(const void *bytes, size_t len_bytes);

struct replay_digest {
    uint32_t crc;
    size_t len_bytes;
};

struct replay_request {
    uint32_t id;
    struct replay_digest response;

    size_t offset, len_bytes; /* private: of the frame */
};

struct replay {
    uint8_t *snapshot; /* callers only read it */
    size_t snapshot_bytes;
    int has_snapshot;
    size_t n_requests;   /* since the snapshot */
    const uint8_t *kept; /* by replay_keep: an earlier snapshot, snapshot_bytes long */
    int has_kept;
    size_t max_requests; /* as many are kept; 0: any number. Set by the owner */
    size_t due_after;    /* when a snapshot is due; 0: by its cost. Set by the owner */

    uint8_t *spare;                  /* the second buffer */
    struct replay_request *requests; /* private from here on */
    size_t requests_cap;
    uint8_t *frames;
    size_t frames_len, frames_cap;
    uint64_t taken_at_ns, cost_ns;
};

#define REPLAY_ZERO ((struct replay){0})

void replay_done(struct replay *r);

struct replay_digest replay_digest(const void *response, size_t len_bytes);
int replay_digest_equal(struct replay_digest a, struct replay_digest b);

/* Copies the block, then empties the list. If the copy fails, or with ERR_NOMEM, snapshot
 * and list stay as they are. */
int replay_snapshot(struct replay *r, const struct replay_block *block, struct err *err);
/* replay_snapshot of values that are older than the newest requests: only the first n_covered
 * requests, whose effect they have, leave the list. */
int replay_snapshot_of(struct replay *r, const struct replay_block *block,
                       size_t n_covered, struct err *err);
/* Empties the list without taking a snapshot. */
void replay_forget(struct replay *r);

/* Keeps the present values, beside newer snapshots, until the next call. block: the present
 * one, or NULL if it is unknown. Copies the block only if a snapshot is due; if none is due
 * and the newest snapshot is not up to date, keeps nothing. */
void replay_keep(struct replay *r, const struct replay_block *block);

/* A writing request and its answer, as they went over the pipe; borrowed. */
struct replay_exchange {
    uint32_t id;
    const uint8_t *frame;
    size_t frame_len;
    const uint8_t *response;
    size_t response_len;
};

/* Adds the exchange to the list, or takes a snapshot of the block, which contains the
 * effect of the exchange. must_copy: a snapshot in any case. If the block cannot be copied
 * now, the exchange is added and there is no error; UV_EAGAIN: the list has no room for it,
 * or must_copy: nothing has changed. */
int replay_commit(struct replay *r, const struct replay_block *block,
                  const struct replay_exchange *x, int must_copy, struct err *err);

/* i < n_requests; the frame is valid until the next commit or snapshot. */
const struct replay_request *replay_request_at(const struct replay *r, size_t i);
const uint8_t *replay_frame_at(const struct replay *r, size_t i, size_t *ret_len);

#endif
