#include "common/msg/frame.h"

#include "common/err/check.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_MIN_BYTES  (64u << 10) /* the capacity of a pipe */
#define ROOM_STEP_BYTES (1u << 20)

void frame_reader_init(struct frame_reader *r, size_t max_bytes)
{
    *r = (struct frame_reader){.max_bytes = max_bytes};
}

void frame_reader_done(struct frame_reader *r)
{
    free(r->data);
    frame_reader_init(r, r->max_bytes);
}

/* Halves the buffer if recent messages needed less than a quarter of it. */
static void shrink_if_idle(struct frame_reader *r)
{
    uint8_t *data;

    if (r->len > 0 || r->n_small < FRAME_SHRINK_AFTER || r->cap <= ROOM_MIN_BYTES)
        return;
    r->n_small = 0;
    data = realloc(r->data, r->cap / 2);
    if (data == NULL)
        return;
    r->data = data;
    r->cap /= 2;
}

int frame_reader_room(struct frame_reader *r, uint8_t **ret, size_t *ret_size,
                      struct err *err)
{
    if (r->start > 0 && (r->start == r->len || r->len == r->cap)) {
        memmove(r->data, r->data + r->start, r->len - r->start);
        r->len -= r->start;
        r->start = 0;
    }
    shrink_if_idle(r);
    if (r->len == r->cap) {
        const size_t step = r->cap < ROOM_MIN_BYTES    ? ROOM_MIN_BYTES
                            : r->cap < ROOM_STEP_BYTES ? r->cap
                                                       : ROOM_STEP_BYTES;
        uint8_t *data = realloc(r->data, r->cap + step);

        if (data == NULL)
            return err_set(err, ERR_NOMEM, "no memory for a message of over %zu bytes",
                           r->len);
        r->data = data;
        r->cap += step;
    }
    *ret = r->data + r->len;
    *ret_size = r->cap - r->len;
    return 0;
}

void frame_reader_filled(struct frame_reader *r, size_t n)
{
    CHECK(n <= r->cap - r->len, "%zu bytes into %zu", n, r->cap - r->len);
    r->len += n;
}

int frame_reader_next(struct frame_reader *r, const uint8_t **ret, size_t *ret_len,
                      struct err *err)
{
    size_t held = frame_reader_pending(r);
    const uint8_t *p;
    size_t len;

    if (held < FRAME_HEADER_BYTES)
        return 0;
    p = r->data + r->start;
    len = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    if (len == 0)
        return err_set(err, ERR_FORMAT, "a frame of length 0");
    if (len > r->max_bytes)
        return err_set(err, ERR_LIMIT, "a frame of %zu bytes, at most %zu are accepted",
                       len, r->max_bytes);
    if (held - FRAME_HEADER_BYTES < len)
        return 0;
    *ret = p + FRAME_HEADER_BYTES;
    *ret_len = len;
    r->start += FRAME_HEADER_BYTES + len;
    r->n_small = len < r->cap / 4 ? r->n_small + 1 : 0;
    return 1;
}

size_t frame_reader_pending(const struct frame_reader *r)
{
    return r->len - r->start;
}
