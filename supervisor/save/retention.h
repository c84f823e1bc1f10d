/* retention.h - what a run keeps: which checkpoints, which rows of the experience log, and
 * whether the log itself after the run is done.
 *
 * Checkpoints  The newest `max` stay. Of the older ones, the first that was written later
 *              than `every_s` after the run's beginning stays for good, then the first
 *              later than twice that, and so on, as keep_checkpoint_every_n_hours of
 *              TensorFlow's Saver does. The times are those of the files, so that a
 *              resumed run keeps the same checkpoints.
 * Best         That of the best evaluation (checkpoint.keep_best) stays beside them, until there is
 *              a better one.
 * Damaged      A checkpoint that cannot be read whole is renamed to .bad-<step>, not
 *              removed, when a run resumes from an earlier one or writes that step again.
 * Rows         The rows in the windows of the checkpoints, and those since the newest one, stay.
 * Removal      A checkpoint is renamed to .del-<step> before its files are removed, so that
 *              a folder named <step> is always complete.
 * Threads      any, one at a time for one folder: only files are touched.
 */
#ifndef SUPERVISOR_SAVE_RETENTION_H
#define SUPERVISOR_SAVE_RETENTION_H

#include "common/config/run_config.h"
#include "supervisor/store/store.h"

struct retention {
    size_t max;        /* 0: all stay */
    double every_s;    /* 0: none stays for good */
    double began_unix; /* the run's beginning, seconds since 1970 */
    uint64_t best;     /* step of the best evaluation; 0: none is kept */
};

/* Without a best one. */
struct retention retention_of(const struct run_config *c, double began_unix);

/* dir: a run's checkpoints/. Removes what interrupted writes and removals left, then the
 * checkpoints that need not stay. After an error, the next call removes the rest. */
int retention_drop_old(const struct retention *r, const char *dir, struct err *err);
/* Removes what interrupted writes and removals left. */
int retention_tidy(const char *dir, struct err *err);
/* Removes one checkpoint. dir is not fsynced. */
int retention_drop(const char *dir, uint64_t step, struct err *err);
/* Call it before a run resumes from `step`. Tidies, and removes the later checkpoints, which the
 * run will write again, but sets aside the damaged ones. */
int retention_drop_after(const char *dir, uint64_t step, struct err *err);
/* Renames a damaged checkpoint to .bad-<step>, which replaces an older .bad-<step>. */
int retention_set_aside(const char *dir, uint64_t step, struct err *err);
/* Frees the disk space of rows before `step` that no checkpoint in dir needs, once the checkpoint
 * of `step` is committed. (Each step is one row.) */
int retention_release_rows(const char *dir, uint64_t step, struct store *store,
                           struct err *err);

/* experience.keep: auto keeps the log of a run that is done if the log occupies less disk
 * space than this. A run that has its log can be made longer. */
#define RETENTION_AUTO_BYTES UINT64_C(1000000000)

/* Removes the log of a run that is done, unless `keep` keeps it. auto_bytes is
 * RETENTION_AUTO_BYTES, except in tests. Returns 1 if it was removed (*ret_bytes: the
 * disk space it took), 0 if it was kept or does not exist, -errno. */
int retention_drop_log(const char *path, enum keep_log keep, uint64_t auto_bytes,
                       uint64_t *ret_bytes, struct err *err);
/* Whether the log at that path is there: 0; otherwise -errno, or ERR_NOT_FOUND, whose message
 * says why it may have been removed and ends with what that means: "the run cannot continue". */
int retention_check_log(const char *path, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The message about the removal, for people. */
void retention_describe_log(const char *run, enum keep_log keep, uint64_t bytes,
                            char *ret, size_t size);

#endif
