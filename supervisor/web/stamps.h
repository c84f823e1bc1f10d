/* stamps.h - whether the files of a run have changed since the last look.
 *
 * Files    those from which a run's record (run_record.h) and its tags are read. A change is
 *          one of size, inode or time of modification; contents are not compared.
 * Threads  any; one at a time for a struct stamps.
 */
#ifndef SUPERVISOR_WEB_STAMPS_H
#define SUPERVISOR_WEB_STAMPS_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

enum stamp_of {
    STAMP_LOCK,
    STAMP_JOURNAL,
    STAMP_ROWS, /* metrics/progress.csv */
    STAMP_CONFIG,
    STAMP_CHECKPOINTS, /* the folder */
    STAMP_TAGS,
    STAMPS_FILES
};

struct stamps { /* all-zero: nothing was looked at yet */
    struct stamp {
        struct timespec changed;
        int64_t size;
        ino_t inode;
    } file[STAMPS_FILES];
    pid_t holder; /* of the lock; 0: nobody */
};

/* path: of the run. */
void stamps_look(struct stamps *ret, const char *path);
/* Takes over a newer look; returns 1 if something differs. */
int stamps_renew(struct stamps *s, const struct stamps *newer);
/* When the run's newest supervisor began; 0 if that is unknown. */
const struct timespec *stamps_began(const struct stamps *s);

#endif
