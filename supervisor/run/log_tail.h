/* log_tail.h - the newest lines of a file of lines. */
#ifndef SUPERVISOR_RUN_LOG_TAIL_H
#define SUPERVISOR_RUN_LOG_TAIL_H

#include "common/err/err.h"
#include "common/wire/cursor.h"

/* Appends the file's last whole lines that fit into max bytes, and what stands behind
 * them. No such file: nothing. -errno. */
int log_tail(struct wbuf *ret, const char *path, size_t max, struct err *err);

#endif
