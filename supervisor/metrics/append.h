/* append.h - what is written at a file's end is there whole, or not at all. */
#ifndef SUPERVISOR_METRICS_APPEND_H
#define SUPERVISOR_METRICS_APPEND_H

#include "common/err/err.h"

#include <stddef.h>

/* On an error (a full disk) the file is as long as before, so that the same bytes can be
 * tried again. path: for the message. -errno. */
int append_whole(int fd, const char *path, const void *data, size_t len, struct err *err);

#endif
