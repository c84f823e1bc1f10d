#include "common/store/share_ring.h"

#include "common/err/check.h"

#include <inttypes.h>

#define MAX_BYTES    ((uint64_t)16 << 30)
#define MAX_ELEMENTS (MAX_BYTES / sizeof(float))
#define MAX_MEMBERS  4096u

static uint64_t within(uint64_t x, uint64_t lo, uint64_t hi)
{
    if (x < lo)
        return lo;
    return x > hi ? hi : x;
}

int share_ring_init(struct share_ring *ret, uint64_t members, uint64_t elements,
                    struct err *err)
{
    struct share_ring r = {.members = members, .elements = elements};
    uint64_t vector_bytes, slot_bytes;

    if (members < 1 || members > MAX_MEMBERS || elements < 1 || elements > MAX_ELEMENTS)
        return err_set(err, ERR_LIMIT,
                       "%" PRIu64 " shared numbers of %" PRIu64
                       " agents do not fit into the memory of a group",
                       elements, members);
    vector_bytes =
        (sizeof(struct share_header) + elements * sizeof(float) + 63) / 64 * 64;
    slot_bytes = vector_bytes * (members + 1);
    r.slots =
        within(SHARE_RING_BYTES / slot_bytes, SHARE_RING_MIN_SLOTS, SHARE_RING_MAX_SLOTS);
    if (slot_bytes > MAX_BYTES / r.slots)
        return err_set(err, ERR_LIMIT,
                       "%" PRIu64 " shared numbers of %" PRIu64
                       " agents do not fit into the memory of a group",
                       elements, members);
    r.vector_bytes = (size_t)vector_bytes;
    r.slot_bytes = (size_t)slot_bytes;
    r.bytes = (size_t)(slot_bytes * r.slots);
    *ret = r;
    return 0;
}

size_t share_ring_offset(const struct share_ring *r, uint64_t slot, uint64_t vector)
{
    CHECK(slot < r->slots && vector <= r->members);
    return (size_t)slot * r->slot_bytes + (size_t)vector * r->vector_bytes;
}
