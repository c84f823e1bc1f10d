/* slurm.h - what is asked of Slurm: batch jobs of `brood submit`, and cluster.launcher: slurm, where
 * `srun` starts the nodes and `scancel` ends them.
 *
 * Allocation  where SLURM_JOB_ID is set (inside of sbatch or salloc), each node is a step of that
 *             job, on a machine of its own: node k on the job's k-th. Elsewhere each node is a
 *             job of its own, so that one that is lost can be started again on any machine.
 * Steps       are started with --overlap, so that none waits for the resources of another step,
 *             and has all that the job has on its machine.
 * Name        every start has a job name (of its job, or step) of its own. By it the start is
 *             found again, also one whose srun died before the node connected.
 * Fence       killing srun does not end what it started. A fence lists the jobs or steps of a
 *             start's name with squeue, cancels them with scancel, and is over when there are
 *             none; or, if Slurm does not answer, when the node must have ended by itself,
 *             because its connection is lost (node.h).
 * Death       if supervisor or keeper die, srun, whose two processes watch each other, cancels what
 *             it has started, and so does the node when its connection ends. Both get a moment for
 *             that (KEEPER_GRACE_MARK): an srun that is killed in between can leave a job without
 *             processes.
 */
#ifndef SUPERVISOR_NODE_SLURM_H
#define SUPERVISOR_NODE_SLURM_H

#include "common/config/run_config.h"
#include "common/mem/words.h"
#include "supervisor/net/secure_channel.h"
#include "supervisor/proc/command_output.h"

#define SLURM_NAME_BYTES   128
#define SLURM_STATE_BYTES  64
#define SLURM_REASON_BYTES 128

/* The job that this process is in; NULL: none. */
const char *slurm_job(void);
/* Executes `scancel` on it in place of this process; returns if there is none, or on failure. */
void slurm_cancel_own_job(const char *why);
/* How many nodes a run has: cluster.nodes, or if it is not given, as many as the job has. */
size_t slurm_nodes(const struct cluster_config *config);
/* Checks what can be known before anything is started: the programs, the options, and whether
 * the job has enough nodes. ERR_CONFIG. */
int slurm_check(const struct cluster_config *config, struct err *err);
/* slurm_check for `brood check`: also asks Slurm whether it would accept a node's job. */
int slurm_check_job(const struct cluster_config *config, struct err *err);

/* "brood-<run>-<node>-<hex digits of id>". */
void slurm_make_name(char ret[SLURM_NAME_BYTES], const char *run, size_t node,
                     const uint8_t id[CHANNEL_ID_BYTES]);
/* The words of srun before those of `brood node`. */
void slurm_add_words(struct words *w, const struct cluster_config *config, size_t node,
                     const char *name);
/* Whether this output of srun, its last lines, says that its job waits in the queue. */
int slurm_says_waiting(const char *output);
/* The ids "12" or "12.3" of lines "<id> <name>" with that name, each followed by a space, in
 * ret. Returns how many; what does not fit is left out. */
size_t slurm_find_ids(const char *lines, const char *name, char *ret, size_t size);

/* Sends SIGTERM to all processes of the jobs of that name, or inside of a job of its steps, but
 * for those that *known lists; cancels those that still wait. *known, NULL at first, gets the ids
 * of those that were signalled, each followed by a space; free(). To be called again while some
 * are left: Slurm may be too busy to answer, or only now begin a job. */
void slurm_interrupt(const char *name, char **known);

/* Gives a script to sbatch. *ret_id: the job's id, "12"; free(). ERR_STATE: it was refused. */
int slurm_submit(const char *script, char **ret_id, struct err *err);

/* state: of a job, "PENDING", "RUNNING", ...; "over"; "unknown": Slurm does not answer. reason: why
 * it is pending, or there is no answer; "". */
void slurm_look(const char *id, char state[SLURM_STATE_BYTES],
                char reason[SLURM_REASON_BYTES]);

enum slurm_fence_state {
    SLURM_FENCE_NONE, /* nothing to cancel */
    SLURM_FENCE_SET,  /* something was launched; slurm_fence_end cancels it */
    SLURM_FENCE_LISTING,
    SLURM_FENCE_CANCELLING,
    SLURM_FENCE_PAUSING, /* until Slurm is asked again */
};

struct slurm_fence { /* does not move while a program of its runs */
    enum slurm_fence_state state;
    char name[SLURM_NAME_BYTES];
    int is_terminated;
    uint64_t since_ms, asked_ms;
    struct asked_command ask; /* squeue or scancel */
};

/* The start of that name is to be launched. */
void slurm_fence_set(struct slurm_fence *f, const char *name);
/* srun has ended with code 0, so that nothing is left. */
void slurm_fence_clear(struct slurm_fence *f);
/* Ends a launched srun: SIGTERM, upon which it cancels what it asked for, then SIGKILL. To be
 * called until it has ended. */
void slurm_end_srun(struct slurm_fence *f, const struct program *srun);
/* To be called again and again, when srun has ended, until it returns 1. within_ms: since the
 * first call; after that, the fence is over also if Slurm did not answer. */
int slurm_fence_end(struct slurm_fence *f, uint64_t within_ms);
void slurm_fence_done(struct slurm_fence *f);

#endif
