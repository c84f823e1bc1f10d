/* Arbitrary bytes in pieces of any size: every frame that the reader returns is a part of
 * the input, in order, and the reader's memory is bounded by the bytes received plus one
 * growth step. */
#include "common/err/check.h"
#include "common/msg/frame.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define MAX_BYTES  4096u
#define STEP_BYTES (1u << 20)

/* Checks the frame that was just returned; returns the input after it. */
static const uint8_t *check_frame(const uint8_t *expect, const uint8_t *frame, size_t len)
{
    CHECK(len > 0 && len <= MAX_BYTES, "%zu", len);
    CHECK(memcmp(expect + FRAME_HEADER_BYTES, frame, len) == 0);
    return expect + FRAME_HEADER_BYTES + len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *p = data, *end = data + size, *expect = data;
    struct frame_reader r;
    size_t piece = size > 0 ? 1 + data[0] % 7 : 1;
    int rc = 0;

    frame_reader_init(&r, MAX_BYTES);
    while (p < end && rc >= 0) {
        uint8_t *room;
        const uint8_t *frame;
        size_t n, len;

        CHECK(frame_reader_room(&r, &room, &n, NULL) == 0 && n > 0);
        CHECK(r.cap <= r.len + STEP_BYTES, "%zu for %zu", r.cap, r.len);
        if (n > piece)
            n = piece;
        if (n > (size_t)(end - p))
            n = (size_t)(end - p);
        memcpy(room, p, n);
        frame_reader_filled(&r, n);
        p += n;
        piece = piece * 5 % 61 + 1;
        while ((rc = frame_reader_next(&r, &frame, &len, NULL)) == 1)
            expect = check_frame(expect, frame, len);
        CHECK(rc < 0 || frame_reader_pending(&r) == (size_t)(p - expect));
    }
    frame_reader_done(&r);
    return 0;
}
