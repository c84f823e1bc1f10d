/* Processes that are started to answer questions, on a loop of their own. They are
 * tests/support/fake_agent.c. */
#include "supervisor/ask/ask.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct temp_dir dir;
static struct ask *ask;
static size_t n_descriptors;

static size_t count_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    ck_assert_ptr_nonnull(d);
    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

static void setup(void)
{
    uv_loop_t first; /* libuv's first loop opens a pipe for the whole process */

    ck_assert_int_eq(uv_loop_init(&first), 0);
    ck_assert_int_eq(uv_loop_close(&first), 0);
    temp_dir_init(&dir);
    ck_assert_int_eq(chdir(dir.path), 0);
    ask = NULL;
    n_descriptors = count_descriptors();
}

/* No process and no descriptor may be left; ask_close looks for open handles itself. */
static void teardown(void)
{
    ask_close(ask);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    ck_assert_uint_eq(count_descriptors(), n_descriptors);
    temp_dir_done(&dir);
}

static int context; /* its address is passed to the callbacks */

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    ck_assert_ptr_eq(ctx, &context);
    msg_map(o, 1);
    msg_put_bool(o, "restored", restored);
}

static int open_agents(const char *const *names, size_t n, struct err *err)
{
    static const struct agent_limits soon = {.respond_within_s = 1}, none = {0};
    struct agent_spec specs[4] = {0};
    struct ask_args args = {.specs = specs, .n = n, .ctx = &context};
    char exe[512];
    int rc;

    for (size_t i = 0; i < n; i++)
        specs[i] = (struct agent_spec){.name = names[i],
                                       .role = "learner",
                                       .limits = strcmp(names[i], "waits-1") == 0 ? &soon
                                                                                  : &none,
                                       .is_trial = 1,
                                       .pack_configure = pack_configure};
    (void)snprintf(exe, sizeof(exe), "%s/tests/supervisor/fake_agent",
                   getenv("BROOD_BUILD_DIR"));
    args.agent_exe_fd = open(exe, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(args.agent_exe_fd >= 0, "%s", exe);
    rc = ask_open(&ask, &args, err);
    (void)close(args.agent_exe_fd);
    return rc;
}

static size_t n_answers;

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    (void)agent;
    ck_assert_int_ge(msg_require(&response->body, "sum", NULL), 0);
    n_answers++;
    if (n_answers == agent_table_count(ask_agents(ctx)))
        ask_done(ctx);
}

static void send_all(const char *method)
{
    n_answers = 0;
    for (size_t i = 0; i < agent_table_count(ask_agents(ask)); i++) {
        struct msg_out *o = agent_request_begin(ask_agents(ask), i, method, 0);

        msg_map(o, 1);
        msg_key(o, "payload");
        msg_bin(o, "", 0);
        ck_assert_int_eq(agent_request_send(ask_agents(ask), i, on_response, ask, NULL),
                         0);
    }
}

START_TEST(every_process_answers)
{
    static const char *const names[] = {"good", "good-2", "naps-2"};
    struct err err;

    ck_assert_msg(open_agents(names, 3, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_ge(msg_require(ask_answer(ask, i), "about", NULL), 0);
    for (int round = 0; round < 2; round++) {
        send_all("act");
        ck_assert_msg(ask_wait(ask, &err) == 0, "%s", err.msg);
        ck_assert_uint_eq(n_answers, 3);
    }
    ck_assert(!ask_process_failed(ask));
}
END_TEST

static const struct {
    const char *name;
    int at_open; /* the failure is in ask_open; 0: in the next request */
    const char *says;
} failures[] = {
    {"always-1", 1, "agent always-1 (pid "},
    {"always-1", 1, "last words of always-1"},
    {"always-2", 0, "killed by SIGKILL in act"},
    {"exit-100", 0, "must not be restarted"},
    {"error", 0, "act: the loss is no number"},
    {"waits-1", 1, "did not answer configure for "},
};

/* The other process continues, and is ended with the failed one. */
START_TEST(the_first_failure_is_the_outcome)
{
    const char *const names[] = {"good", failures[_i].name};
    struct err err, later;
    int rc;

    rc = open_agents(names, 2, &err);
    ck_assert_int_eq(rc < 0, failures[_i].at_open);
    if (rc == 0) {
        send_all("act");
        rc = ask_wait(ask, &err);
    }
    ck_assert_int_lt(rc, 0);
    ck_assert_msg(strstr(err.msg, failures[_i].says) != NULL, "%s", err.msg);
    ck_assert(ask_process_failed(ask));
    ck_assert_int_eq(ask_process_was_killed(ask),
                     strncmp(failures[_i].name, "always", 6) == 0);
    ask_done(ask);
    ck_assert_int_eq(ask_wait(ask, &later), rc);
    ck_assert_str_eq(later.msg, err.msg);
}
END_TEST

START_TEST(the_caller_may_fail_it)
{
    static const char *const names[] = {"good"};
    struct err err, why;

    ck_assert_int_eq(open_agents(names, 1, NULL), 0);
    (void)err_set(&why, ERR_STATE, "the weather");
    ask_fail(ask, &why);
    ck_assert_int_eq(ask_wait(ask, &err), ERR_STATE);
    ck_assert_str_eq(err.msg, "the weather");
    ck_assert(!ask_process_failed(ask));
}
END_TEST

/* The process does not answer `shutdown` and gets a signal. */
START_TEST(a_process_that_does_not_end_is_terminated)
{
    static const char *const names[] = {"spins-2"};
    struct err err;

    ck_assert_msg(open_agents(names, 1, &err) == 0, "%s", err.msg);
}
END_TEST

/* A missing executable is not a failure of a process. */
START_TEST(no_process_can_be_started)
{
    struct agent_spec spec = {
        .name = "good", .role = "learner", .pack_configure = pack_configure};
    const struct ask_args args = {
        .agent_exe_fd = -1, .specs = &spec, .n = 1, .ctx = &context};
    struct err err;

    ck_assert_int_eq(ask_open(&ask, &args, &err), -EBADF);
    ck_assert(!ask_process_failed(ask));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ask");
    TCase *tc = tcase_create("ask");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_process_answers);
    tcase_add_loop_test(tc, the_first_failure_is_the_outcome, 0,
                        sizeof(failures) / sizeof(failures[0]));
    tcase_add_test(tc, the_caller_may_fail_it);
    tcase_add_test(tc, a_process_that_does_not_end_is_terminated);
    tcase_add_test(tc, no_process_can_be_started);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
