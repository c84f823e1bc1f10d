/* chan.h - framed messages over a pair of pipes, on the loop.
 *
 * A chan does not interpret messages: it delivers each received frame to on_message. When
 * the peer closes its end, on_end is called and nothing more is delivered.
 *
 * Writing  tries uv_try_write first; the rest is copied and queued. The queue is bounded:
 *          when it would exceed CHAN_MAX_QUEUED_BYTES, chan_send fails with ERR_LIMIT and
 *          the caller should treat the peer as gone. The buffer of a finished write is
 *          reused, so that a message no longer than an earlier one allocates nothing.
 * Pipe     grows when a frame does not fit, up to CHAN_PIPE_BYTES: otherwise the peer would
 *          have to be woken once for each 64 kB. All channels together grow by no more than
 *          CHAN_GROWTH_BYTES, a quarter of what pipe(7) lets a user have.
 * Lifetime the struct is embedded in its owner and does not move; the owner may free it
 *          only after the close callback.
 * Threads  loop thread only. No callback may run the loop.
 */
#ifndef SUPERVISOR_CHAN_CHAN_H
#define SUPERVISOR_CHAN_CHAN_H

#include "common/err/err.h"
#include "common/msg/frame.h"

#include <uv.h>

#define CHAN_MAX_QUEUED_BYTES ((size_t)256 << 20)
#define CHAN_PIPE_BYTES       (256 << 10)
#define CHAN_GROWTH_BYTES     (16 << 20)

struct chan;
struct chan_write; /* private */

/* One whole message; data is borrowed for the call. */
typedef void (*chan_message_fn)(struct chan *c, const uint8_t *data, size_t len);
/* Called once, on end of file, a read error, an error of a queued write, or a
 * malformed frame. err->code is 0 at end of file, UV_EOF at end of file in the middle
 * of a message. */
typedef void (*chan_end_fn)(struct chan *c, const struct err *err);
typedef void (*chan_closed_fn)(struct chan *c);

struct chan {
    void *owner; /* for the callbacks */
    chan_message_fn on_message;
    chan_end_fn on_end;

    uv_pipe_t in, out; /* private from here on */
    struct frame_reader reader;
    struct err read_err; /* why there was no room to read into */
    size_t queued_bytes;
    struct chan_write *spare; /* a finished write, kept for reuse */
    int open_handles;
    int grown_bytes; /* bytes by which the outgoing pipe has grown */
    int cannot_grow; /* the outgoing pipe grows no further */
    int ended, closing;
    chan_closed_fn on_closed;
};

/* Takes ownership of both descriptors, also on failure. Reading starts at once. If
 * chan_open fails, the caller must still call chan_close. */
int chan_open(struct chan *c, uv_loop_t *loop, int fd_in, int fd_out,
              chan_message_fn on_message, chan_end_fn on_end, void *owner,
              struct err *err);
/* Sends one whole frame, including its length prefix; data is borrowed for the call. */
int chan_send(struct chan *c, const uint8_t *frame, size_t len, struct err *err);
/* Closes both ends and calls on_closed when the struct may be freed. on_end is not called
 * after chan_close. */
void chan_close(struct chan *c, chan_closed_fn on_closed);

#endif
