/* write_all.h - writes that go on after a short write and after a signal, until everything
 * is written.
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

/* At the end of the file: everything, or nothing. After an error (a full disk) the file is
 * as long as before, so that the caller can try the same bytes again. path: for the
 * message. -errno. */
int append_whole(int fd, const char *path, const void *data, size_t len, struct err *err);

#endif
