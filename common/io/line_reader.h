/* line_reader.h - reads a file line by line, also one that grows or is replaced by another
 * file meanwhile.
 *
 * Bounds   a line is cut after max_bytes: `cut` is set, and the rest of the line is
 *          skipped. The buffer grows with the longest line. 64 KiB of zeros are no text but
 *          the inside of a sparse file, which may be larger than any disk: ERR_CORRUPT, and
 *          nothing further is read. ERR_TIMEOUT: patience.h.
 */
#ifndef COMMON_IO_LINE_READER_H
#define COMMON_IO_LINE_READER_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LINE_READER_LOOK = 64 };

struct line_reader {
    uint64_t number;  /* of the newest line, from 1 */
    int cut;          /* that line was longer than max_bytes */
    off_t read_bytes; /* how much of the file was read */
    int failure;      /* ERR_CORRUPT, ERR_TIMEOUT; 0: none */

    int fd; /* private from here on */
    size_t max_bytes, begin, len, cap;
    int passing_over;
    char *buf;
};

/* ERR_NOT_FOUND: no such file; line_reader_renew may then try again, and
 * line_reader_close is allowed. -errno. */
int line_reader_open(struct line_reader *r, const char *path, size_t max_bytes,
                     struct err *err);
void line_reader_close(struct line_reader *r); /* an all-zero struct is fine */

/* Returns 1 and the next whole line: *ret_len bytes without the newline, NUL-terminated
 * (the line may hold NULs, too). The caller may modify it; it is valid until the next
 * call. Returns 0 if there is no further line at present; -errno. */
int line_reader_next(struct line_reader *r, char **ret, size_t *ret_len, struct err *err);
/* Returns 1 and the bytes after the last newline; 0 if there are none. */
int line_reader_rest(struct line_reader *r, char **ret, size_t *ret_len);
/* Where the newest `lines` lines begin: at a line for whose first LINE_READER_LOOK bytes, or as many
 * as there are, is_first says yes, which may be further back. 0, where everything begins, too if
 * there are not so many, or zeros before them. Reads from the end. */
off_t line_reader_find_newest(const struct line_reader *r, uint64_t lines,
                              int (*is_first)(const char *line));
/* Goes on reading at that byte, where a line begins. */
void line_reader_seek(struct line_reader *r, off_t at);
/* After line_reader_next has returned 0: returns 1 if path is another file by now, or the
 * file became shorter. Reading then starts again at the beginning. */
int line_reader_renew(struct line_reader *r, const char *path);

#endif
