/* log_tail.h - the newest lines of a file of lines. */
#ifndef SUPERVISOR_RUN_LOG_TAIL_H
#define SUPERVISOR_RUN_LOG_TAIL_H

#include "common/err/err.h"
#include "common/wire/cursor.h"

/* Appends the last `max` bytes of the file or fewer, from the beginning of a line on. A
 * missing file is empty. -errno. */
int log_tail(struct wbuf *ret, const char *path, size_t max, struct err *err);

#endif
