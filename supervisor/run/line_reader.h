/* line_reader.h - the lines of a file that may still grow, or be put in the place of
 * another.
 *
 * Bounds   a line of more than max_bytes is cut there: the rest of it is passed over, and
 *          `cut` is set. Room grows with what is read.
 */
#ifndef SUPERVISOR_RUN_LINE_READER_H
#define SUPERVISOR_RUN_LINE_READER_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct line_reader {
    uint64_t number; /* of the newest line, from 1 */
    int cut;         /* it was longer */

    int fd; /* private from here on */
    size_t max_bytes, begin, len, cap;
    off_t read_bytes;
    int passing_over;
    char *buf;
};

/* ERR_NOT_FOUND: there is no such file; *r can then be tried again with
 * line_reader_renew, and closed. -errno. */
int line_reader_open(struct line_reader *r, const char *path, size_t max_bytes,
                     struct err *err);
void line_reader_close(struct line_reader *r); /* an all-zero struct is fine */

/* 1: the next whole line, in *ret, terminated (and whatever NULs it holds in between:
 * *ret_len bytes), without its newline; the caller's to write into until the next call.
 * 0: there is no further one now. -errno. */
int line_reader_next(struct line_reader *r, char **ret, size_t *ret_len, struct err *err);
/* What stands after the last newline, the same way; 0: nothing does. */
int line_reader_rest(struct line_reader *r, char **ret, size_t *ret_len);
/* After line_reader_next said 0: whether path is another file by now, or a shorter one;
 * then it is read from its beginning. */
int line_reader_renew(struct line_reader *r, const char *path);

#endif
