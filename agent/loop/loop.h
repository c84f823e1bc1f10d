/* loop.h - the message loop of an agent: plain blocking reads and writes, one thread.
 *
 * Knows frames and messages, not what they mean: each request goes to a callback, which
 * writes the whole response. Answers are timed while the supervisor traces (protocol.h:
 * trace, span). Ends at end of file (the supervisor is gone), when the
 * callback says so, or at a frame or message that is malformed: after that nothing more
 * on the stream can be trusted.
 */
#ifndef AGENT_LOOP_LOOP_H
#define AGENT_LOOP_LOOP_H

#include "common/msg/msg.h"

/* Builds the response to a request in `out`, without msg_end. Returns 0, or 1 to send it
 * and end the loop. It is not called for notifications and responses. */
typedef int (*loop_request_fn)(void *ctx, const struct msg *request, struct msg_out *out);

/* Sees the first request before anything else happens with it. data: its frame, with the
 * bytes that were read behind it. 0, or an error, which the request is answered with. */
typedef int (*loop_first_fn)(void *ctx, const struct msg *request, const uint8_t *data,
                             size_t len, struct err *err);

/* first: NULL: nobody looks. Returns 0 at end of file or if `handle` ended the loop;
 * ERR_FORMAT, ERR_PROTOCOL, ERR_LIMIT: the stream is broken; -errno, ERR_NOMEM. */
int loop_serve(int fd_in, int fd_out, loop_first_fn first, loop_request_fn handle,
               void *ctx, struct err *err);

/* Sends a finished message. */
int loop_send(int fd_out, struct msg_out *out, struct err *err);

#endif
