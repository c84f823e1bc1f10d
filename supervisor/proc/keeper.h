/* keeper.h - the small process in front of a run: `brood run` is the keeper; its
 * child is the sweeper, and that one's child the supervisor.
 *
 * Keeper      forwards signals, takes part in the terminal's job control, and exits with the
 *             supervisor's exit code, or with 128+n if signal n ended the supervisor, once no
 *             process of the run is left. It uses no libuv and allocates nothing.
 * Supervisor  is in a process group of its own, so that a signal from the terminal reaches
 *             it once, through the keeper. When the keeper ends, the supervisor reads end of
 *             file from its link and ends the run at once. It begins with the signals that
 *             stop a run blocked (signals.h).
 * Sweeper     sleeps while the run lasts (sweeper.h). When the supervisor has ended for whatever
 *             reason, it kills and reaps all that descends from it, and exits. It does so if the
 *             keeper is dead, too; if the sweeper is killed, the keeper does it.
 * Mark        BROOD_MARK in the environment of every process that the run starts.
 * Grace       processes with BROOD_GRACE_MARK instead end by themselves when the supervisor has
 *             ended. Keeper and sweeper wait for them, at most KEEPER_GRACE_MS, before they kill.
 * Nodes       `brood node` has a keeper and a sweeper, too (keeper_args.mark): what is said here of
 *             the supervisor holds for the node, which is never resumed. A node that is stopped for
 *             long would outlive a run that died meanwhile: its keeper kills it.
 * Watch       a supervisor that is stopped by a signal, or whose loop gives no sign of life, is
 *             reported, and with run.watchdog ended as if it had died (keeper_watch.h).
 * Death       if a signal ended the supervisor and the run is to be resumed, the keeper
 *             executes itself again with the same command line, at most KEEPER_MAX_DEATHS
 *             times without a checkpoint in between. The command then calls
 *             keeper_resume_task.
 * Ignored     if the keeper was started with SIGHUP or SIGINT ignored (nohup, background
 *             jobs of a shell), they stay ignored.
 * Detached    a keeper with a report_fd (detach.h) sends its report and closes the caller's
 *             files when the supervisor sends keeper_send_under_way. If the supervisor dies
 *             before, the keeper does not resume the run.
 * Secrecy     none of the three processes can be traced, inspected or dumped except by root
 *             (confine_memory).
 * Threads     call keeper_split before any thread, loop or child exists.
 */
#ifndef SUPERVISOR_PROC_KEEPER_H
#define SUPERVISOR_PROC_KEEPER_H

#include "common/err/err.h"
#include "supervisor/proc/keeper_watch.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_MAX_DEATHS 5
#define KEEPER_MARK       "BROOD_MARK"
#define KEEPER_GRACE_MARK "BROOD_GRACE_MARK"
#define KEEPER_GRACE_MS   5000
#define KEEPER_NODE_MARK  "BROOD_NODE_MARK" /* the processes of a node; some have both */

/* The supervisor's end. */
struct keeper_link {
    int fd; /* at end of file when the keeper has ended; -1: there is no keeper */
    int has_terminal; /* the command was started from one: SIGHUP means that it is gone */
    int keys;         /* a pipe, not blocking, of what is typed after keeper_send_keys */
    keeper_beats *beats; /* keeper_beat; NULL: nobody counts them */
};

#define KEEPER_LINK_NONE ((struct keeper_link){.fd = -1, .keys = -1})

/* The death of a supervisor by a signal. */
struct keeper_death {
    const char *path; /* of its run */
    pid_t pid;
    int signum;
    int resumes;    /* the keeper resumes the run; 0: it exits with exit_code */
    int is_cut_off; /* a second interrupt ended it */
    int exit_code;
};

/* A supervisor that does not go on, or goes on again (keeper_watch.h). */
struct keeper_stall {
    const char *path; /* of its run */
    pid_t pid;
    const char *since; /* time of its last sign of life */
    const char *why;   /* stall_text; NULL: it goes on */
};

struct keeper_args {
    char **argv;       /* the whole command line */
    const char *who;   /* prefix of messages */
    const char *mark;  /* the variable; NULL: KEEPER_MARK */
    const char *child; /* for messages; NULL: "the supervisor" */
    int report_fd; /* of detach_split; the keeper closes it. -1: no report is wanted */
    int max_stopped_ms; /* the supervisor is killed when it was stopped for so long; 0: never */
    /* Called in the keeper when the run's processes are dead; must not allocate. */
    void (*on_death)(const struct keeper_death *death);
    /* Called in a child of the keeper, because the disk may be what the supervisor waits for.
     * NULL: nobody is told. */
    void (*on_stall)(const struct keeper_stall *stall);
};

/* Forks. Returns 1 in the supervisor, with *ret. Returns 0 in the keeper when the run is
 * over, with *ret_code to exit with; or the keeper executes itself again. Returns a negative
 * code if a process could not be created. args: borrowed until the keeper ends. */
int keeper_split(struct keeper_link *ret, const struct keeper_args *args, int *ret_code,
                 struct err *err);

/* What a command has to resume after the death of its supervisor. */
struct keeper_task {
    int deaths;    /* in a row, without a checkpoint in between */
    uint64_t from; /* step at which the last supervisor began */
    int committed; /* the run can be resumed from its path; 0: start the command afresh */
    unsigned place; /* index of the run among those of the command, from 0 */
    /* The inode of the folder that was to become the run (keeper_send_making); 0: it is the
     * run. */
    uint64_t folder;
    char path[PATH_MAX];
};
/* Returns 1 and fills *ret if there is a run to resume; otherwise 0, and *ret is all zero. */
int keeper_resume_task(struct keeper_task *ret);
/* The pid of this process's keeper; 0: none. */
pid_t keeper_pid(void);

/* The supervisor now works on the run at `path`, number `place` of its command, from step
 * `from`. resume: the keeper is to resume the run if the supervisor dies. */
void keeper_send_run(const struct keeper_link *l, const char *path, unsigned place,
                     uint64_t from, int resume);
/* A folder of that inode is to become the run at `path`, which need not exist yet: the keeper is
 * to execute the command again if the supervisor dies. */
void keeper_send_making(const struct keeper_link *l, const char *path, uint64_t folder);
/* The changes that this command made to the resumed run are stored: from now on the run can
 * be resumed from its path alone; before, the whole command has to be repeated. */
void keeper_send_committed(const struct keeper_link *l);
/* The first round is over. */
void keeper_send_under_way(const struct keeper_link *l);
/* The view can be scrolled: the keeper, which alone is in the terminal's foreground, sends what
 * is typed to link.keys, and restores the terminal at the end. */
void keeper_send_keys(const struct keeper_link *l);
/* The supervisor's loop goes on; to be called about once in 100 ms. keeper_rest: from now on no
 * loop is expected to. */
static inline void keeper_beat(const struct keeper_link *l)
{
    if (l->beats != NULL)
        (void)atomic_fetch_add_explicit(l->beats, 1, memory_order_relaxed);
}
static inline void keeper_rest(const struct keeper_link *l)
{
    if (l->beats != NULL)
        atomic_store(l->beats, 0);
}
/* A supervisor that is silent for so long is to be ended as if it had died; 0: never. */
void keeper_send_watchdog(const struct keeper_link *l, int64_t limit_ms);
/* A checkpoint was committed. */
void keeper_send_checkpoint(const struct keeper_link *l);

#endif
