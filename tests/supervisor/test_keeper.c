/* The keeper between a shell and a supervisor that stops slowly. The supervisor is this
 * test: it receives its signals when it chooses to. */
#include "common/io/signal_process.h"
#include "supervisor/proc/keeper.h"
#include "tests/support/test_main.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SUPERVISOR_CODE = 7 };

static int ready[2];

static void receive(int signum)
{
    sigset_t set;
    int got;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, signum);
    if (sigwait(&set, &got) != 0)
        _exit(1);
}

/* Stops only after receiving the SIGCONT that ends the stop. */
static _Noreturn void stop_late(void)
{
    const struct timespec a_second = {.tv_sec = 1};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTSTP);
    (void)sigaddset(&set, SIGCONT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    if (write(ready[1], "r", 1) != 1)
        _exit(1);
    receive(SIGTSTP);
    receive(SIGCONT);
    while (sigtimedwait(&set, NULL, &a_second) > 0)
        ; /* a second delivery of this SIGCONT would end the stop */
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    (void)raise(SIGSTOP);
    _exit(SUPERVISOR_CODE);
}

static _Noreturn void keep(void)
{
    char name[] = "keeper", *argv[] = {name, NULL};
    const struct keeper_args args = {.argv = argv, .who = "test", .report_fd = -1};
    struct keeper_link link;
    struct err err;
    int code = 1;

    if (keeper_split(&link, &args, &code, &err) > 0)
        stop_late();
    _exit(code);
}

START_TEST(a_supervisor_that_stops_too_late_is_continued)
{
    int status;
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        keep();
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(signal_process(pid, SIGTSTP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    ck_assert_int_eq(signal_process(pid, SIGCONT), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), SUPERVISOR_CODE);
    (void)close(ready[0]);
    (void)close(ready[1]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("keeper");
    TCase *tc = tcase_create("keeper");

    tcase_add_test(tc, a_supervisor_that_stops_too_late_is_continued);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
