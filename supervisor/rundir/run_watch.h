/* run_watch.h - detects the end of a run without asking the run, so also when it was
 * killed.
 *
 * A run is live while a supervisor holds its lock and, if the supervisor was killed, while
 * its keeper lives, which may start another supervisor. Supervisor and keeper exit a little
 * later than the run ends; the watch waits for that, unless they continue with another run
 * (--seeds).
 */
#ifndef SUPERVISOR_RUNDIR_RUN_WATCH_H
#define SUPERVISOR_RUNDIR_RUN_WATCH_H

#include <poll.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_WATCH_EVERY_MS 50
#define RUN_WATCH_FDS      2

struct run_watch { /* private */
    const char *path;
    pid_t pid, keeper;
    int fds[RUN_WATCH_FDS]; /* their pidfds; -1: exited, or pidfd_open failed */
    int was_live;
    int has_end,
        code; /* what it has seen of the end: the directory may be removed since */
    int64_t free_since_ms; /* since when nobody holds the lock; 0: somebody does */
};

/* path: borrowed until run_watch_end. */
void run_watch_begin(struct run_watch *w, const char *path);
void run_watch_end(struct run_watch *w);

/* Fills in what to poll. Call run_watch_is_over when poll returns, at least every
 * RUN_WATCH_EVERY_MS. */
void run_watch_poll(const struct run_watch *w, struct pollfd ret[RUN_WATCH_FDS]);
/* 1: the run is over, with this exit code (run_record_exit_code). */
int run_watch_is_over(struct run_watch *w, int *ret_code);

#endif
