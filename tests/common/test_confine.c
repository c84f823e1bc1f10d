/* The filter on system calls, run by an interpreter: what it answers to every number, and to
 * the arguments that matter. What the kernel makes of it is seen in
 * tests/integration/test_confined.py. */
#include "common/confine/call_filter.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__aarch64__)
enum { ARCH = (int)AUDIT_ARCH_AARCH64, OTHER = (int)AUDIT_ARCH_X86_64 };
#else
enum { ARCH = (int)AUDIT_ARCH_X86_64, OTHER = (int)AUDIT_ARCH_I386 };
#endif

struct filter {
    struct sock_filter code[CALL_FILTER_MAX];
    size_t n;
};

static int has_jumped(const struct sock_filter *c, uint32_t a)
{
    switch (BPF_OP(c->code)) {
    case BPF_JEQ:
        return a == c->k;
    case BPF_JGE:
        return a >= c->k;
    default:
        ck_assert_int_eq(BPF_OP(c->code), BPF_JSET);
        return (a & c->k) != 0;
    }
}

/* Returns 0 if the call is allowed, or the errno that it gets. */
static int run(const struct filter *f, const struct seccomp_data *d)
{
    uint32_t a = 0;

    for (size_t i = 0; i < f->n; i++) {
        const struct sock_filter *c = &f->code[i];

        if (BPF_CLASS(c->code) == BPF_RET) {
            ck_assert(c->k == SECCOMP_RET_ALLOW ||
                      (c->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
            return c->k == SECCOMP_RET_ALLOW ? 0 : (int)(c->k & SECCOMP_RET_DATA);
        }
        if (BPF_CLASS(c->code) == BPF_LD)
            memcpy(&a, (const char *)d + c->k, sizeof(a));
        else if (BPF_OP(c->code) == BPF_JA)
            i += c->k;
        else
            i += has_jumped(c, a) ? c->jt : c->jf;
    }
    ck_abort_msg("the filter has no end");
    return -1;
}

static struct filter filter_of(enum confine_kind kind, int more)
{
    struct filter f;

    f.n = call_filter_make(f.code, kind, more, (uint32_t)getpid());
    ck_assert_uint_le(f.n, BPF_MAXINSNS);
    return f;
}

static int answer(enum confine_kind kind, int nr, uint64_t first, uint64_t second,
                  uint64_t third)
{
    const struct filter f = filter_of(kind, 0);
    const struct seccomp_data d = {
        .nr = nr, .arch = (uint32_t)ARCH, .args = {first, second, third}};

    return run(&f, &d);
}

static int agent(int nr, uint64_t first, uint64_t second, uint64_t third)
{
    return answer(CONFINE_AGENT, nr, first, second, third);
}

static int environment(int nr, uint64_t first, uint64_t second, uint64_t third)
{
    return answer(CONFINE_ENVIRONMENT, nr, first, second, third);
}

START_TEST(every_number_has_the_answer_of_the_table)
{
    uint8_t verdicts[CALLS_END];

    for (int i = 0; i < 8 * CONFINE_KINDS; i++) {
        const struct filter f = filter_of(i / 8, i % 8);
        size_t n = 0;

        call_sets_fill(verdicts, i / 8, i % 8);
        for (int nr = -1; nr < 2 * CALLS_END; nr++) {
            struct seccomp_data d = {.nr = nr, .arch = (uint32_t)ARCH};
            const int v = nr >= 0 && nr < CALLS_END ? verdicts[nr] : CALL_ENOSYS;
            const int got = run(&f, &d);

            if (v < CALL_CHECKS)
                ck_assert_int_eq(got, v == CALL_ALLOW   ? 0
                                      : v == CALL_EPERM ? EPERM
                                                        : ENOSYS);
            n += v >= CALL_ALLOW;
            d.arch = (uint32_t)OTHER;
            ck_assert_int_eq(run(&f, &d), ENOSYS);
        }
        ck_assert_uint_gt(n, i / 8 == CONFINE_ENVIRONMENT ? 220 : 80);
    }
}
END_TEST

START_TEST(an_agent_reads_and_computes)
{
    ck_assert_int_eq(agent(SYS_read, 3, 0, 1), 0);
    ck_assert_int_eq(agent(SYS_execve, 0, 0, 0), EPERM);
    ck_assert_int_eq(agent(SYS_clone, CLONE_VM | CLONE_THREAD, 0, 0), EPERM);
    ck_assert_int_eq(agent(435 /* clone3 */, 0, 0, 0), ENOSYS);
    ck_assert_int_eq(agent(SYS_openat, 0, 0, O_RDONLY | O_CLOEXEC), 0);
    ck_assert_int_eq(agent(SYS_openat, 0, 0, O_WRONLY), EPERM);
    ck_assert_int_eq(agent(SYS_openat, 0, 0, O_RDONLY | O_CREAT), EPERM);
#ifdef __x86_64__
    ck_assert_int_eq(agent(SYS_open, 0, O_RDONLY, 0), 0);
    ck_assert_int_eq(agent(SYS_open, 0, O_RDWR, 0), EPERM);
    ck_assert_int_eq(agent(0x40000000 | SYS_read, 3, 0, 1), ENOSYS);
#endif
    ck_assert_int_eq(agent(SYS_madvise, 0, 0, MADV_DONTNEED), 0);
    ck_assert_int_eq(agent(SYS_madvise, 0, 0, MADV_HWPOISON), EPERM);
    ck_assert_int_eq(agent(SYS_prctl, PR_SET_NAME, 0, 0), 0);
    ck_assert_int_eq(agent(SYS_prctl, PR_SET_PDEATHSIG, 0, 0), EPERM);
    ck_assert_int_eq(agent(SYS_ioctl, 2, TCGETS, 0), 0);
    ck_assert_int_eq(agent(SYS_ioctl, 2, FIONBIO, 0), EPERM);
}
END_TEST

START_TEST(an_agent_reaches_only_itself)
{
    const uint64_t self = (uint64_t)getpid(), other = self + 1, nobody = (uint64_t)-1;

    ck_assert_int_eq(agent(SYS_kill, self, SIGABRT, 0), 0);
    ck_assert_int_eq(agent(SYS_kill, other, SIGABRT, 0), EPERM);
    ck_assert_int_eq(agent(SYS_kill, nobody, SIGABRT, 0), EPERM);
    ck_assert_int_eq(agent(SYS_tgkill, self, self, SIGABRT), 0);
    ck_assert_int_eq(agent(SYS_tgkill, other, other, SIGABRT), EPERM);
    ck_assert_int_eq(agent(SYS_sched_getaffinity, 0, 128, 0), 0);
    ck_assert_int_eq(agent(SYS_sched_setaffinity, 0, 128, 0), EPERM);
    /* the kernel takes a pid's low half alone */
    ck_assert_int_eq(agent(SYS_kill, 1ull << 32 | other, SIGABRT, 0), EPERM);
    ck_assert_int_eq(agent(SYS_prlimit64, 0, 7, 0), 0);
    ck_assert_int_eq(agent(SYS_prlimit64, 0, 7, 4096), EPERM);
    ck_assert_int_eq(agent(SYS_prlimit64, 0, 7, 1ull << 32), EPERM);
    ck_assert_int_eq(agent(SYS_prlimit64, other, 7, 0), EPERM);
    ck_assert_int_eq(agent(SYS_fcntl, 3, F_GETFL, 0), 0);
    ck_assert_int_eq(agent(SYS_fcntl, 3, F_DUPFD_CLOEXEC, 0), 0);
    ck_assert_int_eq(agent(SYS_fcntl, 3, F_SETOWN, other), EPERM);
    ck_assert_int_eq(agent(SYS_fcntl, 3, F_SETOWN_EX, 0), EPERM);
    ck_assert_int_eq(agent(SYS_fcntl, 3, F_SETSIG, 9), EPERM);
    ck_assert_int_eq(agent(SYS_setpriority, 0, other, 1), EPERM);
    ck_assert_int_eq(agent(SYS_ioprio_set, 1, other, 1), EPERM);
}
END_TEST

START_TEST(an_environment_does_what_programs_do)
{
    ck_assert_int_eq(environment(SYS_execve, 0, 0, 0), 0);
    ck_assert_int_eq(environment(SYS_clone, CLONE_VM | CLONE_THREAD, 0, 0), 0);
    ck_assert_int_eq(environment(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0), EPERM);
    ck_assert_int_eq(environment(435 /* clone3 */, 0, 0, 0), ENOSYS);
    ck_assert_int_eq(environment(SYS_openat, 0, 0, O_RDWR | O_CREAT), 0);
    ck_assert_int_eq(environment(SYS_socket, AF_INET, SOCK_STREAM, 0), 0);
    ck_assert_int_eq(environment(SYS_socket, AF_PACKET, SOCK_RAW, 0), EPERM);
    ck_assert_int_eq(environment(SYS_ioctl, 0, FIONBIO, 0), 0);
    ck_assert_int_eq(environment(SYS_ioctl, 0, TIOCSTI, 0), EPERM);
    ck_assert_int_eq(environment(SYS_prctl, PR_SET_PDEATHSIG, 9, 0), 0);
    ck_assert_int_eq(environment(SYS_kill, 4711, 9, 0), 0);
    ck_assert_int_eq(environment(SYS_mount, 0, 0, 0), EPERM);
    /* its own limits; RLIMIT_CPU of another process would kill that */
    ck_assert_int_eq(environment(SYS_prlimit64, 0, 0, 4096), 0);
    ck_assert_int_eq(environment(SYS_prlimit64, (uint64_t)getpid(), 0, 4096), 0);
    ck_assert_int_eq(environment(SYS_prlimit64, 4711, 0, 0), 0);
    ck_assert_int_eq(environment(SYS_prlimit64, 4711, 0, 4096), EPERM);
    ck_assert_int_eq(environment(SYS_prlimit64, 4711, 0, 1ull << 32), EPERM);
    ck_assert_int_eq(environment(SYS_ptrace, 0, 0, 0), EPERM);
    ck_assert_int_eq(environment(SYS_madvise, 0, 0, MADV_HWPOISON), EPERM);
}
END_TEST

static int program(int more, int nr, uint64_t first, uint64_t second, uint64_t third)
{
    const struct filter f = filter_of(CONFINE_PROGRAM, more);
    const struct seccomp_data d = {
        .nr = nr, .arch = (uint32_t)ARCH, .args = {first, second, third}};

    return run(&f, &d);
}

START_TEST(a_program_does_what_is_opened)
{
    for (int more = 0; more < 8; more++) {
        const int threads = (more & CALLS_THREADS) != 0 ? 0 : EPERM;
        const int writes = (more & CALLS_WRITES) != 0 ? 0 : EPERM;

        ck_assert_int_eq(program(more, SYS_clone, CLONE_VM | CLONE_THREAD, 0, 0),
                         threads);
        ck_assert_int_eq(program(more, SYS_execve, 0, 0, 0), threads);
        ck_assert_int_eq(program(more, SYS_pipe2, 0, 0, 0), threads);
        ck_assert_int_eq(program(more, SYS_kill, 4711, 9, 0), threads);
        ck_assert_int_eq(program(more, SYS_openat, 0, 0, O_WRONLY | O_CREAT), writes);
        ck_assert_int_eq(program(more, SYS_unlinkat, 0, 0, 0), writes);
        ck_assert_int_eq(program(more, SYS_ioctl, 3, 0x4601, 0), writes);
        ck_assert_int_eq(program(more, SYS_openat, 0, 0, O_RDONLY), 0);
        ck_assert_int_eq(program(more, SYS_socket, AF_UNIX, SOCK_STREAM, 0), EPERM);
        ck_assert_int_eq(program(more, SYS_socketpair, AF_UNIX, SOCK_STREAM, 0), EPERM);
        ck_assert_int_eq(program(more, SYS_futex, 0, 0, 0), 0);
        ck_assert_int_eq(program(more, SYS_kill, (uint64_t)getpid(), 6, 0), 0);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("confine");
    TCase *c = tcase_create("filter");

    tcase_add_test(c, every_number_has_the_answer_of_the_table);
    tcase_add_test(c, an_agent_reads_and_computes);
    tcase_add_test(c, an_agent_reaches_only_itself);
    tcase_add_test(c, an_environment_does_what_programs_do);
    tcase_add_test(c, a_program_does_what_is_opened);
    suite_add_tcase(s, c);
    return s;
}

TEST_MAIN(make_suite)
