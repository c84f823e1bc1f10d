/* chan.h - framed messages over a pair of pipes, on the loop.
 *
 * Knows no message's meaning: frames in, frames out, and one callback. The end of the
 * peer is just another event (on_end), after which nothing more is delivered.
 *
 * Writing  at once with uv_try_write; what does not fit is queued and copied. The queue
 *          is bounded: past CHAN_MAX_QUEUED_BYTES the peer counts as gone (ERR_LIMIT).
 *          Messages no longer than others before them, one by one, allocate nothing.
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

struct chan;
struct chan_write; /* private */

/* One whole message; data is borrowed for the call. */
typedef void (*chan_message_fn)(struct chan *c, const uint8_t *data, size_t len);
/* End of file, an error, or a malformed frame: called once. err->code 0: end of file;
 * UV_EOF: end of file in the middle of a message. */
typedef void (*chan_end_fn)(struct chan *c, const struct err *err);
typedef void (*chan_closed_fn)(struct chan *c);

struct chan {
    void *owner; /* the user's */
    chan_message_fn on_message;
    chan_end_fn on_end;

    uv_pipe_t in, out; /* private from here on */
    struct frame_reader reader;
    struct err read_err; /* why there was no room to read into */
    size_t queued_bytes;
    struct chan_write *spare; /* memory of a queued write that is over */
    int open_handles;
    int ended, closing;
    chan_closed_fn on_closed;
};

/* Takes both descriptors (also on failure). Reading starts at once. A chan whose opening
 * failed must be closed like any other. */
int chan_open(struct chan *c, uv_loop_t *loop, int fd_in, int fd_out,
              chan_message_fn on_message, chan_end_fn on_end, void *owner,
              struct err *err);
/* A whole frame (length included); data is borrowed for the call. */
int chan_send(struct chan *c, const uint8_t *frame, size_t len, struct err *err);
/* Closes both ends; on_closed when the struct may be freed. No on_end after this. */
void chan_close(struct chan *c, chan_closed_fn on_closed);

#endif
