#include "common/confine/call_sets.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* ---- arguments ---- */

enum {
    WRITES = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC,
    NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
};

static const uint32_t writes[] = {WRITES};
static const uint32_t null[] = {0};
static const uint32_t namespaces[] = {NAMESPACES};
/* Not F_SETOWN, F_SETSIG, F_SETOWN_EX: a signal to another process whenever there is input;
 * not F_SETLEASE, F_NOTIFY, locks. */
static const uint32_t fcntl_few[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD,
                                     F_SETFD, F_GETFL,         F_SETFL};
static const uint32_t ioctl_few[] = {
    TCGETS, 0x802c542a /* TCGETS2 */, TIOCGWINSZ, FIONREAD, FIOCLEX, FIONCLEX};
/* They type into a terminal. */
static const uint32_t ioctl_types[] = {TIOCSTI, TIOCLINUX};
static const uint32_t prctl_few[] = {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE,
                                     0x53564d41 /* PR_SET_VMA: names a mapping */};
/* MADV_HWPOISON and MADV_SOFT_OFFLINE: they take a page from the whole machine. */
static const uint32_t advice_offline[] = {100, 101};
static const uint32_t families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_CAN};

#define N(values) (sizeof(values) / sizeof((values)[0])), (values)

const struct call_check call_checks[CALL_VERDICTS] = {
    [CALL_OPEN_READ] = {2 * 1, CHECK_NO_BITS, N(writes), CALL_ALLOW},
    [CALL_OPENAT_READ] = {2 * 2, CHECK_NO_BITS, N(writes), CALL_ALLOW},
    [CALL_OF_ITSELF] = {2 * 0, CHECK_ITSELF, 0, NULL, CALL_ALLOW},
    [CALL_LIMITS] = {2 * 0, CHECK_ITSELF, 0, NULL, CALL_LIMITS_LOW},
    [CALL_LIMITS_OWN] = {2 * 0, CHECK_ITSELF, 0, NULL, CALL_ALLOW, CALL_LIMITS_LOW},
    [CALL_LIMITS_LOW] = {2 * 2, CHECK_ONE_OF, N(null), CALL_LIMITS_HIGH},
    [CALL_LIMITS_HIGH] = {2 * 2 + 1, CHECK_ONE_OF, N(null), CALL_ALLOW},
    [CALL_FCNTL] = {2 * 1, CHECK_ONE_OF, N(fcntl_few), CALL_ALLOW},
    [CALL_IOCTL_FEW] = {2 * 1, CHECK_ONE_OF, N(ioctl_few), CALL_ALLOW},
    [CALL_IOCTL_MOST] = {2 * 1, CHECK_NONE_OF, N(ioctl_types), CALL_ALLOW},
    [CALL_PRCTL] = {2 * 0, CHECK_ONE_OF, N(prctl_few), CALL_ALLOW},
    [CALL_MADVISE] = {2 * 2, CHECK_NONE_OF, N(advice_offline), CALL_ALLOW},
    [CALL_CLONE] = {2 * 0, CHECK_NO_BITS, N(namespaces), CALL_ALLOW},
    [CALL_SOCKET] = {2 * 0, CHECK_ONE_OF, N(families), CALL_ALLOW},
};

/* ---- sets ---- */

/* Calls that headers of 2021 lack. */
enum {
    NR_MEMFD_SECRET = 447,
    NR_FUTEX_WAITV = 449,
    NR_CACHESTAT = 451,
    NR_FCHMODAT2 = 452,
    NR_MAP_SHADOW_STACK = 453,
    NR_FUTEX_WAKE = 454,
    NR_FUTEX_WAIT = 455,
    NR_FUTEX_REQUEUE = 456,
    NR_MSEAL = 462,
    NR_SETXATTRAT = 463,
    NR_GETXATTRAT = 464,
    NR_LISTXATTRAT = 465,
    NR_REMOVEXATTRAT = 466,
    NR_FILE_GETATTR = 468,
    NR_FILE_SETATTR = 469,
};

/* Memory, time, what it has open, and itself. */
static const int compute[] = {
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_msync,
    SYS_mincore,
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_pkey_mprotect,
    SYS_pkey_alloc,
    SYS_pkey_free,
    NR_MSEAL,
    NR_MAP_SHADOW_STACK,
    SYS_membarrier,
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_lseek,
    SYS_close,
    SYS_close_range,
    SYS_dup,
    SYS_dup3,
    SYS_fstat,
    SYS_fadvise64,
    SYS_ppoll,
    SYS_pselect6,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getitimer,
    SYS_setitimer,
    SYS_times,
    SYS_getrusage,
    SYS_sysinfo,
    SYS_uname,
    SYS_getcpu,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_futex,
    NR_FUTEX_WAITV,
    NR_FUTEX_WAIT,
    NR_FUTEX_WAKE,
    NR_FUTEX_REQUEUE,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_sched_yield,
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrandom,
    SYS_getrlimit,
    SYS_landlock_create_ruleset,
    SYS_landlock_add_rule,
    SYS_landlock_restrict_self,
    SYS_exit,
    SYS_exit_group,
#ifdef __x86_64__
    SYS_dup2,
    SYS_poll,
    SYS_select,
    SYS_time,
    SYS_pause,
    SYS_alarm,
    SYS_arch_prctl,
#endif
};

/* Reading files and names of files, with openat below. */
static const int reads[] = {
    SYS_newfstatat, SYS_statx,      SYS_statfs,     SYS_fstatfs,  SYS_faccessat,
    SYS_faccessat2, SYS_readlinkat, SYS_getdents64, SYS_getcwd,
#ifdef __x86_64__
    SYS_stat,       SYS_lstat,      SYS_access,     SYS_readlink, SYS_getdents,
#endif
};

/* Files, as far as the process's user may. */
static const int writes_files[] = {
    SYS_openat,
    SYS_openat2,
    SYS_truncate,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_mkdirat,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mknodat,
    SYS_fchmod,
    SYS_fchmodat,
    NR_FCHMODAT2,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_umask,
    SYS_chdir,
    SYS_fchdir,
    SYS_fcntl,
    SYS_flock,
    SYS_fsync,
    SYS_fdatasync,
    SYS_sync,
    SYS_syncfs,
    SYS_sync_file_range,
    SYS_readahead,
    NR_CACHESTAT,
    SYS_sendfile,
    SYS_splice,
    SYS_tee,
    SYS_vmsplice,
    SYS_copy_file_range,
    SYS_name_to_handle_at,
    SYS_memfd_create,
    NR_MEMFD_SECRET,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    NR_SETXATTRAT,
    SYS_getxattr,
    SYS_lgetxattr,
    SYS_fgetxattr,
    NR_GETXATTRAT,
    SYS_listxattr,
    SYS_llistxattr,
    SYS_flistxattr,
    NR_LISTXATTRAT,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    NR_REMOVEXATTRAT,
    NR_FILE_GETATTR,
    NR_FILE_SETATTR,
    SYS_io_setup,
    SYS_io_destroy,
    SYS_io_submit,
    SYS_io_cancel,
    SYS_io_getevents,
    SYS_io_pgetevents,
#ifdef __x86_64__
    SYS_open,
    SYS_creat,
    SYS_unlink,
    SYS_rmdir,
    SYS_rename,
    SYS_mkdir,
    SYS_link,
    SYS_symlink,
    SYS_mknod,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
};

/* Threads, programs, signals, users and priorities, with clone and prlimit64 below. clone3 is
 * left out: its arguments are in memory, so that namespaces cannot be refused. */
static const int processes[] = {
    SYS_execve,
    SYS_execveat,
    SYS_wait4,
    SYS_waitid,
    SYS_kill,
    SYS_tkill,
    SYS_tgkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_process_mrelease,
    SYS_get_robust_list,
    SYS_setpgid,
    SYS_getpgid,
    SYS_setsid,
    SYS_getsid,
    SYS_getpriority,
    SYS_setpriority,
    SYS_ioprio_get,
    SYS_ioprio_set,
    SYS_sched_setaffinity,
    SYS_sched_getaffinity,
    SYS_sched_setattr,
    SYS_sched_getattr,
    SYS_sched_setparam,
    SYS_sched_getparam,
    SYS_sched_setscheduler,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_sched_rr_get_interval,
    SYS_setrlimit,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_getgroups,
    SYS_setgroups,
    SYS_capget,
    SYS_capset,
    SYS_prctl,
    SYS_personality,
    SYS_seccomp,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
#ifdef __x86_64__
    SYS_fork,
    SYS_vfork,
    SYS_getpgrp,
    SYS_set_thread_area,
    SYS_get_thread_area,
    SYS_modify_ldt,
#endif
};

/* Sockets, with socket below. */
static const int connects[] = {
    SYS_socketpair, SYS_connect,    SYS_accept,   SYS_accept4,     SYS_bind,
    SYS_listen,     SYS_sendto,     SYS_recvfrom, SYS_sendmsg,     SYS_recvmsg,
    SYS_sendmmsg,   SYS_recvmmsg,   SYS_shutdown, SYS_getsockname, SYS_getpeername,
    SYS_setsockopt, SYS_getsockopt,
};

/* Waiting for events, and what processes share. */
static const int events[] = {
    SYS_pipe2,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_signalfd4,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_getoverrun,
    SYS_timer_delete,
    SYS_inotify_init1,
    SYS_inotify_add_watch,
    SYS_inotify_rm_watch,
    SYS_shmget,
    SYS_shmat,
    SYS_shmdt,
    SYS_shmctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_mq_timedsend,
    SYS_mq_timedreceive,
    SYS_mq_notify,
    SYS_mq_getsetattr,
#ifdef __x86_64__
    SYS_pipe,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_signalfd,
    SYS_inotify_init,
#endif
};

/* Memory and descriptors of other processes. */
static const int looks_into[] = {
    SYS_ptrace,          SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_process_madvise, SYS_pidfd_getfd,      SYS_kcmp,
};

enum set {
    COMPUTE = 1 << 0,
    READ = 1 << 1,
    WRITE = 1 << 2,
    PROCESSES = 1 << 3,
    CONNECT = 1 << 4,
    EVENTS = 1 << 5,
    LOOK_INTO = 1 << 6,
};

static const struct {
    enum set set;
    size_t n;
    const int *calls;
} sets[] = {
    {COMPUTE, N(compute)},      {READ, N(reads)},       {WRITE, N(writes_files)},
    {PROCESSES, N(processes)},  {CONNECT, N(connects)}, {EVENTS, N(events)},
    {LOOK_INTO, N(looks_into)},
};

/* Calls that are allowed by their arguments, if no set of the kind allows them all. */
static const struct {
    enum set set;
    int nr;
    enum call_verdict verdict;
} checked[] = {
    {COMPUTE, SYS_kill, CALL_OF_ITSELF},
    {COMPUTE, SYS_tkill, CALL_OF_ITSELF},
    {COMPUTE, SYS_tgkill, CALL_OF_ITSELF},
    {COMPUTE, SYS_sched_getaffinity, CALL_OF_ITSELF},
    {COMPUTE, SYS_prlimit64, CALL_LIMITS},
    {COMPUTE, SYS_fcntl, CALL_FCNTL},
    {COMPUTE, SYS_ioctl, CALL_IOCTL_FEW},
    {COMPUTE, SYS_prctl, CALL_PRCTL},
    {COMPUTE, SYS_madvise, CALL_MADVISE},
    {READ, SYS_openat, CALL_OPENAT_READ},
#ifdef __x86_64__
    {READ, SYS_open, CALL_OPEN_READ},
#endif
    {WRITE, SYS_ioctl, CALL_IOCTL_MOST},
    {PROCESSES, SYS_clone, CALL_CLONE},
    {PROCESSES, SYS_prlimit64, CALL_LIMITS_OWN},
    {CONNECT, SYS_socket, CALL_SOCKET},
};

static const unsigned sets_of[CONFINE_KINDS] = {
    [CONFINE_AGENT] = COMPUTE | READ,
    [CONFINE_ENVIRONMENT] = COMPUTE | READ | WRITE | PROCESSES | CONNECT | EVENTS,
    [CONFINE_PROGRAM] = COMPUTE | READ,
};

/* Linux 5.1: since then all architectures number new calls alike. */
enum { FIRST_NEW_CALL = 424 };

void call_sets_fill(uint8_t ret[CALLS_END], enum confine_kind kind, int more)
{
    unsigned wanted = sets_of[kind];

    if ((more & CALLS_DEBUGS) != 0 && (wanted & PROCESSES) != 0)
        wanted |= LOOK_INTO;
    if (kind == CONFINE_PROGRAM && (more & CALLS_THREADS) != 0)
        wanted |= PROCESSES | EVENTS;
    if (kind == CONFINE_PROGRAM && (more & CALLS_WRITES) != 0)
        wanted |= WRITE;
    memset(ret, CALL_EPERM, FIRST_NEW_CALL);
    memset(ret + FIRST_NEW_CALL, CALL_ENOSYS, CALLS_END - FIRST_NEW_CALL);
    for (size_t i = 0; i < sizeof(checked) / sizeof(checked[0]); i++)
        if ((wanted & checked[i].set) != 0)
            ret[checked[i].nr] = (uint8_t)checked[i].verdict;
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        for (size_t k = 0; (wanted & sets[i].set) != 0 && k < sets[i].n; k++)
            ret[sets[i].calls[k]] = CALL_ALLOW;
}
