/* reading.h - reads runs' files on threads: whatever a run's directory is, the loop goes on.
 *
 * A folder of runs may be shared, and a run in it may be a neighbour's: with files as large as
 * files can be, endless folders, a lock that is never taken, a file system that hangs.
 *
 * Lanes     what is read for the same purpose; each lane has threads of its own.
 * Order     first come, first served within a lane, but one reading of a directory at a time:
 *           a run that hangs takes one thread.
 * Deadline  a reading that has not ended READING_WITHIN_MS after reading_add (READING_STUDY:
 *           six times that) is late: whoever waits for it is told so, and its thread is
 *           replaced as long as there are spare ones.
 *           What reads another user's run gives up a second before (patience.h).
 * Held      a directory that cannot be held (beneath.h) is not read: it was removed, or somebody
 *           has put a link in its place.
 * Threads   reading_* are called by the loop's thread.
 */
#ifndef SUPERVISOR_WEB_READING_H
#define SUPERVISOR_WEB_READING_H

#include "common/err/err.h"

#include <stddef.h>
#include <sys/queue.h>
#include <uv.h>

enum { READING_WITHIN_MS = 5000 };

enum reading_lane {
    READING_LIST,    /* the walk through the folder, and the runs' summaries */
    READING_VIEW,    /* runs that somebody looks at */
    READING_REQUEST, /* what a page has asked for */
    READING_STUDY,
    READING_N_LANES
};

/* Part of the caller's struct, which has what is read and the result. */
struct reading {
    enum reading_lane lane;
    const char *dir;                 /* of the run or study; borrowed until `free` */
    void (*read)(struct reading *r); /* on a thread, with the directory held */
    /* On the loop, once, unless the server ends before. why: NULL: it was read. Otherwise there is
     * no result to look at. ERR_TIMEOUT: it is late, and the thread may still be at work; else
     * the error of beneath_hold, and `read` was not called. */
    void (*end)(struct reading *r, const struct err *why);
    void (*free)(struct reading *r); /* on the loop, once: no thread uses it any more */

    struct readings *all; /* private from here on */
    uv_work_t work;
    uint64_t ends_ms;
    enum { READING_WAITS, READING_RUNS, READING_IS_LATE } state;
    int has_begun;
    struct err not_held; /* code 0: the directory was held */
    TAILQ_ENTRY(reading) entry;
};

/* The caller's struct, which has the reading as its member of that name. */
#define READING_OF(type, r) ((type *)((char *)(r)-offsetof(type, reading)))

struct readings; /* opaque */

/* Sets the number of threads; before libuv starts them. */
void readings_set_pool(void);
struct readings *readings_new(uv_loop_t *loop);
/* Begins no further reading, and frees those that wait. The loop ends once the threads have; one that hangs ends with the
 * process, within READING_WITHIN_MS. */
void readings_close(struct readings *all);
/* After the loop has ended: it ends once more, with the timer closed, then readings_free. */
void readings_end(struct readings *all);
void readings_free(struct readings *all);
void reading_add(struct readings *all, struct reading *r);
/* The loop's clock, in milliseconds. */
uint64_t readings_now(const struct readings *all);
int reading_is_late(const struct reading *r);
/* What to tell who waits for a late reading: ERR_TIMEOUT. */
struct err reading_late_err(const struct reading *r);

#endif
