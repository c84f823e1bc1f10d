#include "supervisor/save/retention.h"

#include "common/io/beneath.h"
#include "common/mem/size_text.h"

#include <errno.h>
#include <stdio.h>

int finished_log_drop(const char *path, enum keep_log keep, uint64_t auto_bytes,
                      uint64_t *ret_bytes, struct err *err)
{
    struct stat st;

    if (beneath_stat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, "%s", path);
    *ret_bytes = (uint64_t)st.st_blocks * 512; /* holes take nothing */
    if (keep == KEEP_LOG_ALWAYS || (keep == KEEP_LOG_AUTO && *ret_bytes < auto_bytes))
        return 0;
    return beneath_unlink(path) < 0 ? err_errno(err, "%s: cannot remove", path) : 1;
}

void finished_log_describe(const char *run, enum keep_log keep, uint64_t bytes, char *ret,
                           size_t size)
{
    char took[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES], why[64] = "";

    if (keep == KEEP_LOG_AUTO)
        (void)snprintf(why, sizeof(why), ", not below %s",
                       size_text(FINISHED_LOG_AUTO_BYTES, limit));
    (void)snprintf(ret, size,
                   "%s: its experience log (%s%s) is dropped, and it cannot be made "
                   "longer; experience.keep=true keeps it",
                   run, size_text(bytes, took), why);
}
