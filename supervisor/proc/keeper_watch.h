/* keeper_watch.h - the keeper's look at its supervisor: whether that goes on.
 *
 * Heartbeat  a counter in memory that both share. The supervisor's loop adds one in each tick;
 *            that is all it costs. 0: the supervisor is in no loop (it begins, or ends), and is
 *            expected to take its time.
 * Silence    the time without a heartbeat, or for which the supervisor is stopped (state T), as
 *            the keeper itself has lived through it: time during which the keeper did not run
 *            (a suspended machine, a frozen control group, Ctrl-Z) is not counted.
 * Not counted either: while the keeper has stopped the job, and while a debugger holds the
 *            supervisor. A supervisor that waits for disk space ticks.
 * Memory     allocates nothing after keeper_watch_init.
 */
#ifndef SUPERVISOR_PROC_KEEPER_WATCH_H
#define SUPERVISOR_PROC_KEEPER_WATCH_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define KEEPER_LOOK_MS  1000  /* between two looks, at most */
#define KEEPER_STALL_MS 10000 /* of silence, after which a supervisor is said to hang */

typedef _Atomic uint64_t keeper_beats;

struct keeper_watch {
    keeper_beats *beats; /* shared; NULL: it could not be made */
    int64_t limit_ms;    /* of silence (run.watchdog); 0: none */
    /* private */
    uint64_t last;
    int64_t looked_ms, silent_ms, overdue_ms;
    int is_stalled;
    struct timespec since; /* when the newest heartbeat was seen, or the stop */
};

enum keeper_news {
    KEEPER_NO_NEWS,
    KEEPER_STALLS,  /* for KEEPER_STALL_MS, or because it is stopped */
    KEEPER_GOES_ON, /* after that */
    KEEPER_OVERDUE, /* its silence has reached limit_ms */
};

/* Before the fork. Without memory for the counter only stops are noticed. */
void keeper_watch_init(struct keeper_watch *w);
/* Looks at the supervisor. is_paused: the keeper has stopped the job. */
enum keeper_news keeper_watch_look(struct keeper_watch *w, pid_t supervisor,
                                   int64_t now_ms, int is_paused);

#endif
