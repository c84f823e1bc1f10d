/* fork.h - begins a new run with the state that another one had at one of its checkpoints.
 *
 * Copied   the checkpoint, the experience log's window (by reference where the filesystem
 *          can), metrics, pictures and the policies of frozen agents. The other run is only read; it
 *          may be live. If it removes the checkpoint meanwhile, the fork begins again with
 *          the newest one, unless a step was given.
 * Changes  that the other run accepted for that step or later are repeated at their
 *          steps, so that a fork without changes of its own ends with the same bytes; what
 *          waits there for a respawn waits in the fork, too (resume_config.h). The fork's own
 *          changes take effect at the checkpoint's step, also those that a live run makes with
 *          a respawn; the other run's changes to the same keys are left out.
 * Appears  when everything is copied and on the disk, by a rename (run_dir_appear).
 * Journal  begins with event=fork name=<path>@<step>, followed by the events of the other
 *          run that a resume repeats.
 */
#ifndef SUPERVISOR_BEGIN_FORK_H
#define SUPERVISOR_BEGIN_FORK_H

#include "supervisor/proc/binaries.h"
#include "supervisor/rundir/run_dir.h"

struct fork_args {
    const char *from;            /* path of the other run (run_dir_find) */
    const char *step;            /* of its checkpoint; NULL: the newest complete one */
    const char *runs_dir, *name; /* as for run_dir_create; name may be NULL */
    int force;                   /* likewise */
    const char *const *set;      /* "KEY=VALUE", as `brood set` takes them */
    size_t n_set;
    const struct binaries *binaries;
    int argc; /* for the provenance */
    char *const *argv;
    config_env_names_fn env_names;
    void (*on_skipped)(void *ctx, const char *line); /* as for resume_open */
    void *ctx;
    /* Called before it is copied: the path that the run will have (perhaps again with another
     * one), the inode of its folder, and its run.on_supervisor_death. NULL is fine. */
    void (*on_making)(void *ctx, const char *path, uint64_t inode, int resume);
    /* The values of `set` need no trial, which starts agents: whoever asks cannot wait for
     * them, and has tried values of this kind. */
    int is_tried;
};

/* Makes the directory of a run that is resumed from its one checkpoint; the caller frees it,
 * which releases its lock. Checks everything before it creates anything; after an error no
 * new directory is left. ERR_NOT_FOUND: no such checkpoint, or its log was removed;
 * -ESTALE: the other run has removed the checkpoint meanwhile; ERR_CONFIG: a change that is
 * impossible, a run that is over at that step, or other numerics; as resume_open, store_open
 * and run_dir_create. */
int fork_run(struct run_dir **ret, const struct fork_args *a, struct err *err);

#endif
