/* keeper.h - the small process in front of a run: `brood run` is the keeper, and the
 * supervisor is its child.
 *
 * Keeper      forwards signals, pauses and goes on with the terminal's jobs, reaps, and
 *             when the supervisor is gone, however, kills and reaps all that is left of
 *             the run, also what left its session: it is a child sub-reaper. It passes
 *             the exit code on; a supervisor that died by signal n makes it 128+n. It
 *             knows no libuv and allocates nothing.
 * Supervisor  lives in a process group of its own, so that what the terminal sends
 *             reaches it once, through the keeper. When the keeper is gone its link ends:
 *             it then ends the run at once.
 * Sweeper     a third one, asleep for the run: only when keeper and supervisor are both
 *             gone it kills whatever is in the run's control group (run_cgroup.h), has the
 *             run's mark in its environment, or holds one of its pipes (pipe_marks.h),
 *             and ends.
 * Mark        BROOD_MARK in the environment of everything that the run starts.
 * Death       of the supervisor, where the run is to be resumed: the keeper executes
 *             itself anew with the same command line, at most KEEPER_MAX_DEATHS times
 *             without a checkpoint in between; the command then asks keeper_goes_on.
 * Ignored     SIGHUP and SIGINT stay so where whoever started the keeper ignored them, as
 *             nohup and a shell's background jobs have it.
 * Detached    a keeper that is to report (detach.h) does so, and lets go of its caller's
 *             files, when the supervisor says that it is under way; if that dies before,
 *             the keeper does not go on with the run.
 * Secrecy     none of the three can be traced, looked into or dumped, but by root;
 *             BROOD_DEBUG=1 in the environment leaves that as it was, for gdb and cores.
 * Threads     split before anything else exists: no thread, no loop, no child.
 */
#ifndef SUPERVISOR_PROC_KEEPER_H
#define SUPERVISOR_PROC_KEEPER_H

#include "common/err/err.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_MAX_DEATHS 5
#define KEEPER_MARK       "BROOD_MARK"

/* The supervisor's end. */
struct keeper_link {
    int fd; /* ends when the keeper is gone; -1: there is no keeper */
};

#define KEEPER_LINK_NONE ((struct keeper_link){.fd = -1})

/* A supervisor that was ended by a signal. */
struct keeper_death {
    const char *path; /* of the run that it held */
    pid_t pid;
    int signum;
    int goes_on; /* the keeper goes on with the run; otherwise it ends, with exit_code */
    int is_cut_off; /* by a second interrupt */
    int exit_code;
};

struct keeper_args {
    char **argv;     /* the whole command line */
    const char *who; /* what messages begin with */
    int report_fd;   /* detach.h; taken. -1: nobody waits for a report */
    /* In the keeper, when nothing of the supervisor is left; must not allocate. */
    void (*on_death)(const struct keeper_death *death);
};

/* Returns 1 in the supervisor, with *ret. In the keeper it returns when all is over: 0,
 * with *ret_code to exit with; or it is executed anew. A negative code: no process could
 * be had. args: borrowed, until the keeper ends. */
int keeper_split(struct keeper_link *ret, const struct keeper_args *args, int *ret_code,
                 struct err *err);

/* What a command is to go on with, whose supervisor died. */
struct keeper_task {
    int deaths;     /* so far, without a checkpoint in between */
    uint64_t from;  /* the step at which the last supervisor began */
    int stands;     /* the run has a checkpoint to go on from; 0: it begins anew */
    unsigned place; /* of the run among those of the command, from 0 */
    char path[PATH_MAX];
};
/* Returns whether there is one; otherwise all of *ret is 0. */
int keeper_goes_on(struct keeper_task *ret);
/* The keeper of this process; 0: it has none. */
pid_t keeper_pid(void);

/* The supervisor holds the run at `path`, the one at `place` of its command, and begins at
 * step `from`; resume: go on with it after a death of the supervisor. */
void keeper_tell_run(const struct keeper_link *l, const char *path, unsigned place,
                     uint64_t from, int resume);
/* The run that it resumes is now as this command wants it: from here on its path alone
 * goes on with it, before that only the whole command again. */
void keeper_tell_stands(const struct keeper_link *l);
/* Its first round is over. */
void keeper_tell_under_way(const struct keeper_link *l);
/* A checkpoint was committed. */
void keeper_tell_checkpoint(const struct keeper_link *l);

#endif
