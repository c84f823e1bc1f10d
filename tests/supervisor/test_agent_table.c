/* The agents are tests/support/fake_agent.c; an agent's name determines what it does. */
#include "common/io/signal_process.h"
#include "supervisor/proc/agent_table.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MAX_AGENTS 3
#define MAX_WAITS  8

struct rig {
    uv_loop_t loop;
    uv_timer_t deadline;
    uint64_t give_up_ms;
    struct agent_table *table;
    struct agent_spec specs[MAX_AGENTS];
    struct agent_limits limits;
    enum numerics numerics;
    size_t n;
    char dir[64];
    int ready, stopped, failed, timed_out;
    struct err report;
    uint64_t replayed;
    int n_exits, n_ready, n_waits, n_given_up;
    uint64_t delays_ms[MAX_WAITS];
    char why[480];
    struct agent_event last_exit;
    struct agent_mode_change turn; /* the newest mode change */
    int answered[MAX_AGENTS], absent[MAX_AGENTS];
    uint64_t sum[MAX_AGENTS];
    size_t payload_len[MAX_AGENTS];
};

static struct rig rig;

#define RUN_UNTIL(condition)                                                             \
    do {                                                                                 \
        while (!(condition)) {                                                           \
            ck_assert_msg(!rig.timed_out, "waited in vain for " #condition);             \
            (void)uv_run(&rig.loop, UV_RUN_ONCE);                                        \
        }                                                                                \
    } while (0)

/* The timer repeats: after a turn of the loop that runs only a timer, the loop waits for
 * the next event. */
static void on_deadline(uv_timer_t *t)
{
    rig.timed_out = uv_now(&rig.loop) > rig.give_up_ms;
}

static void on_event(void *ctx, const struct agent_event *e)
{
    if (e->change != NULL)
        rig.turn = *e->change;
    if (e->kind == AGENT_EVENT_EXIT) {
        rig.n_exits++;
        if (e->text != NULL)
            (void)snprintf(rig.why, sizeof(rig.why), "%s", e->text);
        rig.last_exit = *e;
    } else if (e->kind == AGENT_EVENT_WAIT) {
        rig.delays_ms[rig.n_waits++ % MAX_WAITS] = e->delay_ms;
    } else if (e->kind == AGENT_EVENT_GIVE_UP) {
        rig.n_given_up++;
        (void)snprintf(rig.why, sizeof(rig.why), "%s", e->text);
    } else if (e->kind == AGENT_EVENT_READY) {
        rig.n_ready++;
        rig.replayed += e->replayed;
    }
}

static void on_ready(void *ctx)
{
    rig.ready++;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    ck_assert_int_eq(rig.failed, 0);
    rig.failed = 1;
    rig.report = *report;
}

static void on_stopped(void *ctx)
{
    rig.stopped++;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    ck_assert_ptr_eq(ctx, &rig);
    msg_map(o, 1);
    msg_put_bool(o, "restored", restored);
}

static void make_table(const char *const *names, size_t n)
{
    const struct agent_callbacks cb = {.on_event = on_event,
                                       .on_ready = on_ready,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = &rig};
    char exe[512];
    struct err err;
    size_t i;
    int fd;

    (void)snprintf(exe, sizeof(exe), "%s/tests/supervisor/fake_agent",
                   getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s", exe);
    for (i = 0; i < n; i++)
        rig.specs[i] = (struct agent_spec){.name = names[i],
                                           .role = "learner",
                                           .log_path = "agent.log",
                                           .limits = &rig.limits,
                                           .pack_configure = pack_configure};
    rig.n = n;
    rig.stopped = rig.ready = rig.failed = 0;
    rig.give_up_ms = uv_now(&rig.loop) + 600000;
    ck_assert_msg(
        agent_table_new(&rig.table, &rig.loop, fd, -1, rig.specs, n, &cb, &err) == 0,
        "%s", err.msg);
    (void)close(fd);
    agent_table_set_numerics(rig.table, rig.numerics);
    ck_assert_int_eq(agent_table_start(rig.table, NULL), 0);
}

static void start(const char *name)
{
    make_table(&name, 1);
}

static void start_ready(const char *name)
{
    start(name);
    RUN_UNTIL(rig.ready || rig.failed);
    ck_assert_msg(rig.ready, "%s", rig.report.msg);
}

static void stop_within(uint64_t deadline_ms)
{
    agent_table_stop(rig.table, deadline_ms);
    RUN_UNTIL(rig.stopped);
    agent_table_free(rig.table);
    rig.table = NULL;
}

static void assert_no_child_left(void)
{
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

static void setup(void)
{
    memset(&rig, 0, sizeof(rig));
    rig.limits.restart =
        (struct restart_config){.max_restarts = 5, .within_s = 60, .max_delay_s = 10};
    (void)snprintf(rig.dir, sizeof(rig.dir), "/tmp/test_agent_table.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig.dir));
    ck_assert_int_eq(chdir(rig.dir), 0);
    ck_assert_int_eq(uv_loop_init(&rig.loop), 0);
    ck_assert_int_eq(uv_timer_init(&rig.loop, &rig.deadline), 0);
    ck_assert_int_eq(uv_timer_start(&rig.deadline, on_deadline, 5, 5), 0);
    rig.give_up_ms = uv_now(&rig.loop) + 600000;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *f)
{
    return remove(path);
}

static void teardown(void)
{
    if (rig.table != NULL)
        stop_within(5000);
    assert_no_child_left();
    uv_close((uv_handle_t *)&rig.deadline, NULL);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&rig.loop), 0);
    ck_assert_int_eq(chdir("/"), 0);
    (void)nftw(rig.dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Requests */

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    const void *payload = NULL;

    ck_assert_int_eq(rig.answered[agent], 0);
    rig.answered[agent] = 1;
    rig.absent[agent] = agent_response_is_absent(response);
    ck_assert_int_eq(
        msg_get_u64(&response->body, "sum", UINT64_MAX, &rig.sum[agent], NULL), 0);
    ck_assert_int_eq(
        msg_get_bin(&response->body, "payload", &payload, &rig.payload_len[agent], NULL),
        0);
}

static void send_request(size_t agent, const char *method, uint64_t value,
                         const void *payload, size_t payload_len)
{
    struct msg_out *o =
        agent_request_begin(rig.table, agent, method, strcmp(method, "learn") == 0);
    struct err err;

    msg_map(o, 3);
    msg_put_u64(o, "value", value);
    msg_put_u64(o, "update", value);
    msg_key(o, "payload");
    msg_bin(o, payload, payload_len);
    rig.answered[agent] = 0;
    ck_assert_msg(agent_request_send(rig.table, agent, on_response, NULL, &err) == 0,
                  "%s", err.msg);
}

static uint64_t ask(size_t agent, const char *method, uint64_t value)
{
    send_request(agent, method, value, NULL, 0);
    RUN_UNTIL(rig.answered[agent] || rig.failed);
    ck_assert_msg(!rig.failed, "%s", rig.report.msg);
    return rig.sum[agent];
}

#define SCRIPT_LEN 8

/* A few rounds; `learn` in two of three. The results must not depend on deaths. */
static void run_script(uint64_t *sums)
{
    size_t i;

    for (i = 0; i < SCRIPT_LEN; i++)
        sums[i] = ask(0, i % 3 == 1 ? "act" : "learn", i);
}

enum { BLOCK_WORDS = 1 << 17 }; /* the block of fake_agent.c; zeros after it */

static uint64_t hash_block(void)
{
    const uint64_t *block;
    const void *p;
    size_t len, i;
    uint64_t h = 0;
    struct err err;

    ck_assert_msg(agent_table_block(rig.table, 0, &p, &len, &err) == 0, "%s", err.msg);
    block = p;
    for (i = 0; i < len / sizeof(*block) && i < BLOCK_WORDS; i++)
        h = h * 31 + block[i];
    return h;
}

START_TEST(request_and_response)
{
    static const char *const names[] = {"echo-0", "echo-1", "echo-2"};
    struct agent_info info;
    size_t i;

    make_table(names, 3);
    ck_assert_ptr_null(agent_table_description(rig.table, 0));
    RUN_UNTIL(rig.ready);
    for (i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(
            msg_get(&agent_table_description(rig.table, i)->body, "block_bytes"));
        send_request(i, "learn", 7, "xyz", i);
    }
    RUN_UNTIL(rig.answered[0] && rig.answered[1] && rig.answered[2]);
    ck_assert_uint_eq(rig.sum[0], rig.sum[1]);
    ck_assert_uint_eq(rig.payload_len[2], 2);
    ck_assert_uint_eq(hash_block(), rig.sum[0]);
    agent_table_info(rig.table, 1, &info);
    ck_assert_str_eq(info.name, "echo-1");
    ck_assert_int_eq(info.state, AGENT_IDLE);
    ck_assert_int_gt(info.pid, 0);
    ck_assert_int_gt(info.rss_bytes, 0);
    ck_assert_uint_eq(info.restarts, 0);
    ck_assert_uint_eq(agent_table_find(rig.table, "echo-2"), 2);
    ck_assert_uint_eq(agent_table_find(rig.table, "nobody"), 3);
}
END_TEST

START_TEST(one_request_at_a_time)
{
    const void *p;
    size_t len;

    start_ready("echo");
    send_request(0, "learn", 1, NULL, 0);
    ck_assert_int_eq(agent_table_block(rig.table, 0, &p, &len, NULL), ERR_STATE);
    (void)agent_request_begin(rig.table, 0, "act", 0);
    ck_assert_int_eq(agent_request_send(rig.table, 0, on_response, NULL, NULL),
                     ERR_STATE);
    RUN_UNTIL(rig.answered[0]);
    stop_within(5000);
    ck_assert_int_eq(rig.last_exit.exit_code, 0);
}
END_TEST

/* Responses and block are the same whenever and however the process dies. */
START_TEST(death_changes_nothing)
{
    static const char *const modes[] = {"kill", "late", "half", "after"};
    const char *mode = modes[_i / SCRIPT_LEN];
    uint64_t calm[SCRIPT_LEN], sums[SCRIPT_LEN], calm_block;
    char name[32];
    /* request 1 is configure; only `kill` dies in it */
    const int n = _i % SCRIPT_LEN + (mode[0] == 'k' ? 1 : 2);

    start_ready("echo");
    run_script(calm);
    calm_block = hash_block();
    stop_within(5000);

    rig.n_exits = 0;
    (void)snprintf(name, sizeof(name), "%s-%d", mode, n);
    start_ready(name);
    run_script(sums);
    ck_assert_mem_eq(sums, calm, sizeof(calm));
    (void)ask(0, "act", 0); /* the agent must have been respawned by now */
    ck_assert_uint_eq(hash_block(), calm_block);
    ck_assert_int_eq(rig.n_exits, 1);
}
END_TEST

/* Killed from outside after every request, while idle, with a list to replay. */
START_TEST(killed_while_idle)
{
    uint64_t calm[SCRIPT_LEN], sum = 0;
    size_t i, k;

    start_ready("echo");
    run_script(calm);
    stop_within(5000);

    start_ready("echo");
    rig.n_exits = 0;
    for (k = 0; k < 3; k++) {
        for (i = 0; i < SCRIPT_LEN && k == 0; i++) {
            sum = ask(0, i % 3 == 1 ? "act" : "learn", i);
            ck_assert_uint_eq(sum, calm[i]);
            ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGKILL), 0);
        }
        ck_assert_uint_eq(ask(0, "act", 0), sum);
    }
    ck_assert_int_eq(rig.n_exits, SCRIPT_LEN);
    ck_assert_int_eq(rig.last_exit.signal, SIGKILL);
    ck_assert_int_eq(rig.last_exit.exit_code, -1);
}
END_TEST

/* A burst of requests leaves no time for snapshots, so the agent is restored by
 * replay. */
START_TEST(requests_are_replayed)
{
    uint64_t sum = 0, i;

    start_ready("slow");
    for (i = 0; i < 5; i++) {
        sum = ask(0, "learn", i);
        ck_assert_uint_eq(ask(0, "act", 0), sum);
    }
    for (; rig.replayed == 0; i++) { /* under load, some requests get a snapshot */
        ck_assert(!rig.timed_out);
        sum = ask(0, "learn", i);
        ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGSEGV), 0);
        ck_assert_uint_eq(ask(0, "act", 0), sum);
    }
    ck_assert_uint_gt(rig.replayed, 0);
    ck_assert_uint_eq(hash_block(), sum);
}
END_TEST

/* Killed from outside while idle: its values can be read all the time. */
START_TEST(block_is_there_whenever_it_is_killed)
{
    uint64_t sum, i;
    int n_ready;

    start_ready("echo");
    for (i = 0; i < 20; i++) {
        (void)ask(0, "learn", i);
        sum = ask(0, "learn", i);
        ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGKILL), 0);
        for (n_ready = rig.n_ready; rig.n_ready == n_ready;) {
            ck_assert_uint_eq(hash_block(), sum);
            (void)uv_run(&rig.loop, UV_RUN_ONCE);
        }
    }
}
END_TEST

START_TEST(callers_may_ask_before_it_is_ready)
{
    start("kill-1");
    send_request(0, "learn", 3, NULL, 0);
    RUN_UNTIL(rig.answered[0]);
    ck_assert_int_eq(rig.n_exits, 1);
}
END_TEST

/* name of the agent; texts in the report */
static const struct {
    const char *name, *says[4];
    int n_exits;
} failures[] = {
    {"always-2",
     {"agent always-2 (pid ", "died 6 times within 60 s",
      "in learn of update 1 killed by SIGKILL", "first words | last words of always-2"},
     6},
    {"always-1", {"agent always-1", "SIGKILL"}, 6},
    {"exit-1", {"ended it 3 times", "exited with code 1"}, 3},
    {"exit-0", {"ended it 3 times", "exited with code 0"}, 3},
    {"exit-100", {"exited with code 100", "must not be restarted"}, 1},
    {"error", {"agent error (pid ", "learn of update 1", "the loss is no number"}, 1},
    {"garbage", {"learn of update 1 ended it 3 times", "killed because"}, 3},
    {"huge", {"learn of update 1 ended it 3 times", "killed because"}, 3},
    {"bomb", {"learn of update 1 ended it 3 times", "killed because"}, 3},
    {"wrongid", {"ended it 3 times", "it answered request"}, 3},
    {"closes", {"ended it 3 times", "closed its message pipe"}, 3},
    {"badpid", {"died 6 times", "it reports pid"}, 6},
    {"version", {"protocol version 99, the supervisor 1"}, 1},
    {"bigblock", {"block_bytes"}, 1},
    {"poison-1", {"learn of update 1 ended it 3 times", "SIGSEGV"}, 3},
};

START_TEST(failure_is_reported_once)
{
    size_t i;

    start(failures[_i].name);
    send_request(0, "learn", 1, NULL, 0);
    RUN_UNTIL(rig.failed);
    for (i = 0; i < 4 && failures[_i].says[i] != NULL; i++)
        ck_assert_msg(strstr(rig.report.msg, failures[_i].says[i]) != NULL, "%s",
                      rig.report.msg);
    ck_assert_ptr_null(strchr(rig.report.msg, '\n'));
    ck_assert_int_eq(rig.n_exits, failures[_i].n_exits);
    ck_assert_int_eq(agent_request_send(rig.table, 0, on_response, NULL, NULL),
                     ERR_STATE);
    stop_within(5000);
    ck_assert_int_eq(rig.answered[0], 0);
}
END_TEST

/* A second response to a request is a death, and never reaches the caller. */
START_TEST(answering_twice)
{
    uint64_t calm[SCRIPT_LEN], sums[SCRIPT_LEN];

    start_ready("echo");
    run_script(calm);
    stop_within(5000);
    start_ready("twice");
    rig.n_exits = 0;
    run_script(sums);
    ck_assert_mem_eq(sums, calm, sizeof(calm));
    ck_assert_int_eq(rig.n_exits, 1);
}
END_TEST

/* Respawned processes that differ from the first one. */
static const struct {
    const char *name, *says;
} impostors[] = {
    {"build", "it is build build-2, but the first process of the run was build build-1"},
    {"fingerprint", "fingerprint is f00d"},
    {"numerics", "it is of numerics version 4, the supervisor of 3"},
    {"other", "not reproducible: its response to configure"},
};

START_TEST(impostors_are_refused)
{
    rig.numerics = NUMERICS_NATIVE;
    start_ready(impostors[_i].name);
    ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGKILL), 0);
    RUN_UNTIL(rig.failed);
    ck_assert_msg(strstr(rig.report.msg, impostors[_i].says) != NULL, "%s",
                  rig.report.msg);
}
END_TEST

/* The numerics version is the same, so only the answers count. */
START_TEST(another_build_or_cpu_is_as_good)
{
    static const char *const names[] = {"build", "fingerprint"};
    uint64_t calm[SCRIPT_LEN], sums[SCRIPT_LEN];

    start_ready("echo");
    run_script(calm);
    stop_within(5000);
    start_ready(names[_i]);
    ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGKILL), 0);
    run_script(sums);
    ck_assert_mem_eq(sums, calm, sizeof(calm));
    ck_assert_int_eq(rig.n_exits, 2); /* the exit in the first table, and this death */
    stop_within(5000);
}
END_TEST

START_TEST(other_numerics_are_refused_in_any_mode)
{
    start_ready("numerics");
    ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGKILL), 0);
    RUN_UNTIL(rig.failed);
    ck_assert_ptr_nonnull(strstr(rig.report.msg, "of numerics version"));
}
END_TEST

START_TEST(other_answers_on_replay_are_refused)
{
    uint64_t i;

    start_ready("random");
    for (i = 0; i < 200 && !rig.failed; i++) {
        send_request(0, "learn", i, NULL, 0);
        RUN_UNTIL(rig.answered[0] || rig.failed);
        if (!rig.failed)
            (void)agent_table_signal(rig.table, 0, SIGSEGV);
    }
    RUN_UNTIL(rig.failed);
    ck_assert_msg(strstr(rig.report.msg, "not reproducible") != NULL &&
                      strstr(rig.report.msg, "learn of update ") != NULL,
                  "%s", rig.report.msg);
}
END_TEST

/* ---- the restart policy at work ---- */

static enum agent_state state_of(size_t agent)
{
    struct agent_info info;

    agent_table_info(rig.table, agent, &info);
    return info.state;
}

START_TEST(a_crash_loop_slows_down)
{
    static const uint64_t delays_ms[] = {20, 40, 50, 50};
    uint64_t began = uv_hrtime();

    rig.limits.restart.delay_s = 0.02;
    rig.limits.restart.max_delay_s = 0.05;
    start("always-1");
    RUN_UNTIL(rig.failed);
    ck_assert_int_eq(rig.n_waits, 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_le(rig.delays_ms[i], delays_ms[i]);
        /* the delay was converted from a double */
        ck_assert_uint_ge(rig.delays_ms[i] + 1, delays_ms[i]);
    }
    ck_assert_uint_ge(uv_hrtime() - began, UINT64_C(160) * 1000000);
}
END_TEST

START_TEST(stopped_while_the_next_process_waits)
{
    rig.limits.restart.delay_s = 1000;
    rig.limits.restart.max_delay_s = 1000;
    start("always-1");
    RUN_UNTIL(rig.n_waits == 1);
    ck_assert_int_eq(state_of(0), AGENT_WAITING);
    stop_within(5000);
    ck_assert_int_eq(rig.n_exits, 2);
}
END_TEST

START_TEST(respawn_cuts_the_delay_short)
{
    struct err err;

    rig.limits.restart.delay_s = 1000;
    rig.limits.restart.max_delay_s = 1000;
    start("later-1");
    send_request(0, "learn", 1, NULL, 0);
    RUN_UNTIL(rig.n_waits == 1);
    ck_assert_int_eq(agent_table_kill(rig.table, 0, &err), ERR_STATE);
    ck_assert_int_eq(agent_table_respawn(rig.table, 0, &err), 0);
    RUN_UNTIL(rig.answered[0]);
}
END_TEST

START_TEST(exit_111_is_waited_out)
{
    rig.limits.restart.delay_s = 0.001;
    rig.limits.restart.max_delay_s = 0.001;
    rig.limits.restart.max_restarts = 20;
    start_ready("later-20");
    (void)ask(0, "learn", 1);
    ck_assert_int_eq(rig.n_waits, 20);
}
END_TEST

START_TEST(exit_111_counts)
{
    rig.limits.restart.delay_s = 0.001;
    rig.limits.restart.max_delay_s = 0.001;
    rig.limits.restart.max_restarts = 3;
    start_ready("later-20");
    send_request(0, "learn", 1, NULL, 0);
    RUN_UNTIL(rig.failed);
    ck_assert_int_eq(rig.n_waits, 3);
    ck_assert_int_eq(rig.report.code, ERR_NOMEM);
    ck_assert_ptr_nonnull(strstr(rig.report.msg, "died 4 times within "));
    ck_assert_ptr_nonnull(strstr(rig.report.msg, "because memory ran out"));
}
END_TEST

START_TEST(kill_and_respawn_never_count)
{
    struct err err;

    rig.limits.restart.max_restarts = 0;
    start_ready("echo");
    for (int i = 0; i < 20; i++) {
        int (*end)(struct agent_table *, size_t, struct err *) =
            i % 2 == 0 ? agent_table_kill : agent_table_respawn;

        ck_assert_int_eq(end(rig.table, 0, &err), 0);
        (void)ask(0, "act", 1);
        RUN_UNTIL(rig.n_exits == i + 1);
    }
    ck_assert_int_eq(rig.failed, 0);
}
END_TEST

static const struct {
    enum restart_policy policy;
    const char *name, *says;
    int n_exits;
} policies[] = {
    {RESTART_TRANSIENT, "exit-0",
     "code 0 in learn of update 1, and its restart policy is "
     "transient",
     1},
    {RESTART_TRANSIENT, "exit-1", "ended it 3 times", 3},
    {RESTART_TEMPORARY, "exit-1", "its restart policy is temporary", 1},
};

START_TEST(policies_differ)
{
    rig.limits.restart.policy = policies[_i].policy;
    start(policies[_i].name);
    send_request(0, "learn", 1, NULL, 0);
    RUN_UNTIL(rig.failed);
    ck_assert_msg(strstr(rig.report.msg, policies[_i].says) != NULL, "%s",
                  rig.report.msg);
    ck_assert_int_eq(rig.n_exits, policies[_i].n_exits);
}
END_TEST

/* The third request kills its agent: from then on the agent only acts, with the values
 * from before that request.
 */
START_TEST(given_up_as_frozen)
{
    struct agent_info info;
    uint64_t sum;

    rig.limits.restart.on_give_up = GIVE_UP_FROZEN;
    start_ready("poison-2");
    (void)ask(0, "learn", 1);
    sum = ask(0, "act", 1);
    (void)ask(0, "learn", 2);
    ck_assert_int_eq(rig.absent[0], 1);
    ck_assert_int_eq(rig.n_given_up, 1);
    ck_assert_msg(strstr(rig.why, "learn of update 2 ended it 3 times") != NULL, "%s",
                  rig.why);
    ck_assert_uint_eq(ask(0, "act", 1), sum);
    ck_assert_int_eq(rig.absent[0], 0);
    ck_assert_uint_eq(ask(0, "act", 1), sum);
    (void)ask(0, "learn", 3);
    ck_assert_int_eq(rig.absent[0], 1);
    ck_assert_uint_eq(hash_block(), sum);
    agent_table_info(rig.table, 0, &info);
    ck_assert_int_eq(info.mode, AGENT_FROZEN);
    ck_assert_int_gt(info.pid, 0);
    stop_within(5000);
    ck_assert_int_eq(rig.failed, 0);
}
END_TEST

/* An agent that may become a noop is needed until it has described itself: killed before
 * that, it is started again, whatever its policy, until max_restarts. */
START_TEST(killed_before_its_description)
{
    struct agent_info info;

    rig.limits.restart.policy = RESTART_TEMPORARY;
    rig.limits.restart.on_give_up = GIVE_UP_NOOP;
    start_ready("kill-1"); /* the first process does not answer configure */
    ck_assert_int_eq(rig.n_exits, 1);
    ck_assert_int_eq(agent_table_kill(rig.table, 0, NULL), 0);
    RUN_UNTIL(rig.n_given_up == 1 || rig.failed);
    agent_table_info(rig.table, 0, &info);
    ck_assert_int_eq(info.mode, AGENT_NOOP);
    stop_within(5000);

    rig.limits.restart.max_restarts = 0;
    start("kill-1-again");
    RUN_UNTIL(rig.ready || rig.failed);
    ck_assert_msg(rig.failed && strstr(rig.report.msg, "died 1 times") != NULL, "%s",
                  rig.report.msg);
}
END_TEST

START_TEST(given_up_as_noop)
{
    struct agent_info info;

    rig.limits.restart.on_give_up = GIVE_UP_NOOP;
    start_ready("poison-0");
    for (uint64_t i = 0; i < 3; i++) {
        (void)ask(0, i == 1 ? "act" : "learn", i);
        ck_assert_int_eq(rig.absent[0], 1);
    }
    (void)hash_block();
    agent_table_info(rig.table, 0, &info);
    ck_assert_int_eq(info.mode, AGENT_NOOP);
    ck_assert_int_eq(info.pid, 0);
    stop_within(5000);
    ck_assert_int_eq(rig.failed, 0);
}
END_TEST

static void on_failed_alone(void *ctx, size_t agent, const struct msg *response)
{
    rig.answered[agent] = 1;
    (void)snprintf(rig.why, sizeof(rig.why), "%s", response->error.msg);
    ck_assert(response->error.code < 0 && !agent_response_is_absent(response));
}

static void ask_what_may_fail(uint64_t value)
{
    struct msg_out *o = agent_request_begin(rig.table, 0, "act", 0);

    msg_map(o, 2);
    msg_put_u64(o, "value", value);
    msg_key(o, "payload");
    msg_bin(o, NULL, 0);
    agent_request_may_fail(rig.table, 0);
    rig.answered[0] = 0;
    ck_assert_int_eq(agent_request_send(rig.table, 0, on_failed_alone, NULL, NULL), 0);
    RUN_UNTIL(rig.answered[0] || rig.failed);
    ck_assert_msg(!rig.failed, "%s", rig.report.msg);
}

/* The values and the next requests are as if it had not been sent. */
START_TEST(a_request_fails_alone)
{
    uint64_t sum;

    start_ready("deadly-7");
    for (uint64_t i = 0; i < 3; i++)
        (void)ask(0, "learn", i);
    sum = ask(0, "act", 0);
    for (int i = 0; i < 2; i++) {
        ask_what_may_fail(7);
        ck_assert_msg(strstr(rig.why, "act ended it 3 times") != NULL, "%s", rig.why);
        ck_assert_uint_eq(ask(0, "act", 0), sum);
    }
    ck_assert_int_eq(rig.n_exits, 6);
    stop_within(5000);

    rig.n_exits = 0;
    start_ready("error");
    for (int i = 0; i < 2; i++) {
        ask_what_may_fail(0);
        ck_assert_msg(strstr(rig.why, "the loss is no number") != NULL, "%s", rig.why);
    }
    ck_assert_int_eq(rig.n_exits, 0);
}
END_TEST

/* A give-up that was recorded with its place is repeated there in another table and
 * leaves the same values. A noop's values are those of some snapshot before its newest
 * requests. */
START_TEST(a_turn_is_made_again)
{
    static const enum give_up modes[] = {GIVE_UP_FROZEN, GIVE_UP_NOOP};
    struct agent_mode_change turn;
    uint64_t values;

    rig.limits.restart.on_give_up = modes[_i];
    start_ready("poison-5");
    for (uint64_t i = 0; i < 6; i++)
        (void)ask(0, "learn", i);
    ck_assert_int_eq(rig.absent[0], 1);
    turn = rig.turn;
    (void)ask(0, "act", 0); /* waits until a frozen agent has been respawned */
    values = hash_block();
    stop_within(5000);

    rig.limits.restart.on_give_up = GIVE_UP_STOP;
    start_ready("echo");
    agent_table_plan_mode_change(rig.table, 0, &turn);
    for (uint64_t i = 0; i < 5; i++) {
        (void)ask(0, "learn", i);
        ck_assert_int_eq(rig.absent[0], 0);
    }
    (void)ask(0, "learn", 5);
    ck_assert_int_eq(rig.absent[0], 1);
    ck_assert_uint_eq(hash_block(), values);
    ck_assert_uint_eq(rig.turn.mode, turn.mode);

    /* reinstated with these values, the agent acts from the next round on */
    agent_table_reinstate(rig.table, 0);
    (void)ask(0, "learn", 6);
    ck_assert_int_eq(rig.absent[0], 1);
    agent_table_begin_round(rig.table, 0);
    (void)ask(0, "learn", 7);
    ck_assert_int_eq(rig.absent[0], 0);
    ck_assert_uint_ne(hash_block(), values);
    stop_within(5000);
    ck_assert_int_eq(rig.failed, 0);
}
END_TEST

/* ---- the watchdog ---- */

static const struct {
    const char *name, *says;
    double within_s; /* with other load, 134 MB take longer than a short silence */
} silences[] = {
    {"stopped-3", "did not answer learn of update 1 for", 0.4},
    {"stopped-3", "is stopped", 0.4},
    {"spins-3", "computes without an end", 0.4},
    {"waits-3", "waits for something that does not come", 0.4},
    {"waits-1", "did not answer configure", 0.4},
    {"eats-3", "of memory, its memory_limit is 128M", 60},
};

/* The watchdog kills the process and reports the reason; another process gives the same
 * answers. */
START_TEST(silence_and_greed_are_ended)
{
    uint64_t calm[2];

    start_ready("echo");
    calm[0] = ask(0, "learn", 0);
    calm[1] = ask(0, "learn", 1);
    stop_within(5000);
    rig.n_exits = 0;
    rig.limits.respond_within_s = silences[_i].within_s;
    rig.limits.memory_limit_bytes = 1 << 27;
    start(silences[_i].name);
    ck_assert_uint_eq(ask(0, "learn", 0), calm[0]);
    ck_assert_uint_eq(ask(0, "learn", 1), calm[1]);
    ck_assert_int_eq(rig.n_exits, 1);
    ck_assert_msg(strstr(rig.why, silences[_i].says) != NULL, "%s", rig.why);
}
END_TEST

/* Loop test: the process sends progress, or allocates memory while it works. */
START_TEST(slow_but_alive)
{
    rig.limits.respond_within_s = 0.4;
    start_ready(_i == 0 ? "slow-2" : "grows-2");
    (void)ask(0, "learn", 0);
    ck_assert_int_eq(rig.n_exits, 0);
}
END_TEST

/* Another process stops agent and supervisor, and continues the supervisor first. */
START_TEST(who_was_stopped_accuses_nobody)
{
    const pid_t self = getpid();
    struct agent_info info;
    pid_t somebody;

    rig.limits.respond_within_s = 0.4;
    start_ready("naps-2");
    send_request(0, "learn", 0, NULL, 0);
    agent_table_info(rig.table, 0, &info);
    somebody = fork();
    ck_assert_int_ge(somebody, 0);
    if (somebody == 0) {
        (void)signal_process(info.pid, SIGSTOP);
        (void)signal_process(self, SIGSTOP);
        (void)usleep(1000000);
        (void)signal_process(self, SIGCONT);
        (void)usleep(200000);
        (void)signal_process(info.pid, SIGCONT);
        _exit(0);
    }
    RUN_UNTIL(rig.answered[0]);
    ck_assert_int_eq(rig.n_exits, 0);
    ck_assert_int_eq(waitpid(somebody, NULL, 0), somebody);
}
END_TEST

static const char *const leavers[] = {"fork", "session", "orphan"};

START_TEST(grandchildren_are_swept)
{
    start_ready(leavers[_i]);
    ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGKILL), 0);
    (void)ask(0, "learn", 1);
    ck_assert_int_eq(rig.n_exits, 1);
    stop_within(5000);
    assert_no_child_left();
}
END_TEST

START_TEST(flood_is_bounded)
{
    struct stat st;

    start_ready("flood-100");
    (void)ask(0, "act", 1);
    ck_assert_int_eq(stat("agent.log", &st), 0);
    ck_assert_int_gt(st.st_size, 16 << 20);
    ck_assert_int_lt(st.st_size, (16 << 20) + 100);
}
END_TEST

START_TEST(large_messages_both_ways)
{
    const size_t len = 10 << 20;
    uint8_t *payload = calloc(1, len);

    start_ready("echo");
    send_request(0, "learn", 1, payload, len);
    RUN_UNTIL(rig.answered[0]);
    ck_assert_uint_eq(rig.payload_len[0], len);
    free(payload);
}
END_TEST

static uint64_t ms_to_stop(uint64_t deadline_ms)
{
    uint64_t begin = uv_hrtime();

    stop_within(deadline_ms);
    return (uv_hrtime() - begin) / 1000000;
}

START_TEST(deaf_agents_meet_the_deadline)
{
    static const char *const names[] = {"deaf-0", "deaf-1", "deaf-2"};
    size_t i;

    make_table(names, 3);
    for (i = 0; i < 3; i++)
        RUN_UNTIL(state_of(i) == AGENT_CONFIGURING);
    ck_assert_uint_lt(ms_to_stop(200), 20000);
    ck_assert_int_eq(rig.last_exit.signal, SIGKILL);
}
END_TEST

START_TEST(stopped_and_busy_agents_stop)
{
    start_ready("silent");
    send_request(0, "learn", 1, NULL, 0);
    ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGSTOP), 0);
    ck_assert_uint_lt(ms_to_stop(60000), 30000);
    ck_assert_int_eq(rig.answered[0], 0);
}
END_TEST

START_TEST(a_shorter_deadline_wins)
{
    start("deaf");
    agent_table_stop(rig.table, 50000);
    agent_table_stop(rig.table, 60000);
    ck_assert_uint_lt(ms_to_stop(0), 20000);
}
END_TEST

START_TEST(stop_before_start_and_at_once)
{
    const struct agent_callbacks cb = {.on_stopped = on_stopped, .ctx = &rig};
    struct agent_spec spec = {.name = "echo", .pack_configure = pack_configure};

    ck_assert_int_eq(agent_table_new(&rig.table, &rig.loop, 0, -1, &spec, 1, &cb, NULL),
                     0);
    stop_within(1000);
    start("echo");
    stop_within(0);
}
END_TEST

static size_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir) != NULL)
        n++;
    (void)closedir(dir);
    return n;
}

/* Returns 0 under a sanitizer, which keeps freed memory. */
static long rss_pages(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    long pages = 0;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%*d %ld", &pages), 1);
    (void)fclose(f);
#ifdef __SANITIZE_ADDRESS__
    pages = 0;
#endif
    return pages;
}

/* Spawn, a request, stop or death must leave nothing behind. A single open descriptor is
 * noticed. In the last 100 cycles memory may grow by 1 MiB, which the allocator needs, so
 * 10 KiB in each cycle are noticed (the sanitized build notices every byte). */
START_TEST(many_cycles)
{
    size_t fds = 0;
    long rss = 0;
    int i;

    for (i = 0; i < 120; i++) {
        start_ready("echo");
        if (i % 5 == 0)
            ck_assert_int_eq(agent_table_signal(rig.table, 0, SIGKILL), 0);
        (void)ask(0, "learn", 1);
        stop_within(i % 2 == 0 ? 5000 : 0);
        assert_no_child_left();
        if (i == 19) {
            fds = count_fds();
            rss = rss_pages();
        }
    }
    ck_assert_uint_eq(count_fds(), fds);
    ck_assert_int_le(rss_pages(), rss + 256);
}
END_TEST

static _Noreturn void be_supervisor(int tell_fd, int stop_agents)
{
    static const char *const names[] = {"echo", "silent"};

    (void)uv_loop_fork(&rig.loop);
    make_table(names, 2);
    RUN_UNTIL(rig.ready);
    send_request(1, "learn", 1, NULL, 0);
    if (stop_agents)
        (void)agent_table_signal(rig.table, 0, SIGSTOP);
    if (write(tell_fd, "x", 1) != 1)
        exit(1);
    for (;;)
        (void)uv_run(&rig.loop, UV_RUN_ONCE);
}

/* A killed supervisor takes its agents along, whether they are idle, busy or stopped.
 * Processes that it left behind would become children of this one. */
START_TEST(death_of_the_supervisor)
{
    uint64_t killed_at;
    pid_t supervisor;
    int told[2];
    char byte;

    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
    ck_assert_int_eq(pipe(told), 0);
    supervisor = fork();
    ck_assert_int_ge(supervisor, 0);
    if (supervisor == 0)
        be_supervisor(told[1], _i);
    ck_assert_int_eq(read(told[0], &byte, 1), 1);
    killed_at = uv_hrtime();
    ck_assert_int_eq(signal_process(supervisor, SIGKILL), 0);
    while (wait(NULL) > 0)
        ;
    ck_assert_uint_lt((uv_hrtime() - killed_at) / 1000000, 20000);
    (void)close(told[0]);
    (void)close(told[1]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("agent_table");
    TCase *tc = tcase_create("agent_table");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, request_and_response);
    tcase_add_test(tc, one_request_at_a_time);
    tcase_add_loop_test(tc, death_changes_nothing, 0, 4 * SCRIPT_LEN);
    tcase_add_test(tc, killed_while_idle);
    tcase_add_test(tc, requests_are_replayed);
    tcase_add_test(tc, block_is_there_whenever_it_is_killed);
    tcase_add_test(tc, callers_may_ask_before_it_is_ready);
    tcase_add_loop_test(tc, failure_is_reported_once, 0,
                        sizeof(failures) / sizeof(failures[0]));
    tcase_add_test(tc, answering_twice);
    tcase_add_loop_test(tc, another_build_or_cpu_is_as_good, 0, 2);
    tcase_add_test(tc, other_numerics_are_refused_in_any_mode);
    tcase_add_loop_test(tc, impostors_are_refused, 0,
                        sizeof(impostors) / sizeof(impostors[0]));
    tcase_add_test(tc, other_answers_on_replay_are_refused);
    tcase_add_test(tc, a_crash_loop_slows_down);
    tcase_add_test(tc, stopped_while_the_next_process_waits);
    tcase_add_test(tc, respawn_cuts_the_delay_short);
    tcase_add_test(tc, exit_111_is_waited_out);
    tcase_add_test(tc, exit_111_counts);
    tcase_add_test(tc, kill_and_respawn_never_count);
    tcase_add_loop_test(tc, policies_differ, 0, sizeof(policies) / sizeof(policies[0]));
    tcase_add_test(tc, given_up_as_frozen);
    tcase_add_test(tc, killed_before_its_description);
    tcase_add_test(tc, given_up_as_noop);
    tcase_add_test(tc, a_request_fails_alone);
    tcase_add_loop_test(tc, a_turn_is_made_again, 0, 2);
    tcase_add_loop_test(tc, silence_and_greed_are_ended, 0,
                        sizeof(silences) / sizeof(silences[0]));
    tcase_add_loop_test(tc, slow_but_alive, 0, 2);
    tcase_add_test(tc, who_was_stopped_accuses_nobody);
    tcase_add_loop_test(tc, grandchildren_are_swept, 0, 3);
    tcase_add_test(tc, flood_is_bounded);
    tcase_add_test(tc, large_messages_both_ways);
    tcase_add_test(tc, deaf_agents_meet_the_deadline);
    tcase_add_test(tc, stopped_and_busy_agents_stop);
    tcase_add_test(tc, a_shorter_deadline_wins);
    tcase_add_test(tc, stop_before_start_and_at_once);
    tcase_add_test(tc, many_cycles);
    tcase_add_loop_test(tc, death_of_the_supervisor, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
