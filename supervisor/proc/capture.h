/* capture.h - reads what an agent writes to stdout and stderr.
 *
 * Output is appended to the agent's log file until the file has CAPTURE_FILE_MAX_BYTES. The
 * newest CAPTURE_TAIL_BYTES are kept in memory, to be quoted when the agent dies. The
 * struct lives as long as its agent and reads the pipes of its processes one after another.
 */
#ifndef SUPERVISOR_PROC_CAPTURE_H
#define SUPERVISOR_PROC_CAPTURE_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define CAPTURE_FILE_MAX_BYTES ((uint64_t)16 << 20)
#define CAPTURE_TAIL_BYTES     4096u

struct capture;
typedef void (*capture_fn)(struct capture *c);

struct capture {
    void *owner; /* for the caller's use */

    /* Gets what is read, too; may be NULL. Set it after capture_init. */
    void (*on_output)(void *ctx, const char *text, size_t len);
    void *output_ctx;

    int log_fd; /* private from here on; -1: no file */
    uint64_t logged_bytes;
    char tail[CAPTURE_TAIL_BYTES]; /* a ring */
    uint64_t seen_bytes;           /* read from the present process */
    uv_pipe_t pipe;
    char buf[8192];
    capture_fn on_end, on_closed;
};

/* log_path may be NULL: kept in memory only. */
int capture_init(struct capture *c, const char *log_path, struct err *err);
void capture_done(struct capture *c); /* only while no pipe is open */

/* Takes ownership of fd and discards the lines of the former process. Calls on_end once, at
 * end of file. capture_close is necessary even after a failure. */
int capture_open(struct capture *c, uv_loop_t *loop, int fd, capture_fn on_end,
                 void *owner, struct err *err);
void capture_close(struct capture *c, capture_fn on_closed);

/* Discards the lines of the former process, as capture_open does. */
void capture_begin(struct capture *c);
/* Adds text as if the agent had written it. */
void capture_append(struct capture *c, const char *text, size_t len);
/* Joins the last lines into one, oldest first, separated by " | ": at most size - 1 bytes of
 * plain text (plain_text.h); "" if there are none. */
void capture_last_lines(const struct capture *c, char *ret, size_t size);

#endif
