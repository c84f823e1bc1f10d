/* write_all.h - write(2) and pwrite(2) until everything is written.
 *
 * Both go on after a short write and after a signal.
 * Errors   -1 with errno; a part may have been written (a full disk accepts what fits and
 *          refuses the rest).
 * Threads  any.
 */
#ifndef COMMON_IO_WRITE_ALL_H
#define COMMON_IO_WRITE_ALL_H

#include <stddef.h>
#include <stdint.h>

int write_all(int fd, const void *data, size_t len);
int pwrite_all(int fd, const void *data, size_t len, uint64_t offset);

#endif
