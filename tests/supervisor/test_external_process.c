/* A table of external programs, whose requests are replayed by the caller's callbacks.
 * The program is tests/support/fake_env.c, started through the shipped agent's
 * launcher. */
#include "common/msg/env_protocol.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/proc/proc.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum { STEPS = 4, WIDTH = 6 };

struct rig {
    uv_loop_t loop;
    uv_timer_t deadline;
    int timed_out;
    struct agent_table *tables[2];
    int n_sent, ready, stopped, failed, answers, n_exits, n_steps;
    struct err report;
    uint64_t replayed;
    double reward[STEPS + 1];
    double judged[STEPS + 1];
    int is_strict; /* a different reward is an error */
};

static struct rig rig;
static struct temp_dir dir;

#define RUN_UNTIL(condition)                                                             \
    do {                                                                                 \
        while (!(condition)) {                                                           \
            ck_assert_msg(!rig.timed_out, "waited in vain for " #condition);             \
            (void)uv_run(&rig.loop, UV_RUN_ONCE);                                        \
        }                                                                                \
    } while (0)

static void on_deadline(uv_timer_t *t)
{
    rig.timed_out = 1;
}

static void on_event(void *ctx, const struct agent_event *e)
{
    if (e->kind == AGENT_EVENT_EXIT)
        rig.n_exits++;
    if (e->kind == AGENT_EVENT_READY)
        rig.replayed = e->replayed;
}

static void on_ready(void *ctx)
{
    rig.ready++;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    rig.failed = 1;
    rig.report = *report;
}

static void on_stopped(void *ctx)
{
    rig.stopped++;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    ck_assert_int_eq(restored, 0);
    msg_map(o, 2);
    msg_put_u64(o, "copies", 1);
    msg_key(o, "params");
    msg_map(o, 0);
}

/* Packs request i of the episode: a reset, then steps. */
static void pack(size_t i, struct msg_out *o)
{
    static const uint32_t copy = 0;
    static const uint64_t seed = 7;
    float actions[WIDTH] = {0};

    actions[i % 3] = 1;
    msg_map(o, 2);
    msg_key(o, "copies");
    msg_bin(o, &copy, sizeof(copy));
    msg_key(o, i == 0 ? "seed" : "actions");
    if (i == 0)
        msg_bin(o, &seed, sizeof(seed));
    else
        msg_bin(o, actions, sizeof(actions));
}

static double reward_of(const struct msg *response)
{
    const void *data = NULL;
    size_t len = 0;
    double reward = 0;

    ck_assert_int_eq(msg_get_bin(&response->body, "reward", &data, &len, NULL), 0);
    if (data != NULL)
        memcpy(&reward, data, sizeof(reward));
    return reward;
}

static int revive(void *ctx, size_t agent, size_t i, uint32_t id, struct msg_out *o)
{
    if (i >= (size_t)rig.n_steps)
        return 0;
    msg_begin_request(o, id, i == 0 ? "reset" : "step");
    pack(i, o);
    return 1;
}

static int judge(void *ctx, size_t agent, size_t i, const struct msg *response,
                 struct err *err)
{
    rig.judged[i] = reward_of(response);
    return !rig.is_strict || rig.judged[i] == rig.reward[i]
               ? 0
               : err_set(err, ERR_AGENT, "another reward");
}

static int repack(void *ctx, size_t agent, uint32_t id, struct msg_out *o)
{
    rig.n_sent++;
    return 0;
}

static void on_answer(void *ctx, size_t agent, const struct msg *response)
{
    rig.reward[rig.n_steps++] = reward_of(response);
    rig.answers++;
}

static struct agent_table *make_table(const char *mode)
{
    static const struct agent_revival revival = {revive, judge, repack};
    static const struct agent_limits limits = {
        .restart = {
            .max_restarts = 2, .within_s = 60, .delay_s = 0.01, .max_delay_s = 1}};
    const struct agent_callbacks cb = {.on_event = on_event,
                                       .on_ready = on_ready,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = &rig};
    static char program[512];
    static const char *command[] = {program, NULL, NULL};
    char exe[512];
    const struct agent_spec spec = {.name = "env_0",
                                    .role = "environment",
                                    .log_path = temp_dir_file(&dir, "env_0.log"),
                                    .pack_configure = pack_configure,
                                    .limits = &limits,
                                    .command = command,
                                    .directory = dir.path,
                                    .revival = &revival};
    struct agent_table *t;
    struct err err;
    int fd;

    command[1] = mode;
    (void)snprintf(exe, sizeof(exe), "%s/agent/brood-agent", getenv("BROOD_BUILD_DIR"));
    (void)snprintf(program, sizeof(program), "%s/tests/supervisor/fake_env",
                   getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(agent_table_new(&t, &rig.loop, fd, -1, &spec, 1, &cb, &err) == 0, "%s",
                  err.msg);
    (void)close(fd);
    ck_assert_int_eq(agent_table_start(t, NULL), 0);
    RUN_UNTIL(rig.ready || rig.failed);
    return t;
}

static void stop(struct agent_table *t)
{
    const int before = rig.stopped;

    agent_table_stop(t, 5000);
    RUN_UNTIL(rig.stopped > before);
    agent_table_free(t);
}

static void setup(void)
{
    rig = (struct rig){0};
    temp_dir_init(&dir);
    ck_assert_int_eq(uv_loop_init(&rig.loop), 0);
    ck_assert_int_eq(uv_timer_init(&rig.loop, &rig.deadline), 0);
    ck_assert_int_eq(uv_timer_start(&rig.deadline, on_deadline, 60000, 0), 0);
}

static void teardown(void)
{
    uv_close((uv_handle_t *)&rig.deadline, NULL);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&rig.loop), 0);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    temp_dir_done(&dir);
}

static void play(struct agent_table *t)
{
    for (size_t i = 0; i <= STEPS && !rig.failed; i++) {
        struct msg_out *o = agent_request_begin(t, 0, i == 0 ? "reset" : "step", 0);

        pack(i, o);
        ck_assert_int_eq(agent_request_send(t, 0, on_answer, NULL, NULL), 0);
        RUN_UNTIL(rig.answers == (int)i + 1 || rig.failed);
    }
}

static double expected[STEPS + 1];

static void play_calmly(void)
{
    struct agent_table *t = make_table("good");

    play(t);
    ck_assert_int_eq(rig.answers, STEPS + 1);
    stop(t);
    ck_assert_int_eq(rig.n_exits, 1);
    memcpy(expected, rig.reward, sizeof(expected));
    rig.ready = rig.answers = rig.n_exits = rig.n_steps = rig.n_sent = 0;
}

/* Killed in any request: the earlier requests are replayed through the caller, and the
 * answers continue as if nothing had happened. */
START_TEST(death_changes_nothing)
{
    struct agent_table *t;
    char mode[16];

    play_calmly();
    (void)snprintf(mode, sizeof(mode), "kill-%d", _i);
    rig.is_strict = 1;
    t = make_table(mode);
    play(t);
    ck_assert_msg(!rig.failed, "%s", rig.report.msg);
    ck_assert_int_eq(rig.answers, STEPS + 1);
    ck_assert_mem_eq(rig.reward, expected, sizeof(expected));
    ck_assert_uint_eq(rig.replayed, _i > 2 ? (uint64_t)_i - 2 : 0);
    ck_assert_int_eq(rig.n_sent, STEPS + 1 + (_i > 1 ? 1 : 0));
    ck_assert_mem_eq(rig.judged, expected, (size_t)rig.replayed * sizeof(double));
    ck_assert_int_eq(rig.n_exits, 1);
    stop(t);
}
END_TEST

START_TEST(the_callers_judgement_is_final)
{
    struct agent_table *t;

    rig.is_strict = 1;
    t = make_table("good");
    play(t);
    rig.reward[2] += 1;
    ck_assert_int_eq(agent_table_signal(t, 0, SIGKILL), 0);
    RUN_UNTIL(rig.failed);
    ck_assert_ptr_nonnull(strstr(rig.report.msg, "process env_0 (pid "));
    ck_assert_ptr_nonnull(strstr(rig.report.msg, "another reward"));
    stop(t);
}
END_TEST

static const struct {
    const char *mode, *says;
} failures[] = {
    {"always-2", "last words"},
    {"refuses-1", "configure: the rover has no wheels"},
    {"refuses-3", "step: the rover has no wheels"},
    {"version", "protocol version 99"},
};

START_TEST(failures_are_reported)
{
    struct agent_table *t = make_table(failures[_i].mode);

    play(t);
    RUN_UNTIL(rig.failed);
    ck_assert_msg(strstr(rig.report.msg, failures[_i].says) != NULL, "%s",
                  rig.report.msg);
    stop(t);
}
END_TEST

/* When a process of one table exits, those of the other table do not count as orphans. */
START_TEST(two_tables_know_each_other)
{
    struct agent_table *a = make_table("good"), *b;
    struct agent_info info;

    rig.ready = 0;
    b = make_table("good");
    agent_table_info(b, 0, &info);
    ck_assert(proc_is_known(info.pid));
    stop(a);
    ck_assert_int_eq(rig.n_exits, 1);
    play(b);
    ck_assert_int_eq(rig.n_exits, 1);
    ck_assert_int_eq(rig.answers, STEPS + 1);
    stop(b);
    ck_assert(!proc_is_known(info.pid));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("external_process");
    TCase *tc = tcase_create("external_process");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, death_changes_nothing, 1, STEPS + 3);
    tcase_add_test(tc, the_callers_judgement_is_final);
    tcase_add_loop_test(tc, failures_are_reported, 0,
                        sizeof(failures) / sizeof(failures[0]));
    tcase_add_test(tc, two_tables_know_each_other);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
