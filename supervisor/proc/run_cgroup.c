#include "supervisor/proc/run_cgroup.h"

#include "common/io/signal_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEPTH_MAX = 16 }; /* of groups that workers created below the run's */

/* ---- this process's group ---- */

/* "0::/user.slice/..." among the lines of /proc/self/cgroup. */
static int read_own_group(char *ret, size_t size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX + 8];
    int found = 0;

    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        found = strncmp(line, "0::/", 4) == 0 && strlen(line + 3) < size;
        if (found)
            memcpy(ret, line + 3, strlen(line + 3) + 1);
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* "41 31 0:38 ROOT MOUNT_POINT OPTIONS... - cgroup2 ...": the part of the tree below ROOT
 * is seen at MOUNT_POINT. */
static int read_mount(char *ret_root, char *ret_point)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    size_t cap = 0;
    int found = 0;

    while (f != NULL && !found && getline(&line, &cap, f) > 0)
        found = strlen(line) < PATH_MAX && strstr(line, " - cgroup2 ") != NULL &&
                sscanf(line, "%*d %*d %*s %s %s", ret_root, ret_point) == 2 &&
                strchr(ret_point, '\\') == NULL; /* escaped characters are not decoded */
    free(line);
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* Finds the folder of this process's group. */
static int find_own(char ret[PATH_MAX])
{
    char group[PATH_MAX], root[PATH_MAX], point[PATH_MAX];
    const char *below;
    const char *wish = getenv("BROOD_CGROUP");
    size_t n;

    if ((wish != NULL && strcmp(wish, "no") == 0) ||
        !read_own_group(group, sizeof(group)) || !read_mount(root, point))
        return 0;
    n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(group, root, n) != 0 || (group[n] != '/' && group[n] != '\0'))
        return 0; /* the group is outside the mounted part of the tree */
    below = group + n;
    return snprintf(ret, PATH_MAX, "%s%s", point, strcmp(below, "/") == 0 ? "" : below) <
           PATH_MAX;
}

static int join(char ret[PATH_MAX], const char *folder, const char *name)
{
    return snprintf(ret, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

int run_cgroup_is_possible(void)
{
    char own[PATH_MAX], procs[PATH_MAX];

    return find_own(own) && access(own, W_OK) == 0 && join(procs, own, "cgroup.procs") &&
           access(procs, W_OK) == 0;
}

/* ---- the group ---- */

static int remove_tree(const char *path, int depth)
{
    DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
    const struct dirent *e;
    char below[PATH_MAX];

    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_type == DT_DIR && e->d_name[0] != '.' && join(below, path, e->d_name))
            (void)remove_tree(below, depth + 1);
    if (dir != NULL)
        (void)closedir(dir);
    return rmdir(path) == 0 || errno == ENOENT ? 0 : -1;
}

/* Removes groups of runs of which every process was killed at once, the keeper included: nobody
 * was left who could do it. */
static void remove_abandoned(const char *own)
{
    DIR *dir = opendir(own);
    char path[PATH_MAX];
    const struct dirent *e;
    int keeper;

    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_type == DT_DIR && sscanf(e->d_name, "brood-%d-", &keeper) == 1 &&
            keeper > 0 && !process_exists((pid_t)keeper) && join(path, own, e->d_name))
            (void)remove_tree(path, 0); /* fails if it still contains processes */
    if (dir != NULL)
        (void)closedir(dir);
}

void run_cgroup_make(struct run_cgroup *ret, const char *mark)
{
    char own[PATH_MAX], name[96], control[PATH_MAX];

    ret->path[0] = '\0';
    (void)snprintf(name, sizeof(name), "brood-%s", mark);
    if (!run_cgroup_is_possible() || !find_own(own))
        return;
    remove_abandoned(own);
    if (join(ret->path, own, name) && mkdir(ret->path, 0755) == 0) {
        if (join(control, ret->path, "cgroup.kill") && access(control, W_OK) == 0)
            return;
        (void)run_cgroup_remove(ret); /* kernels before 5.14 have no cgroup.kill */
    }
    ret->path[0] = '\0';
}

static int write_control(const struct run_cgroup *g, const char *file, const char *text)
{
    char path[PATH_MAX];
    int fd, rc;

    if (!join(path, g->path, file) || (fd = open(path, O_WRONLY | O_CLOEXEC)) < 0)
        return -1;
    rc = write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
    (void)close(fd);
    return rc;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(SYS_clone3)
static pid_t clone_into(const struct run_cgroup *g)
{
    errno = ENOSYS;
    return -1;
}
#else
/* Moving a process into a group takes the kernel 12 ms (it waits for all processors),
 * creating it there takes no time. glibc's fork() cannot do that. Its other work is not
 * needed here: this process has one thread, which holds no lock. */
static pid_t clone_into(const struct run_cgroup *g)
{
    const int fd = open(g->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
    pid_t pid;

    if (fd < 0)
        return -1;
    args.cgroup = (uint64_t)fd;
    pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    (void)close(fd); /* in parent and child */
    return pid;
}
#endif

pid_t run_cgroup_fork(const struct run_cgroup *g)
{
    pid_t pid = g->path[0] != '\0' ? clone_into(g) : -1;

    if (pid >= 0)
        return pid;
    pid = fork();
    if (pid == 0 && g->path[0] != '\0')
        (void)write_control(g, "cgroup.procs", "0");
    return pid;
}

void run_cgroup_kill(const struct run_cgroup *g)
{
    if (g->path[0] != '\0')
        (void)write_control(g, "cgroup.kill", "1");
}

int run_cgroup_remove(struct run_cgroup *g)
{
    if (g->path[0] == '\0')
        return 0;
    if (remove_tree(g->path, 0) < 0)
        return -1;
    g->path[0] = '\0';
    return 0;
}
