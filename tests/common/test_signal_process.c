#include "common/io/signal_process.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

/* Whatever the functions do, signal 0 harms nobody. */
static const pid_t refused[] = {1, 0, -1, -2, INT32_MIN};

START_TEST(what_is_not_one_process_or_group_is_refused)
{
    const pid_t pid = refused[_i];

    errno = 0;
    ck_assert_int_eq(signal_process(pid, 0), -1);
    ck_assert_int_eq(errno, EINVAL);
    errno = 0;
    ck_assert_int_eq(signal_group(pid, 0), -1);
    ck_assert_int_eq(errno, EINVAL);
    errno = 0;
    ck_assert_int_eq(signal_pidfd(-1, pid, 0), -1);
    ck_assert_int_eq(errno, EINVAL);
}
END_TEST

static pid_t start_sleeper(void)
{
    const pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    while (pid == 0)
        (void)pause();
    return pid;
}

static void expect_end(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

START_TEST(one_process_is_signalled)
{
    pid_t pid = start_sleeper();
    int pidfd;

    ck_assert_int_eq(signal_process(pid, SIGKILL), 0);
    expect_end(pid);
    pid = start_sleeper();
    pidfd = pidfd_open(pid, 0);
    ck_assert_int_ge(pidfd, 0);
    ck_assert_int_eq(signal_pidfd(pidfd, pid, SIGKILL), 0);
    expect_end(pid);
    (void)close(pidfd);
}
END_TEST

START_TEST(a_group_is_signalled)
{
    const pid_t first = start_sleeper(), second = start_sleeper();

    ck_assert_int_eq(setpgid(first, first), 0);
    ck_assert_int_eq(setpgid(second, first), 0);
    ck_assert_int_eq(signal_group(first, SIGKILL), 0);
    expect_end(first);
    expect_end(second);
}
END_TEST

START_TEST(a_process_exists_until_it_is_reaped)
{
    const pid_t pid = start_sleeper();

    ck_assert(process_exists(1));
    ck_assert(process_exists(getpid()));
    ck_assert(process_exists(pid));
    ck_assert_int_eq(signal_process(pid, SIGKILL), 0);
    expect_end(pid);
    ck_assert(!process_exists(pid));
    ck_assert(!process_exists(0));
    ck_assert(!process_exists(-1));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("signal_process");
    TCase *tc = tcase_create("signal_process");

    tcase_add_loop_test(tc, what_is_not_one_process_or_group_is_refused, 0,
                        sizeof(refused) / sizeof(refused[0]));
    tcase_add_test(tc, one_process_is_signalled);
    tcase_add_test(tc, a_group_is_signalled);
    tcase_add_test(tc, a_process_exists_until_it_is_reaped);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
