/* growing_file.h - reads a growing file of a run from where a reader stopped.
 *
 * Position  "INODE:OFFSET:SUM", as a reader got it with the last answer; SUM is of the bytes
 *           before the offset. If the file has been replaced or cut since, also if it has
 *           grown again, the position is not valid any more, and the reader begins again.
 * Threads   any.
 */
#ifndef SUPERVISOR_FACTS_GROWING_FILE_H
#define SUPERVISOR_FACTS_GROWING_FILE_H

#include "common/err/err.h"
#include "supervisor/metrics/json.h"

#include <sys/stat.h>
#include <sys/types.h>

struct growing_file {
    int fd;         /* -1: there is no such file */
    struct stat st; /* when it was opened; all-zero: there is none */
};

enum growing_place {
    GROWING_FIRST, /* the reader has no position, or there is no file */
    GROWING_ON,    /* it goes on from its offset */
    GROWING_AGAIN, /* its position is of another file */
};

/* A missing file counts as empty, and a reader keeps what it has. *ret is set in any
 * case. -errno. */
int growing_file_open(struct growing_file *ret, const char *path, struct err *err);
void growing_file_close(struct growing_file *f);
/* from: a position; NULL or "": none. An offset is at least `least`, where the content begins;
 * *ret_offset is set if the reader goes on. */
enum growing_place growing_file_find(const struct growing_file *f, const char *from,
                                     size_t least, size_t *ret_offset);
/* Reads up to max bytes; returns how many, 0 from a missing file. -1 with errno. */
ssize_t growing_file_read(const struct growing_file *f, size_t offset, void *ret,
                          size_t max);
/* Puts "next", the position of an offset, and "restart" into an open object. */
void growing_file_put(const struct growing_file *f, size_t offset,
                      enum growing_place place, struct json *j);

#endif
