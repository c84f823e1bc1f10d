#include "tests/support/alone.h"

#include "common/io/monotonic.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define VARIABLE   "BROOD_ALONE" /* "INODE UID": of the PID namespace outside; the user */
#define FIRST_NAME "brood-alone" /* of the first process in the namespace */

/* The user ids from here on are nobody's: users, containers and services have others. A pid is
 * added, so that two such places have two users. */
#define FIRST_UID 0x70000000u

static unsigned long long namespace_inode(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* Whether /proc/PID/status has the user id among its four. */
static int has_uid(const char *pid, unsigned uid)
{
    char path[300], line[256];
    unsigned u[4];
    int found = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%s/status", pid);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "Uid: %u %u %u %u", &u[0], &u[1], &u[2], &u[3]) == 4)
            found = u[0] == uid || u[1] == uid || u[2] == uid || u[3] == uid;
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* Whether any process that can be seen has the user id. */
static int is_used(unsigned uid)
{
    DIR *dir = opendir("/proc");
    const struct dirent *e;
    int found = dir == NULL;

    while (dir != NULL && !found && (e = readdir(dir)) != NULL)
        found = isdigit((unsigned char)e->d_name[0]) && has_uid(e->d_name, uid);
    if (dir != NULL)
        (void)closedir(dir);
    return found;
}

/* Writes the names of the processes there but the first one; returns their number. */
static int list_others(char *ret, size_t size)
{
    DIR *dir = opendir("/proc");
    const struct dirent *e;
    size_t used = 0;
    int n = 0;

    ret[0] = '\0';
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char path[300], name[32] = "?";
        FILE *f;

        if (!isdigit((unsigned char)e->d_name[0]) || strcmp(e->d_name, "1") == 0)
            continue;
        (void)snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
        if ((f = fopen(path, "re")) == NULL)
            continue;
        if (fscanf(f, "%31[^\n]", name) == 1 && used < size)
            used += (size_t)snprintf(ret + used, size - used, "%s%s (%s)",
                                     n > 0 ? ", " : "", name, e->d_name);
        (void)fclose(f);
        n++;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return n;
}

static int fail(struct alone_result *r, const char *what)
{
    (void)snprintf(r->why, sizeof(r->why), "%s: %s", what, strerror(errno));
    return -1;
}

static int become(unsigned uid, struct alone_result *r)
{
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 ||
        setresuid(uid, uid, uid) < 0)
        return fail(r, "changing the user");
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* else /proc/self is root's */
    return 0;
}

/* The first process of the namespace, which reaps. */
static void be_first(struct alone_result *r, unsigned uid, int (*fn)(void *ctx),
                     void *ctx)
{
    int64_t until;
    pid_t pid, got;
    int status;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, FIRST_NAME);
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0) {
        (void)fail(r, "mounting /proc");
        return;
    }
    pid = fork();
    if (pid < 0) {
        (void)fail(r, "fork");
        return;
    }
    if (pid == 0)
        _exit(become(uid, r) == 0 && alone_fault() == NULL ? fn(ctx) : 126);
    r->is_possible = 1;
    do {
        got = waitpid(-1, &status, 0);
        if (got == pid)
            r->status = status;
    } while (got != pid && (got > 0 || errno == EINTR));
    until = monotonic_ms() + ALONE_LEFT_MS;
    while ((r->n_left = list_others(r->why, sizeof(r->why))) > 0 &&
           monotonic_ms() < until) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        (void)poll(NULL, 0, 5);
    }
}

/* Makes the namespaces and waits for their first process. */
static void make_place(struct alone_result *r, int answer, int (*fn)(void *ctx),
                       void *ctx)
{
    const unsigned uid = FIRST_UID + (unsigned)getpid();
    char text[64];
    pid_t first;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(text, sizeof(text), "%llu %u", namespace_inode(), uid);
    (void)setenv(VARIABLE, text, 1);
    if (is_used(uid)) {
        (void)snprintf(r->why, sizeof(r->why), "the user id %u is in use", uid);
    } else if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC) < 0) {
        (void)fail(r, "unshare");
    } else if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        (void)fail(r, "mount");
    } else if ((first = fork()) < 0) {
        (void)fail(r, "fork");
    } else if (first > 0) {
        (void)waitpid(first, NULL, 0);
        return;
    } else {
        be_first(r, uid, fn, ctx);
    }
    if (write(answer, r, sizeof(*r)) != sizeof(*r))
        _exit(1);
}

void alone_run(struct alone_result *ret, int (*fn)(void *ctx), void *ctx)
{
    int ends[2];
    pid_t pid;

    *ret = (struct alone_result){0};
    if (geteuid() != 0) {
        (void)snprintf(ret->why, sizeof(ret->why), "it needs root");
        return;
    }
    (void)fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        (void)fail(ret, "pipe, fork");
        return;
    }
    if (pid == 0) {
        struct alone_result r = {0};

        make_place(&r, ends[1], fn, ctx);
        _exit(0);
    }
    (void)close(ends[1]);
    if (read(ends[0], ret, sizeof(*ret)) != sizeof(*ret))
        (void)snprintf(ret->why, sizeof(ret->why), "its first process was killed");
    (void)close(ends[0]);
    (void)waitpid(pid, NULL, 0);
}

const char *alone_fault(void)
{
    const char *text = getenv(VARIABLE);
    unsigned long long outside;
    char self[32] = "", name[32] = "";
    unsigned uid;
    FILE *f;

    if (text == NULL || sscanf(text, "%llu %u", &outside, &uid) != 2)
        return "it must be started by tests/support/alone";
    if (outside == 0 || namespace_inode() == outside)
        return "it shares its PID namespace with other processes";
    if (readlink("/proc/self", self, sizeof(self) - 1) < 0 || atoi(self) != getpid())
        return "/proc is that of another PID namespace";
    f = fopen("/proc/1/comm", "re");
    if (f != NULL) {
        if (fscanf(f, "%31s", name) != 1)
            name[0] = '\0';
        (void)fclose(f);
    }
    if (strcmp(name, FIRST_NAME) != 0)
        return "its PID namespace was not made for it";
    if (uid < FIRST_UID || getuid() != uid || geteuid() != uid)
        return "its user may have processes outside";
    return NULL;
}
