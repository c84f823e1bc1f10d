/* run_watch.h - whether a run is over: without asking it, so also when it was killed.
 *
 * A run lives while a supervisor holds its lock, and, after a supervisor that was killed,
 * while the keeper is there that may go on with it. Its processes end a little later than
 * the run does; they are waited for, unless they go on with another run (--seeds).
 */
#ifndef SUPERVISOR_RUN_RUN_WATCH_H
#define SUPERVISOR_RUN_RUN_WATCH_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_WATCH_EVERY_MS 50
#define RUN_WATCH_FDS      2

struct run_watch { /* private */
    const char *path;
    pid_t pid, keeper;
    int fds[RUN_WATCH_FDS]; /* pidfds of the two; -1: gone, or not to be had */
    int was_live;
    int64_t free_since_ms; /* the lock; 0: it is held */
};

/* path: borrowed until run_watch_end. */
void run_watch_begin(struct run_watch *w, const char *path);
void run_watch_end(struct run_watch *w);

/* What to poll: then, and at least every RUN_WATCH_EVERY_MS, run_watch_is_over. */
void run_watch_poll(const struct run_watch *w, struct pollfd ret[RUN_WATCH_FDS]);
/* 1: it is over, with this exit code (run_record.h). */
int run_watch_is_over(struct run_watch *w, int *ret_code);

#endif
