/* write_all.h - writes and reads that continue after short ones and signals until everything
 * is written or read.
 *
 * Threads  any.
 */
#ifndef COMMON_IO_WRITE_ALL_H
#define COMMON_IO_WRITE_ALL_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* -1 with errno; a part may have been written (a full disk accepts what fits and refuses
 * the rest). */
int write_all(int fd, const void *data, size_t len);
int pwrite_all(int fd, const void *data, size_t len, uint64_t offset);
/* The number of bytes read, less than len only at the end of the file; -1 with errno. */
ssize_t pread_all(int fd, void *data, size_t len, uint64_t offset);

/* Appends everything or nothing. After an error (such as a full disk) the file has its old
 * length, so that the caller can retry. path: for the message. -errno. */
int append_whole(int fd, const char *path, const void *data, size_t len, struct err *err);

#endif
