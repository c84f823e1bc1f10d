/* close_fd.h - closes a descriptor, if there is one, and forgets it. */
#ifndef COMMON_IO_CLOSE_FD_H
#define COMMON_IO_CLOSE_FD_H

#include <unistd.h>

/* *fd: -1 if there is none; it is -1 afterwards. */
static inline void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

#endif
