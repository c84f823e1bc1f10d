/* The keeper's look at its supervisor, at times that the test makes up. */
#include "supervisor/proc/keeper_watch.h"
#include "supervisor/proc/stall.h"
#include "tests/support/test_main.h"

#include "common/err/check.h"
#include "common/io/signal_process.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 30000 };

static struct keeper_watch watch;
static pid_t child;
static int64_t now_ms;

static void start_child(void)
{
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
}

static void setup(void)
{
    keeper_watch_init(&watch);
    ck_assert_ptr_nonnull(watch.beats);
    watch.limit_ms = LIMIT_MS;
    now_ms = 5000;
    start_child();
}

static void teardown(void)
{
    (void)signal_process(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

static enum keeper_news look_after(int64_t ms, int is_paused)
{
    now_ms += ms;
    return keeper_watch_look(&watch, child, now_ms, is_paused);
}

/* Looks every second, at most n times; returns the first news, and in *ret_s when it came. */
static enum keeper_news first_news(int n, int is_paused, int *ret_s)
{
    for (*ret_s = 1; *ret_s <= n; ++*ret_s) {
        const enum keeper_news news = look_after(KEEPER_LOOK_MS, is_paused);

        if (news != KEEPER_NO_NEWS)
            return news;
    }
    return KEEPER_NO_NEWS;
}

static void beat(void)
{
    (void)atomic_fetch_add(watch.beats, 1);
}

static void stop_child(void)
{
    siginfo_t info;

    ck_assert_int_eq(signal_process(child, SIGSTOP), 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WSTOPPED | WNOWAIT), 0);
}

START_TEST(a_loop_that_ticks_is_no_news)
{
    for (int i = 0; i < 100; i++) {
        beat();
        ck_assert_int_eq(look_after(KEEPER_LOOK_MS, 0), KEEPER_NO_NEWS);
    }
}
END_TEST

START_TEST(outside_its_loop_a_supervisor_takes_its_time)
{
    int s;

    ck_assert_int_eq(first_news(1000, 0, &s), KEEPER_NO_NEWS);
}
END_TEST

START_TEST(silence_is_told_and_ended_at_its_limit)
{
    int s;

    beat();
    ck_assert_int_eq(look_after(0, 0), KEEPER_NO_NEWS);
    ck_assert_int_eq(first_news(100, 0, &s), KEEPER_STALLS);
    ck_assert_int_eq(s, KEEPER_STALL_MS / KEEPER_LOOK_MS);
    ck_assert_int_eq(first_news(100, 0, &s), KEEPER_OVERDUE);
    ck_assert_int_eq(s, (LIMIT_MS - KEEPER_STALL_MS) / KEEPER_LOOK_MS);
    beat();
    ck_assert_int_eq(look_after(KEEPER_LOOK_MS, 0), KEEPER_GOES_ON);
    beat();
    ck_assert_int_eq(look_after(KEEPER_LOOK_MS, 0), KEEPER_NO_NEWS);
}
END_TEST

START_TEST(without_a_limit_nothing_is_ended)
{
    int s;

    watch.limit_ms = 0;
    beat();
    ck_assert_int_eq(first_news(100, 0, &s), KEEPER_STALLS);
    ck_assert_int_eq(first_news(10000, 0, &s), KEEPER_NO_NEWS);
}
END_TEST

/* Also outside its loop. */
START_TEST(a_stop_is_told_at_once)
{
    char text[STALL_TEXT_BYTES], expected[STALL_TEXT_BYTES];

    stop_child();
    ck_assert_int_eq(look_after(1, 0), KEEPER_STALLS);
    (void)snprintf(expected, sizeof(expected),
                   "it was stopped by a signal: `kill -CONT %d` continues it",
                   (int)child);
    ck_assert_str_eq(stall_text(child, text), expected);
    ck_assert(stall_is_stopped(child));
    ck_assert_int_eq(signal_process(child, SIGCONT), 0);
    while (stall_is_stopped(child))
        (void)poll(NULL, 0, 1);
    ck_assert_int_eq(look_after(1, 0), KEEPER_GOES_ON);
}
END_TEST

START_TEST(a_stop_of_the_job_does_not_count)
{
    int s;

    beat();
    stop_child();
    ck_assert_int_eq(first_news(1000, 1, &s), KEEPER_NO_NEWS);
}
END_TEST

/* A suspended machine, a frozen control group: the keeper has not run, either. */
START_TEST(time_in_which_the_keeper_did_not_run_does_not_count)
{
    beat();
    ck_assert_int_eq(look_after(KEEPER_LOOK_MS, 0), KEEPER_NO_NEWS);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(look_after(3600000, 0), KEEPER_NO_NEWS);
    beat();
    ck_assert_int_eq(look_after(KEEPER_LOOK_MS, 0), KEEPER_NO_NEWS);
}
END_TEST

START_TEST(what_a_debugger_holds_is_not_ended)
{
    char text[STALL_TEXT_BYTES], expected[STALL_TEXT_BYTES];
    int s;

    if (ptrace(PTRACE_SEIZE, child, NULL, NULL) < 0) {
        (void)fprintf(stderr, "ptrace is not allowed here: %m\n");
        return;
    }
    ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
    ck_assert_int_eq(waitpid(child, NULL, __WALL), child);
    ck_assert_int_eq(stall_tracer(child), getpid());
    ck_assert(stall_is_stopped(child));
    (void)snprintf(expected, sizeof(expected), "a debugger (pid %d) holds it",
                   (int)getpid());
    ck_assert_str_eq(stall_text(child, text), expected);
    beat();
    ck_assert_int_eq(first_news(1000, 0, &s), KEEPER_STALLS);
    ck_assert_int_eq(first_news(1000, 0, &s), KEEPER_NO_NEWS);
}
END_TEST

START_TEST(what_has_ended_is_said_so)
{
    char text[STALL_TEXT_BYTES];

    (void)signal_process(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_str_eq(stall_text(child, text), "it has ended");
    ck_assert_int_eq(stall_tracer(child), 0);
    start_child();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("keeper_watch");
    TCase *tc = tcase_create("keeper_watch");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_loop_that_ticks_is_no_news);
    tcase_add_test(tc, outside_its_loop_a_supervisor_takes_its_time);
    tcase_add_test(tc, silence_is_told_and_ended_at_its_limit);
    tcase_add_test(tc, without_a_limit_nothing_is_ended);
    tcase_add_test(tc, a_stop_is_told_at_once);
    tcase_add_test(tc, a_stop_of_the_job_does_not_count);
    tcase_add_test(tc, time_in_which_the_keeper_did_not_run_does_not_count);
    tcase_add_test(tc, what_a_debugger_holds_is_not_ended);
    tcase_add_test(tc, what_has_ended_is_said_so);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
