/* The keeper between a shell and a supervisor that stops slowly. The supervisor is this
 * test: it receives its signals when it chooses to. */
#include "common/io/signal_process.h"
#include "supervisor/proc/keeper.h"
#include "tests/support/test_main.h"

#include <check.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SUPERVISOR_CODE = 7 };

static int ready[2], asked[2]; /* from the supervisor, and to it */

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

static void block(const int *signums, size_t n)
{
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        (void)sigaddset(&set, signums[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

static int is_continued(void)
{
    sigset_t pending;

    return sigpending(&pending) < 0 || sigismember(&pending, SIGCONT);
}

/* A SIGCONT behind the first signal would be there before the second one. */
static _Noreturn void take_two_signals(void)
{
    static const int both[] = {SIGHUP, SIGTERM, SIGCONT};

    block(both, 3);
    if (write(ready[1], "r", 1) != 1)
        _exit(1);
    receive(SIGHUP);
    receive(SIGTERM);
    _exit(is_continued() ? 1 : SUPERVISOR_CODE);
}

/* Answers when it is asked. */
static _Noreturn void outlive_the_keeper(void)
{
    const pid_t sweeper = getppid();
    char byte;

    block(&(int){SIGCONT}, 1);
    if (write(ready[1], &sweeper, sizeof(sweeper)) != sizeof(sweeper) ||
        read(asked[0], &byte, 1) != 1)
        _exit(1);
    byte = is_continued() ? 'c' : '-';
    if (write(ready[1], &byte, 1) != 1)
        _exit(1);
    _exit(0);
}

static _Noreturn void keep(void (*supervise)(void))
{
    char name[] = "keeper", *argv[] = {name, NULL};
    const struct keeper_args args = {.argv = argv, .who = "test", .report_fd = -1};
    struct keeper_link link;
    struct err err;
    int code = 1;

    (void)signal(SIGHUP, SIG_DFL); /* a keeper leaves it ignored */
    if (keeper_split(&link, &args, &code, &err) > 0)
        supervise();
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
        keep(stop_late);
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

/* At the end of a process LeakSanitizer waits for ever for a stop that SIGCONT has taken back. */
START_TEST(a_signal_continues_no_supervisor_that_is_not_stopped)
{
    int status;
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        keep(take_two_signals);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(signal_process(pid, SIGHUP), 0);
    ck_assert_int_eq(signal_process(pid, SIGTERM), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), SUPERVISOR_CODE);
}
END_TEST

/* Whether a signal is in a set of proc(5): "ShdPnd", those that are pending, or "SigCgt", those
 * that have a handler. */
static int is_in(pid_t pid, const char *set_name, int signum)
{
    char path[48], line[128];
    const size_t n = strlen(set_name);
    unsigned long long set = 0;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, set_name, n) == 0 && sscanf(line + n, ": %llx", &set) == 1)
            break;
    (void)fclose(f);
    return (int)(set >> (signum - 1) & 1);
}

/* Once a second signal is taken, the handler of the first one has returned. */
static void await_handler(pid_t pid, int signum)
{
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(signal_process(pid, signum), 0);
        while (is_in(pid, "ShdPnd", signum))
            (void)sched_yield();
    }
}

START_TEST(the_end_of_the_keeper_continues_no_supervisor_that_is_not_stopped)
{
    pid_t pid, sweeper;
    char byte;

    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(asked), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        keep(outlive_the_keeper);
    ck_assert_int_eq(read(ready[0], &sweeper, sizeof(sweeper)), sizeof(sweeper));
    while (!is_in(sweeper, "SigCgt", SIGUSR1)) /* it begins when the supervisor does */
        (void)sched_yield();
    ck_assert_int_eq(signal_process(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid); /* the sweeper has got its signal */
    await_handler(sweeper, SIGUSR1);
    ck_assert_int_eq(write(asked[1], "?", 1), 1);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(byte, '-');
    ck_assert_int_eq(waitpid(sweeper, NULL, 0), sweeper);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("keeper");
    TCase *tc = tcase_create("keeper");

    tcase_add_test(tc, a_supervisor_that_stops_too_late_is_continued);
    tcase_add_test(tc, a_signal_continues_no_supervisor_that_is_not_stopped);
    tcase_add_test(tc, the_end_of_the_keeper_continues_no_supervisor_that_is_not_stopped);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
