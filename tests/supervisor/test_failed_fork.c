/* A keeper whose fork fails. */
#include "common/io/signal_process.h"
#include "supervisor/proc/keeper.h"
#include "tests/support/alone.h"
#include "tests/support/test_main.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const char *const failed_forks[] = {
    "starting the sweeper: fork: Resource temporarily unavailable",
    "starting the supervisor: fork: Resource temporarily unavailable"};

static _Noreturn void keep_among(int n_processes, const char *message)
{
    const struct rlimit limit = {(rlim_t)n_processes, (rlim_t)n_processes};
    char name[] = "keeper", *argv[] = {name, NULL};
    const struct keeper_args args = {.argv = argv, .who = "test", .report_fd = -1};
    struct keeper_link link;
    struct err err = {0};
    int code;

    if (setrlimit(RLIMIT_NPROC, &limit) < 0 ||
        keeper_split(&link, &args, &code, &err) >= 0)
        _exit(1);
    _exit(strcmp(err.msg, message) == 0 ? 0 : 2);
}

/* ctx: how many forks of the keeper succeed. Returns 0 if a process beside the keeper is still
 * there. */
static int let_fork_fail(void *ctx)
{
    const int n = *(const int *)ctx;
    const pid_t bystander = fork();
    int status;
    pid_t pid;

    while (bystander == 0)
        (void)pause();
    pid = bystander < 0 ? -1 : fork();
    if (pid == 0)
        keep_among(3 + n, failed_forks[n]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 3;
    if (!WIFEXITED(status) || waitpid(bystander, NULL, WNOHANG) != 0)
        return 4;
    (void)signal_process(bystander, SIGKILL);
    (void)waitpid(bystander, NULL, 0);
    return WEXITSTATUS(status);
}

/* Signalling the -1 that fork returned would end every process of the user. */
START_TEST(a_failed_fork_ends_no_other_process)
{
    struct alone_result r;
    int n = _i;

    alone_run(&r, let_fork_fail, &n);
    ck_assert_msg(r.is_possible, "%s", r.why);
    ck_assert_msg(WIFEXITED(r.status), "ended by signal %d", WTERMSIG(r.status));
    ck_assert_int_eq(WEXITSTATUS(r.status), 0);
    ck_assert_msg(r.n_left == 0, "left: %s", r.why);
}
END_TEST

START_TEST(alone_finds_fault_with_this_place)
{
    ck_assert_ptr_nonnull(alone_fault());
}
END_TEST

static int may_fail(void *ctx)
{
    return alone_fault() == NULL ? 0 : 1;
}

static Suite *make_suite(void)
{
    Suite *s = suite_create("failed_fork");
    TCase *tc = tcase_create("failed_fork");
    struct alone_result r;

    alone_run(&r, may_fail, NULL);
    if (!r.is_possible)
        TEST_SKIP_ALL(r.why);
    tcase_add_test(tc, alone_finds_fault_with_this_place);
    tcase_add_loop_test(tc, a_failed_fork_ends_no_other_process, 0,
                        sizeof(failed_forks) / sizeof(failed_forks[0]));
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
