/* run_cgroup.h - a control group of the kernel's for all processes of a run.
 *
 * Whatever a process of the run starts is in the run's group, and cannot leave it unless
 * it may write to the groups itself; so all of it can be ended at once, also what cleared
 * its environment, left its session and closed its descriptors.
 *
 * Where    cgroup v2 is mounted and the group that this process is in is writable: for
 *          root, and where systemd delegates (a user's own services and scopes). Linux
 *          5.14 or newer. BROOD_CGROUP=no in the environment: nowhere.
 * Place    "brood-MARK" below the group that the keeper is in; no controller is enabled.
 * Source   Documentation/admin-guide/cgroup-v2.rst; clone(2), CLONE_INTO_CGROUP
 */
#ifndef SUPERVISOR_PROC_RUN_CGROUP_H
#define SUPERVISOR_PROC_RUN_CGROUP_H

#include <limits.h>
#include <sys/types.h>

struct run_cgroup {
    char path[PATH_MAX]; /* "": there is none */
};

/* Makes the group, still empty. Where none can be had, *ret has none. */
void run_cgroup_make(struct run_cgroup *ret, const char *mark);
/* As fork(), but the child begins in the group. If there is none, or the kernel does not
 * do it, as fork(). */
pid_t run_cgroup_fork(const struct run_cgroup *g);
/* SIGKILL to all that is in it and in groups below it. */
void run_cgroup_kill(const struct run_cgroup *g);
/* 0: it is removed, with those below it, or there was none; -1: something is still in it. */
int run_cgroup_remove(struct run_cgroup *g);
/* Could a run have one? */
int run_cgroup_is_possible(void);

#endif
