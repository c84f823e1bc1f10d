/* write_all.h - writes that continue after short writes and signals until everything is
 * written.
 *
 * Threads  any.
 */
#ifndef COMMON_IO_WRITE_ALL_H
#define COMMON_IO_WRITE_ALL_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

/* -1 with errno; a part may have been written (a full disk accepts what fits and refuses
 * the rest). */
int write_all(int fd, const void *data, size_t len);
int pwrite_all(int fd, const void *data, size_t len, uint64_t offset);

/* Appends everything or nothing. After an error (such as a full disk) the file has its old
 * length, so that the caller can retry. path: for the message. -errno. */
int append_whole(int fd, const char *path, const void *data, size_t len, struct err *err);

#endif
