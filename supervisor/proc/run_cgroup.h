/* run_cgroup.h - a Linux control group for all processes of a run.
 *
 * Every process that a process of the run starts is in the run's group and cannot leave it
 * unless it has write access to the groups. So all of them can be killed at once, even
 * those that cleared their environment, left their session and closed their descriptors.
 *
 * Where    available if cgroup v2 is mounted and this process's group is writable: for
 *          root, and where systemd delegates (a user's own services and scopes). Linux
 *          5.14 or newer. BROOD_CGROUP=no in the environment switches it off.
 * Path     "brood-MARK" below the keeper's group; no controller is enabled.
 * Source   Documentation/admin-guide/cgroup-v2.rst; clone(2), CLONE_INTO_CGROUP
 */
#ifndef SUPERVISOR_PROC_RUN_CGROUP_H
#define SUPERVISOR_PROC_RUN_CGROUP_H

#include <limits.h>
#include <sys/types.h>

struct run_cgroup {
    char path[PATH_MAX]; /* "": no group */
};

/* Creates the group, still empty. Where that is impossible, ret->path is "". Removes groups
 * without processes whose keeper, the number at the beginning of MARK, is gone. */
void run_cgroup_make(struct run_cgroup *ret, const char *mark);
/* Like fork(), but the child starts in the group. Plain fork() if there is no group or the
 * kernel does not support this. */
pid_t run_cgroup_fork(const struct run_cgroup *g);
/* Sends SIGKILL to every process in the group and in groups below it. */
void run_cgroup_kill(const struct run_cgroup *g);
/* Removes the group and those below it. Returns 0 when done or if there is no group; -1 if
 * it still contains processes. */
int run_cgroup_remove(struct run_cgroup *g);
/* Whether a run could have a control group here. */
int run_cgroup_is_possible(void);

#endif
