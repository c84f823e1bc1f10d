/* sweeper.h - the process between keeper and supervisor, which sleeps while the run lasts.
 *
 * It is the supervisor's parent and a child sub-reaper. So when the supervisor has ended, every
 * process that descends from it, and has lost its parent, becomes the sweeper's child, whatever
 * it did to its environment, descriptors, session, control group or memory; and it does so
 * without any privilege. The sweeper kills and reaps them all, and ends.
 *
 * Ends     the supervisor stays a zombie until the sweeper has ended. Then it is the keeper's, which
 *          so learns its status; likewise, and with all other processes, if the sweeper itself is
 *          killed. If the keeper is killed, the sweeper continues a stopped supervisor, which
 *          then ends by itself (keeper.h).
 * Stops    of the supervisor are news, as the keeper is not its parent.
 */
#ifndef SUPERVISOR_PROC_SWEEPER_H
#define SUPERVISOR_PROC_SWEEPER_H

#include "supervisor/proc/run_cgroup.h"

#include <sys/types.h>

/* What the keeper reads from the sweeper's pipe. */
struct sweeper_news {
    enum {
        SWEEPER_STARTED, /* value: the supervisor's pid */
        SWEEPER_FAILED,  /* value: errno of its fork; the sweeper ends */
        SWEEPER_STOPPED, /* the supervisor has stopped */
        SWEEPER_CONTINUED,
    } what;
    int value;
};

struct sweeper {
    pid_t keeper, supervisor;
    int news_fd;              /* the pipe's end */
    struct run_cgroup cgroup; /* of the supervisor and its descendants */
    const char *grace_mark;   /* of processes with grace (sweeper_end_all) */
};

/* To be called before the supervisor is forked. Gives this process its name, by which people and
 * tests know it, and returns the former one, which is the supervisor's. */
void sweeper_begin(char ret_name[16]);
/* Runs in a child of the keeper that has forked the supervisor; closes all descriptors but the
 * pipe. */
_Noreturn void sweeper_run(struct sweeper *s);

/* Kills and reaps all that is below this process except its child `spared`, and removes the
 * group and the scratch folder (scratch.h); both may be missing ("" and 0). grace_mark: first wait until the processes whose
 * environment has the variable KEEPER_GRACE_MARK with this value have ended by themselves, at most
 * KEEPER_GRACE_MS; NULL: do not wait. */
void sweeper_end_all(struct run_cgroup *g, const char *grace_mark, pid_t spared);

#endif
