/* calls - runs a command, counts the system calls of all its processes by kind, and does
 * something at some of them.
 *
 *     calls [OPTION...] -- COMMAND [ARGUMENT...]
 *
 * --at ROLE/KIND/K/ACTION   at the K-th call of that kind (call_kinds.c) by processes of that role;
 *                           K+: from the K-th on, every one. May be repeated.
 * --counts FILE             writes a line "ROLE KIND NUMBER" for each that occurred
 * --trace FILE              writes a line "ROLE KIND K PID CALL OBJECT" for each call
 * --report FILE             writes what happened: "at ROLE/KIND/K CALL OBJECT" for each action,
 *                           "exit CODE" or "signal N" of the command, "left NAME PID" for each
 *                           process that was there LEFT_S after the command, "late" if the command
 *                           was killed because of --within
 * --kinds KIND,KIND...      counts only these (what --at names is always counted)
 * --within SECONDS          kills everything that is there then; 60
 * --all                     a killing ACTION kills all processes of the command at once
 *
 * ROLE     command      the process of the command line itself: of `run` and `resume`, the keeper
 *          keeper       of a detached run, whose command is the launcher
 *          supervisor, sweeper, agent
 *          trial        `brood run` started by `brood sweep`: the keeper of a trial
 *          new          a child that has not executed its program yet
 *          other        any other program
 *          any          all of them, counted together
 * KIND     one of call_kinds.c; `change`: all calls that change a regular file or a folder;
 *          `pipe_read` and `pipe_write`: reads and writes of what is no file. They are `read` and
 *          `write`, too, where brood's processes cannot be looked into (below)
 * ACTION   an errno's name: the call is not made and fails with it
 *          kill         SIGKILL, before the call is made
 *          kill-after   SIGKILL when the call has been made, before the process goes on
 *          kill-half    of write and pwrite: half of it is written, then SIGKILL; else like kill
 *          short        of write and pwrite: half of it is written and returned; else nothing
 *
 * Exit code: the command's, or 128 + n; 99: processes were left; 98: late; 97: refused
 * (alone.h), or an action could not be done.
 *
 * kill-after, kill-half, short and the objects of traces need BROOD_DEBUG=1 in the environment:
 * otherwise, brood's processes cannot be looked into.
 *
 * By the notifications of seccomp(2), which see the calls of all libraries and of every process
 * that is started. clone3 fails with ENOSYS, so that clone is called, whose flags can be seen.
 */
#include "common/io/monotonic.h"
#include "common/io/signal_process.h"
#include "tests/support/alone.h"
#include "tests/support/call_kinds.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#else
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

enum {
    MAX_POINTS = 16,
    MAX_THREADS = 4096, /* known at a time; more are looked up again */
    MAX_COUNTS = 1024,
    MAX_KINDS = 128,
    LEFT_S = 10,
    CODE_LEFT = 99,
    CODE_LATE = 98,
    CODE_REFUSED = 97,
    CODE_USAGE = 2,
    CODE_SIGNALLED = 128,
    HALF_BYTES = 1 << 22,
};

enum action { ACT_FAIL, ACT_KILL, ACT_KILL_AFTER, ACT_KILL_HALF, ACT_SHORT };

static const char *const action_names[] = {[ACT_KILL] = "kill",
                                           [ACT_KILL_AFTER] = "kill-after",
                                           [ACT_KILL_HALF] = "kill-half",
                                           [ACT_SHORT] = "short"};

struct point {
    char role[16], kind[24];
    unsigned long at, n; /* n: calls so far */
    int onwards;
    enum action action;
    int error;
};

struct count {
    const char *role, *kind;
    unsigned long n;
};

/* A thread, whose role is known until it executes another program. */
struct thread {
    pid_t tid, pid;
    const char *role;
};

static struct point points[MAX_POINTS];
static size_t n_points;
static struct count counts[MAX_COUNTS];
static size_t n_counts;
static struct thread threads[MAX_THREADS];
static const char *kinds[MAX_KINDS];
static size_t n_kinds; /* 0: all */
static int listener, kill_all, cannot;
static pid_t command;
static FILE *trace, *report;

static _Noreturn void usage(const char *what)
{
    (void)fprintf(stderr, "calls: %s\n", what);
    exit(CODE_USAGE);
}

/* ---- which process it is ---- */

struct process {
    pid_t pid, parent; /* pid: of the whole process */
    char name[32];
};

static int read_process(pid_t tid, struct process *ret)
{
    char path[64], line[256];
    FILE *f;

    *ret = (struct process){0};
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
    f = fopen(path, "re");
    if (f == NULL)
        return -1;
    while (fgets(line, sizeof(line), f) != NULL) {
        (void)sscanf(line, "Name: %31s", ret->name);
        (void)sscanf(line, "Tgid: %d", &ret->pid);
        if (sscanf(line, "PPid: %d", &ret->parent) == 1)
            break;
    }
    (void)fclose(f);
    return ret->pid > 0 ? 0 : -1;
}

static size_t read_words(pid_t pid, char *ret, size_t size)
{
    char path[64];
    ssize_t n = 0;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, ret, size);
        (void)close(fd);
    }
    return n > 0 ? (size_t)n : 0;
}

/* Whether the process has this name: itself, or as the first word of its command line, as long
 * as it is named after the link or descriptor by which it was executed. */
static int is_named(const struct process *p, const char *name)
{
    char words[512];
    const size_t len = read_words(p->pid, words, sizeof(words) - 1);
    const char *slash;

    words[len] = '\0';
    slash = strrchr(words, '/');
    return strcmp(p->name, name) == 0 ||
           strcmp(slash != NULL ? slash + 1 : words, name) == 0;
}

static int is_detached(const char *words, size_t len)
{
    for (size_t at = 0; at < len; at += strlen(words + at) + 1)
        if (strcmp(words + at, "--detach") == 0)
            return 1;
    return 0;
}

/* A process that was forked has its parent's command line until it executes a program. */
static const char *role_of_brood(const struct process *p)
{
    static const char *const plain[] = {"command", "supervisor", "new", "new"};
    static const char *const detached[] = {"command", "keeper", "supervisor", "new"};
    char words[2048], above[2048];
    const size_t len = read_words(p->pid, words, sizeof(words) - 1);
    struct process q = *p;
    int depth = 0, is_trial = 0;

    words[len] = '\0';
    while (depth < 3 && q.pid != command) {
        struct process up;
        size_t n;

        if (read_process(q.parent, &up) < 0)
            break;
        if (is_named(&up, "brood-sweeper")) { /* between keeper and supervisor */
            q = up;
            continue;
        }
        if (!is_named(&up, "brood"))
            break;
        n = read_words(up.pid, above, sizeof(above));
        if (n != len || memcmp(above, words, n) != 0) {
            is_trial = 1;
            break;
        }
        depth += strcmp(up.name, "brood-sweeper") != 0; /* it is between the two */
        q = up;
    }
    if (is_trial && depth == 0)
        return "trial";
    return is_detached(words, len) ? detached[depth] : plain[depth];
}

static const char *role_of(const struct process *p)
{
    if (strcmp(p->name, "brood-sweeper") == 0)
        return "sweeper";
    if (strcmp(p->name, "brood-plugin") == 0 || is_named(p, "brood-agent"))
        return "agent";
    if (is_named(p, "brood"))
        return role_of_brood(p);
    return p->pid == command ? "command" : "other";
}

static struct thread *find_thread(pid_t tid)
{
    struct thread *t = &threads[(unsigned)tid % MAX_THREADS];
    struct process p;

    if (t->tid == tid && t->role != NULL)
        return t;
    if (read_process(tid, &p) < 0)
        return NULL;
    *t = (struct thread){.tid = tid, .pid = p.pid, .role = role_of(&p)};
    return t;
}

/* ---- what a call is about ---- */

static int read_text(pid_t pid, uint64_t at, char *ret, size_t size)
{
    struct iovec own = {ret, size - 1}, others = {(void *)(uintptr_t)at, size - 1};
    ssize_t n = process_vm_readv(pid, &own, 1, &others, 1, 0);

    if (n < 0) { /* it may end where the memory does */
        own.iov_len = others.iov_len =
            4096 - at % 4096 < size - 1 ? 4096 - at % 4096 : size - 1;
        n = process_vm_readv(pid, &own, 1, &others, 1, 0);
    }
    ret[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static void describe(pid_t pid, const struct call *c, const struct seccomp_data *d,
                     char *ret, size_t size)
{
    char path[64];
    ssize_t n;

    ret[0] = '\0';
    if (c->object == CALL_OF_PATH || c->object == CALL_OF_PATH_AT) {
        (void)read_text(pid, d->args[c->object == CALL_OF_PATH_AT], ret, size);
    } else if (c->object == CALL_OF_FD) {
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)d->args[0]);
        n = readlink(path, ret, size - 1);
        ret[n > 0 ? n : 0] = '\0';
    }
    for (char *s = ret; *s != '\0'; s++)
        if (*s == '\n' || *s == ' ')
            *s = '_';
}

/* Whether the descriptor is that of a regular file or a folder that has a name. */
static int is_file(pid_t pid, int fd)
{
    char path[64], to[32];
    struct stat st;
    ssize_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
    if (stat(path, &st) < 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    n = readlink(path, to, sizeof(to));
    return n < 7 || (memcmp(to, "/memfd:", 7) != 0 && memcmp(to, "/proc/", 6) != 0);
}

static int changes_file(pid_t pid, const struct call *c, const struct seccomp_data *d)
{
    return c->changes && (c->object != CALL_OF_FD || is_file(pid, (int)d->args[0]));
}

/* read(2) and write(2) of a pipe have other errors than those of a file. */
static const char *kind_of(pid_t pid, const struct call *c, const struct seccomp_data *d)
{
    const int reads = strcmp(c->kind, "read") == 0;
    char path[64];
    struct stat st;

    if (!reads && strcmp(c->kind, "write") != 0)
        return c->kind;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, (int)d->args[0]);
    if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return c->kind;
    return reads ? "pipe_read" : "pipe_write";
}

/* ---- actions ---- */

static void answer(const struct seccomp_notif *q, int error, int64_t value, int goes_on)
{
    struct seccomp_notif_resp r = {
        .id = q->id,
        .val = value,
        .error = -error,
        .flags = goes_on ? (uint32_t)SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0};

    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r); /* it may have been killed */
}

/* Calls visit for every process that the command started: this one adopts those whose parents
 * have ended. Returns their number. */
static size_t each_process(void (*visit)(pid_t pid))
{
    DIR *dir = opendir("/proc");
    const struct dirent *e;
    size_t n = 0;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        const pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        struct process p = {.parent = pid};

        if (pid <= 1 || pid == getpid())
            continue;
        while (p.parent > 1 && p.parent != getpid())
            if (read_process(p.parent, &p) < 0)
                p.parent = 0;
        if (p.parent != getpid())
            continue;
        visit(pid);
        n++;
    }
    if (dir != NULL)
        (void)closedir(dir);
    return n;
}

static void end_none(pid_t pid)
{
    (void)pid;
}

static void end_process(pid_t pid)
{
    (void)signal_process(pid, SIGKILL);
}

static void end_all(void)
{
    for (int i = 0; i < 1000 && each_process(end_process) > 0; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        (void)poll(NULL, 0, 1);
    }
}

static void end_one(pid_t pid)
{
    if (kill_all)
        (void)each_process(end_process);
    end_process(pid);
}

/* Writes half of what the call would write, through the same open file. */
static ssize_t write_half(pid_t pid, const struct seccomp_data *d)
{
    const size_t n = d->args[2] / 2 < HALF_BYTES ? d->args[2] / 2 : HALF_BYTES;
    const int pidfd = pidfd_open(pid, 0);
    const int fd = pidfd < 0 ? -1 : pidfd_getfd(pidfd, (int)d->args[0], 0);
    char *bytes = malloc(n > 0 ? n : 1);
    struct iovec own = {bytes, n}, others = {(void *)(uintptr_t)d->args[1], n};
    ssize_t written = -1;

    if (fd >= 0 && process_vm_readv(pid, &own, 1, &others, 1, 0) == (ssize_t)n)
        written = d->nr == SYS_write ? write(fd, bytes, n)
                                     : pwrite(fd, bytes, n, (off_t)d->args[3]);
    if (fd >= 0)
        (void)close(fd);
    if (pidfd >= 0)
        (void)close(pidfd);
    free(bytes);
    return written;
}

/* Lets the call be made and stops the thread at its end: a process that is traced stops before
 * it goes on. */
static void kill_after(const struct seccomp_notif *q, pid_t pid)
{
    const pid_t tid = (pid_t)q->pid;
    const int64_t until = monotonic_ms() + 5000;
    int status;

    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0 ||
        ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0) {
        perror("calls: ptrace");
        cannot = 1;
    } else {
        answer(q, 0, 0, 1);
        while (waitpid(tid, &status, __WALL | WNOHANG) == 0 && monotonic_ms() < until)
            (void)poll(NULL, 0, 1);
    }
    end_one(pid);
}

static int can_be_halved(const struct seccomp_data *d)
{
    return (d->nr == SYS_write || d->nr == SYS_pwrite64) && d->args[2] > 1;
}

static void act(const struct point *p, const struct seccomp_notif *q, pid_t pid)
{
    ssize_t n = -1;

    if ((p->action == ACT_KILL_HALF || p->action == ACT_SHORT) &&
        can_be_halved(&q->data)) {
        n = write_half(pid, &q->data);
        cannot |= n < 0;
    }
    switch (p->action) {
    case ACT_FAIL:
        answer(q, p->error, 0, 0);
        break;
    case ACT_KILL:
    case ACT_KILL_HALF:
        end_one(pid);
        break;
    case ACT_KILL_AFTER:
        kill_after(q, pid);
        break;
    case ACT_SHORT:
        answer(q, 0, n, n < 0);
        break;
    }
}

/* ---- counting ---- */

static unsigned long count_call(const char *role, const char *kind)
{
    size_t i = 0;

    while (i < n_counts && (counts[i].kind != kind || counts[i].role != role))
        i++;
    if (i == MAX_COUNTS)
        return 0;
    if (i == n_counts)
        counts[n_counts++] = (struct count){role, kind, 0};
    return ++counts[i].n;
}

static int is_counted(const char *kind)
{
    for (size_t i = 0; i < n_kinds; i++)
        if (strcmp(kinds[i], kind) == 0)
            return 1;
    return n_kinds == 0;
}

/* Returns the point that this call is; NULL: none. */
static const struct point *reach(const char *role, const char *kind, int changes)
{
    const struct point *found = NULL;

    for (size_t i = 0; i < n_points; i++) {
        struct point *p = &points[i];

        if ((strcmp(p->role, "any") != 0 && strcmp(p->role, role) != 0) ||
            (strcmp(p->kind, kind) != 0 && !(changes && strcmp(p->kind, "change") == 0)))
            continue;
        p->n++;
        if (p->n == p->at || (p->onwards && p->n > p->at))
            found = p;
    }
    return found;
}

static int wants_changes(void)
{
    int wanted = trace != NULL || (n_kinds > 0 && is_counted("change"));

    for (size_t i = 0; i < n_points; i++)
        wanted |= strcmp(points[i].kind, "change") == 0;
    return wanted;
}

static void take_call(const struct seccomp_notif *q)
{
    const struct call *c = call_find(&q->data, (pid_t)q->pid);
    struct thread *t = find_thread((pid_t)q->pid);
    const struct point *p;
    const char *kind;
    unsigned long k;
    char object[256] = "";
    int changes;

    if (c == NULL || t == NULL) {
        answer(q, 0, 0, 1);
        return;
    }
    kind = kind_of(t->pid, c, &q->data);
    changes = wants_changes() && changes_file(t->pid, c, &q->data);
    k = is_counted(kind) ? count_call(t->role, kind) : 0;
    if (changes && (n_kinds == 0 || is_counted("change")))
        k = count_call(t->role, "change");
    p = reach(t->role, kind, changes);
    if (p != NULL || trace != NULL)
        describe(t->pid, c, &q->data, object, sizeof(object));
    if (trace != NULL)
        (void)fprintf(trace, "%s %s %lu %d %s %s\n", t->role, changes ? "change" : kind,
                      k, (int)t->pid, c->kind, object);
    if (p != NULL && report != NULL) {
        (void)fprintf(report, "at %s/%s/%lu %s %s\n", p->role, p->kind, p->n, c->kind,
                      object);
        (void)fflush(report);
    }
    if (strcmp(c->kind, "exec") == 0 || strcmp(c->kind, "prctl") == 0)
        t->role = NULL;
    if (p != NULL)
        act(p, q, t->pid);
    else
        answer(q, 0, 0, 1);
}

/* ---- the filter ---- */

static int is_wanted(const struct call *c)
{
    int wanted = is_counted(c->kind) || (c->changes && wants_changes());

    for (size_t i = 0; i < n_points; i++)
        wanted |= strcmp(points[i].kind, c->kind) == 0 ||
                  (strncmp(points[i].kind, "pipe_", 5) == 0 &&
                   strcmp(points[i].kind + 5, c->kind) == 0);
    /* the names of the processes change with these */
    return wanted || strcmp(c->kind, "exec") == 0 || strcmp(c->kind, "prctl") == 0;
}

static void put(struct sock_filter *code, size_t *n, uint16_t what, uint32_t k,
                uint8_t yes, uint8_t no)
{
    code[(*n)++] = (struct sock_filter){.code = what, .jt = yes, .jf = no, .k = k};
}

static int install(void)
{
    static struct sock_filter code[300];
    struct sock_fprog f = {.filter = code};
    size_t n = 0;
    int fd;

    put(code, &n, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    put(code, &n, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    put(code, &n, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    put(code, &n, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    put(code, &n, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    put(code, &n, BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
    for (size_t i = 0; i < n_calls; i++) {
        if (!is_wanted(&calls[i]))
            continue;
        put(code, &n, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i].nr, 0, 1);
        put(code, &n, BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF, 0, 0);
    }
    put(code, &n, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    f.len = (unsigned short)n;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    fd = (int)syscall(
        SYS_seccomp, SECCOMP_SET_MODE_FILTER,
        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &f);
    if (fd < 0 && errno == EINVAL) /* before Linux 5.19: a signal repeats a call */
        fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                          SECCOMP_FILTER_FLAG_NEW_LISTENER, &f);
    return fd;
}

/* The child's descriptor goes to the parent without a call that the filter may stop. */
static void start(char **argv)
{
    _Atomic int *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int pidfd, at;

    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (shared == MAP_FAILED || (command = fork()) < 0)
        usage(strerror(errno));
    if (command == 0) {
        (void)setpgid(0, 0);
        at = install();
        atomic_store(shared, at < 0 ? -errno : at);
        while (at >= 0 && atomic_load(shared) != INT32_MAX)
            (void)sched_yield();
        if (at >= 0)
            (void)execvp(argv[0], argv);
        _exit(127);
    }
    while ((at = atomic_load(shared)) == 0)
        (void)poll(NULL, 0, 1);
    if (at < 0)
        usage("seccomp is not possible here");
    pidfd = pidfd_open(command, 0);
    listener = pidfd < 0 ? -1 : pidfd_getfd(pidfd, at, 0);
    if (listener < 0) {
        end_process(command);
        usage("pidfd_getfd is not possible here");
    }
    (void)fcntl(listener, F_SETFD, FD_CLOEXEC);
    (void)close(pidfd);
    atomic_store(shared, INT32_MAX);
}

/* ---- the end ---- */

static void report_left(pid_t pid)
{
    struct process p;

    if (report != NULL && read_process(pid, &p) == 0)
        (void)fprintf(report, "left %s %d\n", p.name, (int)pid);
}

static int report_end(int status)
{
    const int n = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);

    if (report != NULL)
        (void)fprintf(report, "%s %d\n", WIFEXITED(status) ? "exit" : "signal", n);
    return WIFEXITED(status) ? n : CODE_SIGNALLED + n;
}

static void on_alarm(int signum)
{
    (void)signum;
}

/* A request whose process was killed meanwhile is waited for in vain: the alarm ends that. */
static void serve(void)
{
    union {
        struct seccomp_notif q;
        char
            room[sizeof(struct seccomp_notif) + 256]; /* a newer kernel's may be larger */
    } u;

    memset(&u, 0, sizeof(u));
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &u.q) == 0)
        take_call(&u.q);
}

/* Returns the exit code. */
static int follow(int64_t within_ms)
{
    const int64_t late = monotonic_ms() + within_ms;
    int64_t until = 0; /* of what the command leaves */
    int status, is_over = 0, code = 0;
    pid_t pid;

    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        const int n = poll(&p, 1, 20);

        while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
            if (pid != command)
                continue;
            is_over = 1;
            until = monotonic_ms() + LEFT_S * 1000;
            code = report_end(status);
        }
        if (n == 1 && (p.revents & POLLIN) != 0)
            serve();
        else if (n == 1 && (p.revents & POLLHUP) != 0 && is_over)
            return code;
        else if (is_over && n == 0 && each_process(end_none) == 0)
            return code;
        if (is_over && monotonic_ms() > until) {
            code = CODE_LEFT;
            (void)each_process(report_left);
            break;
        }
        if (!is_over && monotonic_ms() > late) {
            code = CODE_LATE;
            if (report != NULL)
                (void)fprintf(report, "late\n");
            break;
        }
    }
    end_all();
    return code;
}

/* ---- the command line ---- */

static int error_of(const char *name)
{
    for (int e = 1; e < 200; e++)
        if (strerrorname_np(e) != NULL && strcmp(strerrorname_np(e), name) == 0)
            return e;
    return 0;
}

static void add_point(const char *text)
{
    struct point *p = &points[n_points];
    char action[24] = "", plus = '\0';

    if (n_points++ == MAX_POINTS)
        usage("too many points");
    if (sscanf(text, "%15[^/]/%23[^/]/%lu/%23s", p->role, p->kind, &p->at, action) != 4 &&
        (sscanf(text, "%15[^/]/%23[^/]/%lu%c/%23s", p->role, p->kind, &p->at, &plus,
                action) != 5 ||
         plus != '+'))
        usage("--at ROLE/KIND/K/ACTION");
    p->onwards = plus == '+';
    for (size_t i = ACT_KILL; i <= ACT_SHORT; i++)
        if (strcmp(action, action_names[i]) == 0)
            p->action = (enum action)i;
    p->error = p->action == ACT_FAIL ? error_of(action) : 0;
    if (p->action == ACT_FAIL && p->error == 0)
        usage("an ACTION that there is not");
}

static void add_kinds(char *text)
{
    for (char *kind = strtok(text, ","); kind != NULL && n_kinds < MAX_KINDS;
         kind = strtok(NULL, ","))
        kinds[n_kinds++] = kind;
}

static FILE *create(const char *path)
{
    FILE *f = fopen(path, "we");

    if (f == NULL)
        usage(path);
    return f;
}

int main(int argc, char **argv)
{
    const struct itimerval often = {{0, 100000}, {0, 100000}};
    const struct sigaction alarms = {.sa_handler = on_alarm};
    const char *why = alone_fault();
    FILE *list = NULL;
    double within_s = 60;
    int i, code;

    if (why != NULL) {
        (void)fprintf(stderr, "calls: nothing may fail here: %s\n", why);
        return CODE_REFUSED;
    }
    for (i = 1; i + 1 < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--all") == 0)
            kill_all = 1;
        else if (strcmp(argv[i], "--at") == 0)
            add_point(argv[++i]);
        else if (strcmp(argv[i], "--kinds") == 0)
            add_kinds(argv[++i]);
        else if (strcmp(argv[i], "--counts") == 0)
            list = create(argv[++i]);
        else if (strcmp(argv[i], "--trace") == 0)
            trace = create(argv[++i]);
        else if (strcmp(argv[i], "--report") == 0)
            report = create(argv[++i]);
        else if (strcmp(argv[i], "--within") == 0)
            within_s = atof(argv[++i]);
        else
            usage(argv[i]);
    }
    if (i + 1 >= argc)
        usage("no command");
    if (n_kinds == 0 && n_points > 0 && list == NULL && trace == NULL)
        kinds[n_kinds++] = "none"; /* only the points' */
    start(argv + i + 1);
    (void)sigaction(SIGALRM, &alarms, NULL);
    (void)setitimer(ITIMER_REAL, &often, NULL);
    code = follow((int64_t)(within_s * 1000));
    for (size_t k = 0; list != NULL && k < n_counts; k++)
        (void)fprintf(list, "%s %s %lu\n", counts[k].role, counts[k].kind, counts[k].n);
    for (size_t k = 0; report != NULL && k < n_points; k++)
        if (points[k].n < points[k].at)
            (void)fprintf(report, "never %s/%s/%lu\n", points[k].role, points[k].kind,
                          points[k].at);
    if (list != NULL)
        (void)fclose(list);
    if (trace != NULL)
        (void)fclose(trace);
    if (report != NULL)
        (void)fclose(report);
    return cannot ? CODE_REFUSED : code;
}
