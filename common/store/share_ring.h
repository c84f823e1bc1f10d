/* share_ring.h - the memory through which a group of agents shares parameters: a ring of
 * slots, one for each of the newest optimiser steps.
 *
 * Group    N members, which compute gradients, and one ps process, which makes the
 *          optimiser's steps. All map the same memfd (protocol.h: AGENT_FD_SHARED).
 * Slot     N + 1 vectors of P float32: the gradient of each member, in the group's order,
 *          then the ps's new values. Each vector begins with a header, which is written
 *          last and names the step that the vector belongs to.
 * Replay   a respawned process repeats the steps since its snapshot and must find their
 *          slots unchanged. So the supervisor, which numbers the slots, takes a snapshot
 *          of each process of the group at the latest after `slots` - 1 writing requests:
 *          the slot that is overwritten next then belongs to no step that could be
 *          repeated.
 * Size     supervisor and agents compute it from N and P, with share_ring_init.
 *
 * Other processes write the memory: a reader must check the header, and the numbers after
 * it can have any value.
 */
#ifndef COMMON_STORE_SHARE_RING_H
#define COMMON_STORE_SHARE_RING_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

#define SHARE_RING_BYTES     ((size_t)8 << 20) /* at most, unless MIN_SLOTS need more */
#define SHARE_RING_MIN_SLOTS 2u
#define SHARE_RING_MAX_SLOTS 64u
#define SHARE_MAX_PARTS      4 /* optimisers of an agent: each moves a part of its variables */

struct share_ring {
    uint64_t members;  /* N */
    uint64_t elements; /* P */
    uint64_t slots;    /* R */
    size_t vector_bytes, slot_bytes, bytes;
};

/* 64 bytes, before the P floats of a vector. */
struct share_header {
    uint64_t elements, update, repeat;
    /* Of the member's gradient of each part, in the group's mean. */
    float weight[SHARE_MAX_PARTS];
    /* A number that is measured with the step (share.h): summed over rows; the ps's: over those
     * of all members. */
    double measure, measured_rows;
    uint8_t unused[8];
};
_Static_assert(sizeof(struct share_header) == 64, "the floats are aligned to 64 bytes");

/* members, elements: at least 1. ERR_LIMIT: the group would need more than 16 GiB. */
int share_ring_init(struct share_ring *ret, uint64_t members, uint64_t elements,
                    struct err *err);
/* Offset of a vector; slot < slots, vector <= members (members: the ps's values). */
size_t share_ring_offset(const struct share_ring *r, uint64_t slot, uint64_t vector);

#endif
