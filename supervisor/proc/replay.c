#include "supervisor/proc/replay.h"

#include "common/err/check.h"
#include "common/mem/pages.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* A snapshot may take 1/REPLAY_COST_DIVISOR of the time. */
#define REPLAY_COST_DIVISOR 100u

static int copy_bytes(void *ctx, void *dst, size_t len_bytes, struct err *err)
{
    if (len_bytes > 0)
        memcpy(dst, ctx, len_bytes);
    return 0;
}

struct replay_block replay_block_at(const void *bytes, size_t len_bytes)
{
    return (struct replay_block){.copy = copy_bytes,
                                 .ctx = (void *)(uintptr_t)bytes, /* read only */
                                 .len_bytes = len_bytes};
}

void replay_done(struct replay *r)
{
    pages_unmap(r->snapshot, r->snapshot_bytes);
    pages_unmap(r->spare, r->snapshot_bytes);
    free(r->requests);
    free(r->frames);
    *r = REPLAY_ZERO;
}

struct replay_digest replay_digest(const void *response, size_t len_bytes)
{
    return (struct replay_digest){.crc = crc32c(response, len_bytes),
                                  .len_bytes = len_bytes};
}

int replay_digest_equal(struct replay_digest a, struct replay_digest b)
{
    return a.crc == b.crc && a.len_bytes == b.len_bytes;
}

void replay_forget(struct replay *r)
{
    r->n_requests = 0;
    r->frames_len = 0;
}

static int resize(struct replay *r, size_t len_bytes, struct err *err)
{
    uint8_t *p = pages_map(len_bytes);

    if (p == NULL && len_bytes > 0)
        return err_set(err, ERR_NOMEM, "no memory for a snapshot of %zu bytes",
                       len_bytes);
    pages_unmap(r->snapshot, r->snapshot_bytes);
    pages_unmap(r->spare, r->snapshot_bytes);
    r->snapshot = p;
    r->spare = NULL;
    r->has_kept = 0;
    r->snapshot_bytes = len_bytes;
    return 0;
}

/* Makes the next snapshot go to a second buffer, so that the kept one stays. If there is
 * no memory for it, the kept one is overwritten. */
static void swap_buffers(struct replay *r)
{
    uint8_t *kept = r->snapshot;

    if (r->spare == NULL)
        r->spare = pages_map(r->snapshot_bytes);
    if (r->spare == NULL) {
        r->has_kept = 0;
        return;
    }
    r->snapshot = r->spare;
    r->spare = kept;
}

/* The expected cost of the next copy. A busy machine may have interrupted this one, so a
 * time slower than 1 GB/s here, or much slower than the last one, is not believed. */
static uint64_t cost_of(const struct replay *r, uint64_t measured_ns,
                        const struct replay_block *block)
{
    uint64_t most_ns = block->is_far ? UINT64_MAX : block->len_bytes + 1000;

    if (block->is_far && r->cost_ns > 0)
        most_ns = r->cost_ns * 2;
    else if (r->cost_ns > 0 && r->cost_ns < most_ns)
        most_ns = r->cost_ns + r->cost_ns / 8 + 1;
    return measured_ns < most_ns ? measured_ns : most_ns;
}

int replay_snapshot_of(struct replay *r, const struct replay_block *block,
                       size_t n_covered, struct err *err)
{
    uint8_t *const former = r->snapshot;
    const uint64_t begin_ns = block->asked_ns > 0 ? block->asked_ns : uv_hrtime();
    int rc = 0;

    CHECK(n_covered <= r->n_requests);

    if (r->snapshot_bytes != block->len_bytes)
        rc = resize(r, block->len_bytes, err);
    else if (r->has_kept && r->kept == r->snapshot)
        swap_buffers(r);
    if (rc < 0)
        return rc;
    rc = block->copy(block->ctx, r->snapshot, block->len_bytes, err);
    if (rc < 0 && r->spare != NULL && r->spare == former) { /* undo swap_buffers */
        r->spare = r->snapshot;
        r->snapshot = former;
    }
    if (rc < 0)
        return rc;
    r->has_snapshot = 1;
    if (n_covered > 0) {
        const size_t bytes =
            n_covered < r->n_requests ? r->requests[n_covered].offset : r->frames_len;

        memmove(r->requests, r->requests + n_covered,
                (r->n_requests - n_covered) * sizeof(*r->requests));
        memmove(r->frames, r->frames + bytes, r->frames_len - bytes);
        r->n_requests -= n_covered;
        r->frames_len -= bytes;
        for (size_t i = 0; i < r->n_requests; i++)
            r->requests[i].offset -= bytes;
    }
    r->taken_at_ns = uv_hrtime();
    r->cost_ns = cost_of(r, r->taken_at_ns - begin_ns, block);
    return 0;
}

int replay_snapshot(struct replay *r, const struct replay_block *block, struct err *err)
{
    return replay_snapshot_of(r, block, r->n_requests, err);
}

static int is_full(const struct replay *r, size_t more_bytes)
{
    return r->frames_len + more_bytes > REPLAY_MAX_BYTES ||
           (r->max_requests > 0 && r->n_requests >= r->max_requests);
}

static int is_snapshot_due(const struct replay *r)
{
    if (r->due_after > 0)
        return r->n_requests >= r->due_after;
    return uv_hrtime() - r->taken_at_ns >= r->cost_ns * REPLAY_COST_DIVISOR;
}

void replay_keep(struct replay *r, const struct replay_block *block)
{
    r->has_kept = 0;
    if (r->n_requests > 0 && block != NULL && is_snapshot_due(r))
        (void)replay_snapshot(r, block, NULL);
    r->has_kept = r->has_snapshot && r->n_requests == 0;
    r->kept = r->snapshot;
}

static void replay_add(struct replay *r, const struct replay_exchange *x)
{
    ARRAY_GROW(r->requests, r->n_requests, r->requests_cap);
    if (x->frame_len > r->frames_cap - r->frames_len) {
        r->frames_cap = (r->frames_len + x->frame_len) * 2;
        r->frames = xrealloc(r->frames, r->frames_cap);
    }
    memcpy(r->frames + r->frames_len, x->frame, x->frame_len);
    r->requests[r->n_requests++] = (struct replay_request){
        .id = x->id,
        .response = replay_digest(x->response, x->response_len),
        .offset = r->frames_len,
        .len_bytes = x->frame_len,
    };
    r->frames_len += x->frame_len;
}

int replay_commit(struct replay *r, const struct replay_block *block,
                  const struct replay_exchange *x, int must_copy, struct err *err)
{
    int rc = UV_EAGAIN;

    CHECK(r->has_snapshot);
    must_copy |= is_full(r, x->frame_len);
    if (must_copy || is_snapshot_due(r))
        rc = replay_snapshot(r, block, err);
    if (rc != UV_EAGAIN || must_copy)
        return rc;
    replay_add(r, x);
    return 0;
}

const struct replay_request *replay_request_at(const struct replay *r, size_t i)
{
    CHECK(i < r->n_requests);
    return &r->requests[i];
}

const uint8_t *replay_frame_at(const struct replay *r, size_t i, size_t *ret_len)
{
    CHECK(i < r->n_requests);
    *ret_len = r->requests[i].len_bytes;
    return r->frames + r->requests[i].offset;
}
