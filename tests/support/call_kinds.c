#include "tests/support/call_kinds.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* Two rows of one number differ in an argument: call_find. */
const struct call calls[] = {
    {"fork", SYS_clone, CALL_OF_NOTHING, 0},
    {"thread", SYS_clone, CALL_OF_NOTHING, 0},
    {"exec", SYS_execve, CALL_OF_PATH, 0},
    {"exec", SYS_execveat, CALL_OF_PATH_AT, 0},
    {"wait", SYS_wait4, CALL_OF_NOTHING, 0},
    {"wait", SYS_waitid, CALL_OF_NOTHING, 0},
    {"pidfd", SYS_pidfd_open, CALL_OF_NOTHING, 0},
    {"pidfd_signal", SYS_pidfd_send_signal, CALL_OF_NOTHING, 0},
    {"kill", SYS_kill, CALL_OF_NOTHING, 0},
    {"prctl", SYS_prctl, CALL_OF_NOTHING, 0},
    {"setsid", SYS_setsid, CALL_OF_NOTHING, 0},
    {"setpgid", SYS_setpgid, CALL_OF_NOTHING, 0},
    {"sigaction", SYS_rt_sigaction, CALL_OF_NOTHING, 0},
    {"setrlimit", SYS_prlimit64, CALL_OF_NOTHING, 0},
    {"affinity", SYS_sched_setaffinity, CALL_OF_NOTHING, 0},
    {"pipe", SYS_pipe2, CALL_OF_NOTHING, 0},
    {"socket", SYS_socket, CALL_OF_NOTHING, 0},
    {"socket", SYS_socketpair, CALL_OF_NOTHING, 0},
    {"bind", SYS_bind, CALL_OF_NOTHING, 0},
    {"listen", SYS_listen, CALL_OF_NOTHING, 0},
    {"connect", SYS_connect, CALL_OF_NOTHING, 0},
    {"accept", SYS_accept4, CALL_OF_NOTHING, 0},
    {"accept", SYS_accept, CALL_OF_NOTHING, 0},
    {"send", SYS_sendto, CALL_OF_NOTHING, 0},
    {"send", SYS_sendmsg, CALL_OF_NOTHING, 0},
    {"recv", SYS_recvfrom, CALL_OF_NOTHING, 0},
    {"recv", SYS_recvmsg, CALL_OF_NOTHING, 0},
    {"epoll_create", SYS_epoll_create1, CALL_OF_NOTHING, 0},
    {"epoll_ctl", SYS_epoll_ctl, CALL_OF_NOTHING, 0},
    {"epoll_wait", SYS_epoll_pwait, CALL_OF_NOTHING, 0},
    {"poll", SYS_ppoll, CALL_OF_NOTHING, 0},
    {"eventfd", SYS_eventfd2, CALL_OF_NOTHING, 0},
    {"timerfd", SYS_timerfd_create, CALL_OF_NOTHING, 0},
    {"timerfd", SYS_timerfd_settime, CALL_OF_NOTHING, 0},
    {"signalfd", SYS_signalfd4, CALL_OF_NOTHING, 0},
    {"inotify", SYS_inotify_init1, CALL_OF_NOTHING, 0},
    {"inotify", SYS_inotify_add_watch, CALL_OF_NOTHING, 0},
    {"dup", SYS_dup, CALL_OF_FD, 0},
    {"dup", SYS_dup3, CALL_OF_FD, 0},
    {"dup", SYS_fcntl, CALL_OF_FD, 0},
    {"lock", SYS_fcntl, CALL_OF_FD, 0},
    {"fcntl", SYS_fcntl, CALL_OF_FD, 0},
    {"mmap", SYS_mmap, CALL_OF_NOTHING, 0},
    {"mprotect", SYS_mprotect, CALL_OF_NOTHING, 0},
    {"memfd_create", SYS_memfd_create, CALL_OF_NOTHING, 0},
    {"create", SYS_openat, CALL_OF_PATH_AT, 1},
    {"openat", SYS_openat, CALL_OF_PATH_AT, 0},
    {"create", SYS_openat2, CALL_OF_PATH_AT, 1},
    {"openat", SYS_openat2, CALL_OF_PATH_AT, 0},
    {"read", SYS_read, CALL_OF_FD, 0},
    {"read", SYS_readv, CALL_OF_FD, 0},
    {"pread", SYS_pread64, CALL_OF_FD, 0},
    {"getdents", SYS_getdents64, CALL_OF_FD, 0},
    {"stat", SYS_newfstatat, CALL_OF_PATH_AT, 0},
    {"stat", SYS_statx, CALL_OF_PATH_AT, 0},
    {"stat", SYS_fstat, CALL_OF_FD, 0},
    {"write", SYS_write, CALL_OF_FD, 1},
    {"write", SYS_writev, CALL_OF_FD, 1},
    {"pwrite", SYS_pwrite64, CALL_OF_FD, 1},
    {"pwrite", SYS_pwritev, CALL_OF_FD, 1},
    {"copy", SYS_sendfile, CALL_OF_FD, 1},
    {"copy", SYS_copy_file_range, CALL_OF_NOTHING, 1},
    {"fsync", SYS_fsync, CALL_OF_FD, 1},
    {"fdatasync", SYS_fdatasync, CALL_OF_FD, 1},
    {"ftruncate", SYS_ftruncate, CALL_OF_FD, 1},
    {"ftruncate", SYS_truncate, CALL_OF_PATH, 1},
    {"fallocate", SYS_fallocate, CALL_OF_FD, 1},
    {"lock", SYS_flock, CALL_OF_FD, 0},
    {"rename", SYS_renameat, CALL_OF_PATH_AT, 1},
    {"rename", SYS_renameat2, CALL_OF_PATH_AT, 1},
    {"unlink", SYS_unlinkat, CALL_OF_PATH_AT, 1},
    {"mkdir", SYS_mkdirat, CALL_OF_PATH_AT, 1},
    {"link", SYS_linkat, CALL_OF_PATH_AT, 1},
    {"link", SYS_symlinkat, CALL_OF_PATH, 1},
    {"chmod", SYS_fchmod, CALL_OF_FD, 1},
    {"chmod", SYS_fchmodat, CALL_OF_PATH_AT, 1},
    {"utimens", SYS_utimensat, CALL_OF_PATH_AT, 1},
#ifdef __x86_64__
    {"fork", SYS_fork, CALL_OF_NOTHING, 0},
    {"fork", SYS_vfork, CALL_OF_NOTHING, 0},
    {"pipe", SYS_pipe, CALL_OF_NOTHING, 0},
    {"epoll_wait", SYS_epoll_wait, CALL_OF_NOTHING, 0},
    {"poll", SYS_poll, CALL_OF_NOTHING, 0},
    {"dup", SYS_dup2, CALL_OF_FD, 0},
    {"create", SYS_open, CALL_OF_PATH, 1},
    {"openat", SYS_open, CALL_OF_PATH, 0},
    {"rename", SYS_rename, CALL_OF_PATH, 1},
    {"unlink", SYS_unlink, CALL_OF_PATH, 1},
    {"unlink", SYS_rmdir, CALL_OF_PATH, 1},
    {"mkdir", SYS_mkdir, CALL_OF_PATH, 1},
    {"link", SYS_link, CALL_OF_PATH, 1},
    {"link", SYS_symlink, CALL_OF_PATH, 1},
    {"chmod", SYS_chmod, CALL_OF_PATH, 1},
#endif
};
const size_t n_calls = sizeof(calls) / sizeof(calls[0]);

static uint64_t open_flags(const struct call *c, const struct seccomp_data *d, pid_t pid)
{
    struct open_how how = {0};
    struct iovec own = {&how, sizeof(how)},
                 others = {(void *)(uintptr_t)d->args[2], sizeof(how)};

    if (c->nr != SYS_openat2)
        return c->object == CALL_OF_PATH_AT ? d->args[2] : d->args[1];
    (void)process_vm_readv(pid, &own, 1, &others, 1, 0);
    return how.flags;
}

/* Whether the row is the right one of the two that have the call's number. */
static int fits(const struct call *c, const struct seccomp_data *d, pid_t pid)
{
    if (c->nr == SYS_clone)
        return (strcmp(c->kind, "thread") == 0) == ((d->args[0] & CLONE_THREAD) != 0);
    if (c->nr == SYS_fcntl && strcmp(c->kind, "dup") == 0)
        return d->args[1] == F_DUPFD || d->args[1] == F_DUPFD_CLOEXEC;
    if (c->nr == SYS_fcntl && strcmp(c->kind, "lock") == 0)
        return d->args[1] == F_SETLK || d->args[1] == F_SETLKW ||
               d->args[1] == F_OFD_SETLK || d->args[1] == F_OFD_SETLKW;
    if (strcmp(c->kind, "create") == 0)
        return (open_flags(c, d, pid) & (O_CREAT | O_TRUNC)) != 0;
    return 1;
}

const struct call *call_find(const struct seccomp_data *d, pid_t pid)
{
    for (size_t i = 0; i < n_calls; i++)
        if (calls[i].nr == d->nr && fits(&calls[i], d, pid))
            return &calls[i];
    return NULL;
}
