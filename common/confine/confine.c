#include "common/confine/confine.h"

#include "common/err/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_POSSIBLE = 0 };
#else
enum { IS_POSSIBLE = 1 };
#endif

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

/* ---- seccomp ---- */

/* Numbers of system calls that headers of 2022 lack; they are the same on every
 * architecture. */
enum { NR_FCHMODAT2 = 452, NR_SETXATTRAT = 463, NR_REMOVEXATTRAT = 466 };

static const int forbidden[] = {
    /* starting programs and processes */
    SYS_execve,
    SYS_execveat,
    SYS_clone,
    SYS_clone3,
    SYS_unshare,
    SYS_setns,
    /* reading or controlling other processes */
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_kcmp,
    SYS_process_madvise,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    /* connections to other machines or processes */
    SYS_socket,
    SYS_socketpair,
    SYS_shmget,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
    /* changing files; openat is checked below */
    SYS_openat2,
    SYS_open_by_handle_at,
    SYS_truncate,
    SYS_unlinkat,
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
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    NR_SETXATTRAT,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    NR_REMOVEXATTRAT,
    /* changing the machine */
    SYS_mount,
    SYS_umount2,
    SYS_fsopen,
    SYS_move_mount,
    SYS_open_tree,
    SYS_mount_setattr,
    SYS_pivot_root,
    SYS_chroot,
    SYS_swapon,
    SYS_swapoff,
    SYS_reboot,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_acct,
    SYS_quotactl,
    /* calls that bypass filters, and those with the most security holes */
    SYS_io_uring_setup,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
#ifdef __x86_64__
    SYS_fork,
    SYS_vfork,
    SYS_creat,
    SYS_unlink,
    SYS_rmdir,
    SYS_rename,
    SYS_renameat,
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
enum { N_FORBIDDEN = sizeof(forbidden) / sizeof(forbidden[0]), N_BY_ARGUMENT = 8 };

/* the low half of the argument: little endian */
#define ARGUMENT(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#define WRITES      (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/* Where a jump goes to. */
enum place {
    NEXT, /* the following instruction */
    ALLOW,
    DENY,
    KILL,
    LOOK_AT_OPENAT,
    LOOK_AT_OPEN,
    LOOK_AT_PID,
    N_PLACES,
};

struct rule {
    int nr;
    enum place place;
};

/* BPF only jumps forward, by a number of instructions; the distances are filled in at the
 * end. */
struct program {
    struct sock_filter code[2 * N_FORBIDDEN + 48];
    enum place yes[2 * N_FORBIDDEN + 48], no[2 * N_FORBIDDEN + 48];
    size_t n, at[N_PLACES];
};

static size_t put(struct program *p, uint16_t code, size_t k, enum place yes,
                  enum place no)
{
    p->code[p->n] = (struct sock_filter){.code = code, .k = (uint32_t)k};
    p->yes[p->n] = yes;
    p->no[p->n] = no;
    return p->n++;
}

static void load(struct program *p, size_t offset)
{
    (void)put(p, BPF_LD | BPF_W | BPF_ABS, offset, NEXT, NEXT);
}

/* Adds the rules as a binary search: the kernel runs the filter for every system call
 * number when it installs it. */
static void put_rules(struct program *p, const struct rule *rules, size_t n)
{
    size_t split;

    if (n > 3) {
        split = put(p, BPF_JMP | BPF_JGE | BPF_K, (size_t)rules[n / 2].nr, NEXT, NEXT);
        put_rules(p, rules, n / 2);
        p->code[split].jt = (uint8_t)(p->n - split - 1);
        put_rules(p, rules + n / 2, n - n / 2);
        return;
    }
    for (size_t i = 0; i < n; i++)
        (void)put(p, BPF_JMP | BPF_JEQ | BPF_K, (size_t)rules[i].nr, rules[i].place,
                  i + 1 == n ? ALLOW : NEXT);
}

static int compare_rules(const void *a, const void *b)
{
    return ((const struct rule *)a)->nr - ((const struct rule *)b)->nr;
}

static void put_all_rules(struct program *p)
{
    static const struct rule by_argument[] = {
        {SYS_openat, LOOK_AT_OPENAT}, {SYS_kill, LOOK_AT_PID},
        {SYS_tgkill, LOOK_AT_PID},    {SYS_prlimit64, LOOK_AT_PID},
#ifdef __x86_64__
        {SYS_open, LOOK_AT_OPEN},
#endif
    };
    struct rule rules[N_FORBIDDEN + N_BY_ARGUMENT];
    size_t n = 0;

    for (size_t i = 0; i < N_FORBIDDEN; i++)
        rules[n++] = (struct rule){forbidden[i], DENY};
    for (size_t i = 0; i < sizeof(by_argument) / sizeof(by_argument[0]); i++)
        rules[n++] = by_argument[i];
    qsort(rules, n, sizeof(rules[0]), compare_rules);
    put_rules(p, rules, n);
}

/* Allows opening files only for reading, signals only to this process, and limits only of
 * this process. */
static void put_arguments(struct program *p)
{
    p->at[LOOK_AT_OPENAT] = p->n;
    load(p, ARGUMENT(2));
    (void)put(p, BPF_JMP | BPF_JSET | BPF_K, WRITES, DENY, ALLOW);
    p->at[LOOK_AT_OPEN] = p->n;
    load(p, ARGUMENT(1));
    (void)put(p, BPF_JMP | BPF_JSET | BPF_K, WRITES, DENY, ALLOW);
    p->at[LOOK_AT_PID] = p->n;
    load(p, ARGUMENT(0));
    (void)put(p, BPF_JMP | BPF_JEQ | BPF_K, 0, ALLOW, NEXT);
    (void)put(p, BPF_JMP | BPF_JEQ | BPF_K, (size_t)getpid(), ALLOW, DENY);
}

static void put_end(struct program *p, enum place place, uint32_t action)
{
    p->at[place] = p->n;
    (void)put(p, BPF_RET | BPF_K, action, NEXT, NEXT);
}

static uint8_t distance(const struct program *p, size_t from, enum place to)
{
    const size_t n = p->at[to] - from - 1;

    CHECK(p->at[to] > from && n <= UINT8_MAX);
    return (uint8_t)n;
}

static void make_program(struct program *p)
{
    *p = (struct program){0};
    load(p, offsetof(struct seccomp_data, arch));
    (void)put(p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, NEXT, KILL);
    load(p, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
    (void)put(p, BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, DENY, NEXT); /* the x32 ABI */
#endif
    put_all_rules(p);
    put_arguments(p);
    put_end(p, ALLOW, SECCOMP_RET_ALLOW);
    put_end(p, DENY, SECCOMP_RET_ERRNO | EPERM);
    put_end(p, KILL, SECCOMP_RET_KILL_PROCESS);
    for (size_t i = 0; i < p->n; i++) {
        if (p->yes[i] != NEXT)
            p->code[i].jt = distance(p, i, p->yes[i]);
        if (p->no[i] != NEXT)
            p->code[i].jf = distance(p, i, p->no[i]);
    }
}

static void install_filter(void)
{
    struct program p;
    struct sock_fprog f = {.filter = p.code};

    make_program(&p);
    f.len = (unsigned short)p.n;
    (void)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                  &f);
}

void confine_calls(void)
{
    const struct rlimit none = {0, 0}, files = {64, 64};

    if (!IS_POSSIBLE || ARCH == 0)
        return;
    (void)setrlimit(RLIMIT_NPROC, &none);
    (void)setrlimit(RLIMIT_NOFILE, &files);
    install_filter();
}

/* ---- Landlock ---- */

/* The layout of the newest kernels; older ones read only its beginning. */
struct ruleset {
    uint64_t files, net, scoped;
};

enum {
    ALL_FILES_1 = (1 << 13) - 1, /* execute, write, read, ..., make_sym */
    READS = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    REFER = 1 << 13,     /* ABI 2 */
    TRUNCATE = 1 << 14,  /* 3 */
    IOCTL = 1 << 15,     /* 5 */
    BIND_CONNECT = 3,    /* 4 */
    SOCKETS_SIGNALS = 3, /* 6 */
};

static long landlock_abi(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* Allows reading libraries, some of which are loaded when first needed (isal.h). */
static void allow_libraries(int ruleset)
{
    struct landlock_path_beneath_attr a = {
        .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE,
        .parent_fd = open("/usr/lib", O_PATH | O_CLOEXEC),
    };

    if (a.parent_fd < 0)
        return;
    (void)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
    (void)close(a.parent_fd);
}

/* A ruleset forbids what it handles, unless a rule allows it. */
void confine_files(enum confine_files files)
{
    const long abi = IS_POSSIBLE ? landlock_abi() : 0;
    struct ruleset r = {.files = ALL_FILES_1};
    size_t size = sizeof(r.files);
    int fd;

    if (abi < 1)
        return;
    r.files |=
        (abi >= 2 ? REFER : 0u) | (abi >= 3 ? TRUNCATE : 0u) | (abi >= 5 ? IOCTL : 0u);
    if (files == CONFINE_READS)
        r.files &= ~(uint64_t)READS;
    if (abi >= 4)
        r.net = BIND_CONNECT, size += sizeof(r.net);
    if (abi >= 6)
        r.scoped = SOCKETS_SIGNALS, size += sizeof(r.scoped);
    fd = (int)syscall(SYS_landlock_create_ruleset, &r, size, 0);
    if (fd < 0)
        return;
    if (files == CONFINE_ALL)
        allow_libraries(fd);
    (void)syscall(SYS_landlock_restrict_self, fd, 0);
    (void)close(fd);
}

/* ---- which of this the kernel supports ---- */

const char *confine_describe(char ret[64])
{
    const uint32_t action = SECCOMP_RET_KILL_PROCESS;
    const int has_seccomp =
        IS_POSSIBLE && ARCH != 0 &&
        syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    const long abi = IS_POSSIBLE ? landlock_abi() : 0;
    char landlock[32] = "";

    if (abi > 0)
        (void)snprintf(landlock, sizeof(landlock), "landlock %ld", abi);
    (void)snprintf(ret, 64, "%s%s%s", has_seccomp ? "seccomp" : "",
                   has_seccomp && abi > 0 ? ", " : "",
                   abi > 0       ? landlock
                   : has_seccomp ? ""
                                 : "none");
    return ret;
}
