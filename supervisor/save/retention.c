#include "supervisor/save/retention.h"

#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/size_text.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/save/checkpoint_read.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- checkpoints ---- */

struct retention retention_of(const struct run_config *c, double began_unix)
{
    return (struct retention){.max = (size_t)c->checkpoint.max_to_keep,
                              .every_s =
                                  c->checkpoint.keep_checkpoint_every_n_hours * 3600,
                              .began_unix = began_unix};
}

/* Renames a checkpoint to <prefix><step>, which replaces an older one. *ret: its path;
 * free(), also after an error. */
static int move_away(const char *dir, const char *prefix, uint64_t step, char **ret,
                     struct err *err)
{
    char *from = checkpoint_path(dir, "", step);
    int rc;

    *ret = checkpoint_path(dir, prefix, step);
    rc = tree_remove(*ret, err);
    if (rc == 0)
        rc = tree_rename(from, *ret, 0, err);
    free(from);
    return rc;
}

int retention_set_aside(const char *dir, uint64_t step, struct err *err)
{
    char *to;
    const int rc = move_away(dir, ".bad-", step, &to, err);

    free(to);
    return rc;
}

int retention_drop(const char *dir, uint64_t step, struct err *err)
{
    char *to;
    int rc = move_away(dir, ".del-", step, &to, err);

    if (rc == 0)
        rc = tree_remove(to, err);
    free(to);
    return rc;
}

int retention_tidy(const char *dir, struct err *err)
{
    DIR *d = beneath_opendir(dir);
    struct dirent *e;
    int rc = 0;

    if (d == NULL)
        return err_errno(err, "%s", dir);
    while (rc == 0 && (e = beneath_readdir(d)) != NULL) {
        char *path;

        if (text_after(e->d_name, ".tmp-") == NULL &&
            text_after(e->d_name, ".del-") == NULL)
            continue;
        path = xasprintf("%s/%s", dir, e->d_name);
        rc = tree_remove(path, err);
        free(path);
    }
    if (rc == 0 && errno != 0)
        rc = err_errno(err, "%s", dir);
    (void)closedir(d);
    return rc;
}

/* Returns the time of the write in seconds since 1970; 0 if run.state is missing. */
static double written_at(const char *dir, uint64_t step)
{
    char *path = xasprintf("%s/%" PRIu64 "/run.state", dir, step);
    struct stat st;
    double t = beneath_stat(path, &st) < 0
                   ? 0
                   : (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec * 1e-9;

    free(path);
    return t;
}

int retention_drop_old(const struct retention *r, const char *dir, struct err *err)
{
    double next =
        /* the first checkpoint written after this time is kept for good */
        r->began_unix + r->every_s;
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = retention_tidy(dir, err);

    if (rc == 0)
        rc = checkpoint_list(dir, &steps, &n, err);
    for (size_t i = 0; rc == 0 && r->max > 0 && i + r->max < n; i++) {
        const double at = written_at(dir, steps[i]);

        if (r->every_s > 0 && at > next) /* the run may not have run for many intervals */
            next += r->every_s * ceil((at - next) / r->every_s);
        else if (steps[i] != r->best || r->best == 0)
            rc = retention_drop(dir, steps[i], err);
    }
    free(steps);
    return rc;
}

int retention_drop_after(const char *dir, uint64_t step, struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = retention_tidy(dir, err);

    if (rc == 0)
        rc = checkpoint_list(dir, &steps, &n, err);
    for (; rc == 0 && n > 0 && steps[n - 1] > step; n--)
        rc = checkpoint_is_damaged(dir, steps[n - 1])
                 ? retention_set_aside(dir, steps[n - 1], err)
                 : retention_drop(dir, steps[n - 1], err);
    free(steps);
    return rc == 0 ? tree_sync(dir, err) : rc;
}

/* ---- the experience log ---- */

int retention_release_rows(const char *dir, uint64_t step, struct store *store,
                           struct err *err)
{
    uint64_t *steps = NULL, needed_to = 0;
    size_t n = 0;
    int rc = checkpoint_list(dir, &steps, &n, err);

    /* in order: the last one is `step`; that of step 0 needs no rows */
    for (size_t i = 0; rc == 0 && i <= n && needed_to < step; i++) {
        const uint64_t at = i < n && steps[i] < step ? steps[i] : step;

        rc = store_forget(store, needed_to, store_needed_first_at(store, at), err);
        needed_to = at;
    }
    free(steps);
    return rc;
}

int retention_drop_log(const char *path, enum keep_log keep, uint64_t auto_bytes,
                       uint64_t *ret_bytes, struct err *err)
{
    struct stat st;

    if (beneath_stat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, "%s", path);
    /* allocated blocks, not the file's length: it has holes */
    *ret_bytes = (uint64_t)st.st_blocks * 512;
    if (keep == KEEP_LOG_ALWAYS || (keep == KEEP_LOG_AUTO && *ret_bytes < auto_bytes))
        return 0;
    return beneath_unlink(path) < 0 ? err_errno(err, "%s: cannot remove", path) : 1;
}

int retention_check_log(const char *path, struct err *err, const char *fmt, ...)
{
    struct stat st;
    char *meaning;
    va_list ap;
    int rc;

    if (beneath_stat(path, &st) == 0)
        return 0;
    if (errno != ENOENT)
        return err_errno(err, "%s", path);
    va_start(ap, fmt);
    meaning = xvasprintf(fmt, ap);
    va_end(ap);
    rc = err_set(err, ERR_NOT_FOUND,
                 "%s is missing (a run that is done removes it unless experience.keep is "
                 "true, or auto and it is small): %s",
                 path, meaning);
    free(meaning);
    return rc;
}

void retention_describe_log(const char *run, enum keep_log keep, uint64_t bytes,
                            char *ret, size_t size)
{
    char took[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES], why[64] = "";

    if (keep == KEEP_LOG_AUTO)
        (void)snprintf(why, sizeof(why), ", not below %s",
                       size_text(RETENTION_AUTO_BYTES, limit));
    (void)snprintf(ret, size,
                   "%s: its experience log (%s%s) is removed, so the run cannot be made "
                   "longer; experience.keep=true keeps the log",
                   run, size_text(bytes, took), why);
}
