/* A run without an environment: clients' requests, in order, and its boundaries. */
#include "common/mem/xmalloc.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/rollout.h"
#include "tests/supervisor/fake_agents.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"node_1", "node_2"};

static const char text[] = "env: {id: none}\n"
                           "checkpoint: {every_env_steps: 3}\n"
                           "defaults: {algorithm: critic}\n"
                           "agents: {node_1: {observation: 3, action: 2},"
                           " node_2: {observation: 4, action: 2}}\n";

struct bench {
    struct temp_dir dir;
    struct run_config config;
    struct agent_table *table;
    struct vec_env *env;
    struct store *store;
    struct metrics *metrics;
    struct rollout *rollout;
    char seen[4096]; /* requests, answers and callbacks, in order */
    int refuses;
    int clients_are_gone; /* clients have disconnected: no answer may be sent */
};

static uint64_t clock_ns; /* of the driver */

static uint64_t now_ns(void)
{
    return clock_ns;
}

static void see(struct bench *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void see(struct bench *b, const char *fmt, ...)
{
    size_t n = strlen(b->seen);
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(b->seen + n, sizeof(b->seen) - n, fmt, ap);
    va_end(ap);
}

static void assert_seen(struct bench *b, const char *expected)
{
    ck_assert_str_eq(b->seen, expected);
    b->seen[0] = '\0';
}

static void answer(void *ctx, size_t agent, const struct msg *m, struct msg_out *o)
{
    const msgpack_object *fetches = NULL;
    struct bench *b = ctx;
    uint64_t counter = 99;
    struct err why;

    if (strcmp(m->method, "configure") == 0) {
        msg_map(o, 0);
        return;
    }
    ck_assert_str_eq(m->method, "run");
    ck_assert_int_eq(msg_get_u64(&m->body, "counter", 1000, &counter, NULL), 0);
    ck_assert_int_eq(msg_get_array(&m->body, "fetches", &fetches, NULL), 0);
    see(b, "%zu:%.*s#%llu; ", agent, (int)fetches->via.array.ptr[0].via.str.size,
        fetches->via.array.ptr[0].via.str.ptr, (unsigned long long)counter);
    if (b->refuses) {
        (void)err_set(&why, ERR_NOT_FOUND, "no tensor");
        msg_map(o, 1);
        msg_refusal(o, &why);
        return;
    }
    msg_map(o, 1);
    msg_key(o, "fetched");
    msg_array(o, 0);
}

/* ---- the driver ---- */

static int on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    return 0;
}

static int on_checkpoint(void *ctx, const struct rollout_progress *at, struct err *err)
{
    see(ctx, "checkpoint %llu; ", (unsigned long long)at->env_steps);
    return 0;
}

static int on_change(void *ctx, const struct rollout_progress *at, struct err *err)
{
    struct bench *b = ctx;

    see(b, "change %llu; ", (unsigned long long)at->env_steps);
    rollout_plan_change(b->rollout, UINT64_MAX);
    return 0;
}

static void on_done(void *ctx, int stopped)
{
    see(ctx, "%s; ", stopped ? "stopped" : "done");
}

static void on_failed(void *ctx, const struct err *err)
{
    ck_abort_msg("%s", err->msg);
}

static struct bench *bench_new(const char *more)
{
    struct bench *b = xcalloc(1, sizeof(*b));
    struct rollout_args args = {.config = &b->config,
                                .now_ns = now_ns,
                                .callbacks = {.on_row = on_row,
                                              .on_checkpoint = on_checkpoint,
                                              .on_change = on_change,
                                              .on_done = on_done,
                                              .on_failed = on_failed,
                                              .ctx = b}};
    struct config_options options = {.set = &more, .n_set = more != NULL};
    struct err err = {0};

    clock_ns = 1000;
    temp_dir_init(&b->dir);
    ck_assert_msg(run_config_parse(&b->config, text, strlen(text), "f", &options, &err) ==
                      0,
                  "%s", err.msg);
    args.agents = b->table = fake_agents_new(names, 2, answer, b);
    ck_assert_msg(vec_env_new(&b->env, &b->config.env, 1, ENV_DRAWS_TRAINING, 0, &err) ==
                      0,
                  "%s", err.msg);
    vec_env_reset(b->env);
    ck_assert_int_eq(
        store_create(&b->store, temp_dir_file(&b->dir, "experience"), 100, &err), 0);
    b->metrics = metrics_new(names, (const char *[]){"node", "node"}, 2, 0, 0);
    args.env = b->env;
    args.store = b->store;
    args.metrics = b->metrics;
    ck_assert_msg(rollout_new(&b->rollout, &args, &err) == 0, "%s", err.msg);
    return b;
}

static void start(struct bench *b)
{
    struct err err = {0};

    ck_assert_msg(rollout_start(b->rollout, &err) == 0, "%s", err.msg);
}

static void bench_free(struct bench *b)
{
    rollout_free(b->rollout);
    metrics_free(b->metrics);
    store_free(b->store);
    vec_env_free(b->env);
    fake_agents_free(b->table);
    run_config_done(&b->config);
    temp_dir_done(&b->dir);
    free(b);
}

/* ---- clients ---- */

static void on_answer(void *ctx, const msgpack_object *result, const struct err *why)
{
    const struct bench *b = ctx;

    if (b->clients_are_gone)
        return;
    ck_assert((result == NULL) == (why != NULL));
    see(ctx, "%s; ", why != NULL ? why->msg : "answered");
}

/* A request's params as a message of their own. */
static struct msg_out params_of(const char *fetch, int writes)
{
    struct msg_out o;

    msg_out_init(&o);
    msg_begin_request(&o, 1, "run");
    msg_map(&o, 2);
    msg_key(&o, "fetches");
    msg_array(&o, 1);
    msg_str(&o, fetch);
    msg_key(&o, "targets");
    msg_array(&o, writes);
    if (writes)
        msg_str(&o, "train");
    return o;
}

static int send_params(struct bench *b, size_t agent, struct msg_out *o, struct err *err)
{
    struct msg m = {0};
    const uint8_t *frame;
    size_t len;
    int rc;

    msg_end(o, &frame, &len);
    ck_assert_int_eq(msg_parse(&m, frame + 4, len - 4, NULL), 0);
    rc = rollout_run(b->rollout, agent, &m.body, on_answer, b, err);
    msg_done(&m);
    msg_out_done(o);
    return rc;
}

static void ask(struct bench *b, size_t agent, const char *fetch, int writes)
{
    struct msg_out o = params_of(fetch, writes);
    struct err err = {0};

    ck_assert_msg(send_params(b, agent, &o, &err) == 0, "%s", err.msg);
}

static void run(struct bench *b)
{
    (void)fake_agents_run(b->table, 1000);
}

START_TEST(test_one_at_a_time_in_order)
{
    struct bench *b = bench_new(NULL);
    struct rollout_progress at;

    start(b);
    ask(b, 0, "a", 0);
    ask(b, 0, "b", 1);
    ask(b, 0, "c", 0);
    run(b);
    assert_seen(b, "checkpoint 0; 0:a#0; answered; 0:b#1; answered; 0:c#2; answered; ");
    rollout_progress(b->rollout, &at);
    ck_assert_uint_eq(at.env_steps, 1);
    ck_assert_str_eq(at.state, "act");
    bench_free(b);
}
END_TEST

/* A boundary by steps comes after the third writing request, once the other agent is
 * idle. */
START_TEST(test_a_checkpoint_waits_for_all)
{
    struct bench *b = bench_new(NULL);

    start(b);
    for (int i = 0; i < 3; i++)
        ask(b, 0, "a", 1);
    ask(b, 1, "x", 0);
    ask(b, 0, "d", 0);
    (void)fake_agents_run(b->table, 1);
    assert_seen(b, "checkpoint 0; 1:x#0; answered; ");
    run(b);
    assert_seen(b, "0:a#0; answered; 0:a#1; answered; 0:a#2; answered; checkpoint 3; "
                   "0:d#3; answered; ");
    bench_free(b);
}
END_TEST

/* A request that writes is a step as soon as it is sent: a change comes after those, and before
 * all others. */
START_TEST(test_a_change_has_its_step)
{
    struct bench *b = bench_new("checkpoint={every_env_steps: 100}");

    start(b);
    ask(b, 0, "a", 1);
    ck_assert_uint_eq(rollout_next_change_step(b->rollout), 1);
    rollout_plan_change(b->rollout, 1);
    ask(b, 1, "x", 1);
    ask(b, 0, "b", 0);
    run(b);
    assert_seen(b, "checkpoint 0; 0:a#0; answered; change 1; 1:x#0; answered; 0:b#1; "
                   "answered; ");
    ck_assert_uint_eq(rollout_next_change_step(b->rollout), 2);
    rollout_plan_change(b->rollout, 3);
    ask(b, 0, "c", 1);
    ask(b, 1, "y", 1);
    ask(b, 1, "z", 0);
    run(b);
    assert_seen(b, "0:c#2; answered; change 3; 1:y#1; answered; 1:z#2; answered; ");
    bench_free(b);
}
END_TEST

START_TEST(test_what_is_asked_for_happens_at_once)
{
    struct bench *b = bench_new(NULL);

    start(b);
    rollout_request_checkpoint(b->rollout);
    assert_seen(b, "checkpoint 0; checkpoint 0; ");
    ask(b, 0, "a", 1);
    rollout_request_pause(b->rollout);
    ask(b, 0, "b", 1);
    run(b);
    assert_seen(b, "0:a#0; answered; ");
    rollout_request_continue(b->rollout);
    run(b);
    assert_seen(b, "0:b#1; answered; ");
    ask(b, 1, "c", 1);
    ask(b, 1, "d", 1);
    rollout_request_stop(b->rollout);
    run(b);
    assert_seen(b, "1:c#0; answered; checkpoint 3; the run is over; stopped; ");
    bench_free(b);
}
END_TEST

/* A checkpoint by time is made only if something has changed. */
START_TEST(test_checkpoints_by_the_clock)
{
    struct bench *b = bench_new("checkpoint={every_seconds: 2}");

    start(b);
    clock_ns += 3000000000u;
    rollout_tick(b->rollout);
    assert_seen(b, "checkpoint 0; ");
    ask(b, 0, "a", 1);
    run(b);
    assert_seen(b, "0:a#0; answered; checkpoint 1; ");
    clock_ns += 1000000000u;
    ask(b, 0, "a", 1);
    run(b);
    rollout_tick(b->rollout);
    assert_seen(b, "0:a#1; answered; ");
    clock_ns += 1000000000u;
    rollout_tick(b->rollout);
    assert_seen(b, "checkpoint 2; ");
    bench_free(b);
}
END_TEST

START_TEST(test_a_length_in_requests)
{
    struct bench *b = bench_new("run.env_steps=2");

    start(b);
    for (int i = 0; i < 3; i++)
        ask(b, 0, "a", 1);
    run(b);
    assert_seen(b, "checkpoint 0; 0:a#0; answered; 0:a#1; answered; checkpoint 2; "
                   "the run is over; done; ");
    bench_free(b);
}
END_TEST

START_TEST(test_refusals_are_told_and_the_gone_are_not)
{
    struct bench *b = bench_new(NULL);

    start(b);
    b->refuses = 1;
    ask(b, 0, "a", 1);
    run(b);
    assert_seen(b, "checkpoint 0; 0:a#0; no tensor; ");
    ask(b, 0, "b", 1);
    ask(b, 0, "c", 1);
    b->clients_are_gone = 1;
    run(b);
    assert_seen(b, "0:b#1; 0:c#2; checkpoint 3; ");
    bench_free(b);
}
END_TEST

/* Requests that would look like a supervisor's error to an agent are refused before they
 * are sent. */
START_TEST(test_malformed_params)
{
    struct bench *b = bench_new(NULL);
    struct err err = {0};
    struct msg_out o;

    start(b);
    for (int i = 0; i < 4; i++) {
        msg_out_init(&o);
        msg_begin_request(&o, 1, "run");
        msg_map(&o, 1);
        msg_key(&o, i < 2 ? "feeds" : i == 2 ? "targets" : "fetches");
        if (i == 0) {
            msg_array(&o, 0);
        } else if (i == 1) {
            msg_map(&o, 1);
            msg_put_u64(&o, "x:0", 7);
        } else {
            msg_array(&o, 1);
            msg_u64(&o, 7);
        }
        ck_assert_int_eq(send_params(b, 0, &o, &err), ERR_PROTOCOL);
    }
    assert_seen(b, "checkpoint 0; ");
    bench_free(b);
}
END_TEST

/* The counters of draws continue after a resume. */
START_TEST(test_counters_are_saved)
{
    struct bench *b = bench_new(NULL), *next = bench_new(NULL);
    struct err err = {0};
    uint8_t *state;
    size_t len;

    start(b);
    ask(b, 1, "a", 1);
    ask(b, 1, "a", 0);
    run(b);
    rollout_state_save(b->rollout, &state, &len);
    ck_assert_int_eq(rollout_state_load(next->rollout, state, len - 1, &err), ERR_FORMAT);
    ck_assert_msg(rollout_state_load(next->rollout, state, len, &err) == 0, "%s",
                  err.msg);
    start(next);
    ask(next, 1, "b", 1);
    ask(next, 0, "b", 1);
    run(next);
    assert_seen(next, "0:b#0; answered; 1:b#2; answered; checkpoint 3; ");
    free(state);
    bench_free(b);
    bench_free(next);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rollout_serve");
    TCase *tc = tcase_create("rollout_serve");

    tcase_add_test(tc, test_one_at_a_time_in_order);
    tcase_add_test(tc, test_a_checkpoint_waits_for_all);
    tcase_add_test(tc, test_a_change_has_its_step);
    tcase_add_test(tc, test_what_is_asked_for_happens_at_once);
    tcase_add_test(tc, test_checkpoints_by_the_clock);
    tcase_add_test(tc, test_a_length_in_requests);
    tcase_add_test(tc, test_refusals_are_told_and_the_gone_are_not);
    tcase_add_test(tc, test_malformed_params);
    tcase_add_test(tc, test_counters_are_saved);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
