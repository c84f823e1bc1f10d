/* finished_log.h - what becomes of the experience log of a run that is done: a run that
 * keeps it can be made longer. */
#ifndef SUPERVISOR_SAVE_RETENTION_H
#define SUPERVISOR_SAVE_RETENTION_H

#include "common/config/run_config.h"
#include "common/err/err.h"

#include <stdint.h>

/* experience.keep: auto keeps a log that takes less of the disk than this. */
#define FINISHED_LOG_AUTO_BYTES UINT64_C(1000000000)

/* Removes the file unless it is to be kept; auto_bytes: FINISHED_LOG_AUTO_BYTES, but for
 * tests. Returns 1 if it was removed (*ret_bytes: what it took of the disk), 0 if it stays
 * or is not there, -errno. */
int finished_log_drop(const char *path, enum keep_log keep, uint64_t auto_bytes,
                      uint64_t *ret_bytes, struct err *err);
/* Says so in a line. */
void finished_log_describe(const char *run, enum keep_log keep, uint64_t bytes, char *ret,
                           size_t size);

#endif
