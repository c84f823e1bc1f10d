/* Finding processes by the mark in their environment. */
#include "common/io/signal_process.h"
#include "supervisor/proc/pid_file.h"
#include "supervisor/proc/sweep.h"
#include "tests/support/test_main.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOKS = 1000 };

static char mark[32];
static int began[2];

/* A process that executes itself again and again. */
static _Noreturn void execute_for_ever(void)
{
    static const char again[] = "exec /bin/sh -c \"$AGAIN\"";

    (void)setenv("BROOD_TEST_SWEEP", mark, 1);
    (void)setenv("AGAIN", again, 1);
    (void)close(began[0]);
    (void)dup2(began[1], STDOUT_FILENO);
    (void)execl("/bin/sh", "sh", "-c",
                "printf r; exec >/dev/null; exec /bin/sh -c \"$AGAIN\"", (char *)NULL);
    _exit(1);
}

START_TEST(a_process_in_execve_keeps_its_mark)
{
    char byte;
    pid_t pid;

    (void)snprintf(mark, sizeof(mark), "%d", (int)getpid());
    ck_assert_int_eq(pipe(began), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        execute_for_ever();
    ck_assert_int_eq(read(began[0], &byte, 1), 1);
    for (int i = 0; i < LOOKS; i++)
        ck_assert_msg(sweep_count("BROOD_TEST_SWEEP", mark) == 1, "look %d", i);
    ck_assert_int_eq(signal_process(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_uint_eq(sweep_count("BROOD_TEST_SWEEP", mark), 0);
}
END_TEST

START_TEST(an_empty_environment_has_no_mark)
{
    char *const argv[] = {(char[]){"sleep"}, (char[]){"4242"}, NULL}, *const none[] = {
                                                                          NULL};
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe2(began, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)execve("/bin/sleep", argv, none);
        _exit(1);
    }
    (void)close(began[1]);
    ck_assert_int_eq(read(began[0], &byte, 1), 0); /* execve has closed the other end */
    /* or else a look would wait for it; the kernel notes it a moment after it closes files */
    while (pid_has_environment(pid))
        (void)poll(NULL, 0, 1);
    ck_assert(pid_has_environment(getpid()));
    ck_assert_uint_eq(sweep_count("BROOD_TEST_SWEEP", "none"), 0);
    ck_assert_int_eq(signal_process(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

/* Of another user, who knows the mark. */
START_TEST(a_stranger_with_the_mark_does_not_count)
{
    enum { STRANGER = 65533 };
    char byte;
    pid_t pid;

    if (geteuid() != 0) {
        (void)fprintf(stderr, "only root can become another user\n");
        return;
    }
    (void)snprintf(mark, sizeof(mark), "%d", (int)getpid());
    ck_assert_int_eq(setenv("BROOD_TEST_SWEEP", mark, 1), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pipe2(began, O_CLOEXEC), 0);
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            if (i == 0 || (setgid(STRANGER) == 0 && setuid(STRANGER) == 0))
                (void)execl("/bin/sleep", "sleep", "4242", (char *)NULL);
            _exit(1);
        }
        (void)close(began[1]);
        ck_assert_int_eq(read(began[0], &byte, 1), 0);
        ck_assert_uint_eq(sweep_count("BROOD_TEST_SWEEP", mark), i == 0);
        ck_assert_int_eq(signal_process(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
        (void)close(began[0]);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("sweep");
    TCase *tc = tcase_create("sweep");

    tcase_add_test(tc, a_process_in_execve_keeps_its_mark);
    tcase_add_test(tc, an_empty_environment_has_no_mark);
    tcase_add_test(tc, a_stranger_with_the_mark_does_not_count);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
