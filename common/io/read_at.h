/* read_at.h - reads that continue after short reads and signals.
 *
 * Threads  any.
 */
#ifndef COMMON_IO_READ_AT_H
#define COMMON_IO_READ_AT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads max bytes at an offset of a file, or fewer at its end; returns how many. -1 with
 * errno. */
ssize_t read_at(int fd, void *ret, size_t max, uint64_t offset);

#endif
