/* What a run is and did, folded from its events: of any supervisor, in any order of processes. */
#include "supervisor/events/run_model.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdio.h>

static struct run_model model;

static void setup(void)
{
    run_model_init(&model);
}

static void teardown(void)
{
    run_model_done(&model);
}

static struct run_event event(enum run_event_kind kind, const char *environment, int ms)
{
    struct run_event e = {.kind = kind};

    run_event_process_init(&e.process, NULL, environment);
    (void)snprintf(e.time, sizeof(e.time), "2026-01-31T23:59:%02d.%03dZ", ms / 1000,
                   ms % 1000);
    return e;
}

static void happens(enum run_event_kind kind, const char *environment, int ms)
{
    const struct run_event e = event(kind, environment, ms);

    (void)run_event_fold(&model, &e);
}

static void supervisor(enum run_event_kind kind, int ms)
{
    struct run_event e = {.kind = kind};

    if (kind == RUN_EVENT_END || kind == RUN_EVENT_SUPERVISOR_EXIT) {
        e.end.state = "stopped";
        e.end.seconds = (double)NAN;
    }
    (void)snprintf(e.time, sizeof(e.time), "2026-01-31T23:59:%02d.%03dZ", ms / 1000,
                   ms % 1000);
    (void)run_event_fold(&model, &e);
}

static void die(const char *environment, int ms, double busy_s, const char *limit)
{
    struct run_event e = event(RUN_EVENT_EXIT, environment, ms);

    e.process.signal = 9;
    e.process.seconds = busy_s;
    e.process.limit = limit;
    (void)run_event_fold(&model, &e);
}

static void begin_a_run(void)
{
    supervisor(RUN_EVENT_START, 0);
    happens(RUN_EVENT_SPAWN, "env_0", 100);
    happens(RUN_EVENT_SPAWN, "env_1", 100);
    happens(RUN_EVENT_READY, "env_0", 500);
    happens(RUN_EVENT_READY, "env_1", 500);
}

START_TEST(nothing_has_happened)
{
    char text[PROCESS_COUNT_TEXT_BYTES];
    struct process_count all;

    begin_a_run();
    all = run_status_counts(&model.status);
    ck_assert_str_eq(process_count_text(&all, text), "");
    ck_assert_double_eq(all.lost_s, 0);
    ck_assert_ptr_null(run_model_process(&model, "nobody"));
}
END_TEST

START_TEST(deaths_and_hangs_cost_their_time)
{
    char text[PROCESS_COUNT_TEXT_BYTES];
    struct process_count c;

    begin_a_run();
    die("env_1", 10000, 2.5, "respond_within");
    happens(RUN_EVENT_RESPAWN, "env_1", 10100);
    die("env_0", 10200, (double)NAN, NULL);
    happens(RUN_EVENT_RESPAWN, "env_0", 10300);
    happens(RUN_EVENT_READY, "env_1", 10750);
    happens(RUN_EVENT_READY, "env_0", 11200);
    c = run_model_process(&model, "env_1")->count;
    ck_assert_uint_eq(c.restarts, 1);
    ck_assert_uint_eq(c.hangs, 1);
    ck_assert_double_eq_tol(c.lost_s, 2.5 + 0.75, 1e-6);
    ck_assert_str_eq(process_count_text(&c, text), "1 restart, 1 hang, 3.2 s lost");
    c = run_model_process(&model, "env_0")->count;
    ck_assert_uint_eq(c.hangs, 0);
    ck_assert_double_eq_tol(c.lost_s, 1, 1e-6);
    ck_assert_double_eq_tol(run_status_counts(&model.status).lost_s, 4.25, 1e-6);
}
END_TEST

START_TEST(slow_answers_and_skipped_episodes)
{
    struct run_event slow = event(RUN_EVENT_SLOW, "env_0", 7000);
    struct run_event skip = {.kind = RUN_EVENT_SKIP, .skip = {.environment = "env_0"}};
    char text[PROCESS_COUNT_TEXT_BYTES];
    struct process_count c;

    begin_a_run();
    slow.process.seconds = 16.5;
    (void)run_event_fold(&model, &slow);
    (void)run_event_fold(&model, &slow);
    (void)run_event_fold(&model, &skip);
    c = run_model_process(&model, "env_0")->count;
    ck_assert_str_eq(process_count_text(&c, text),
                     "2 slow answers, 1 skipped episode, 33.0 s lost");
}
END_TEST

/* All end with the run; the time until it is resumed is nobody's loss. */
START_TEST(a_resume_goes_on_counting)
{
    struct process_count c;

    begin_a_run();
    die("env_0", 1000, (double)NAN, NULL);
    happens(RUN_EVENT_RESPAWN, "env_0", 1000);
    happens(RUN_EVENT_READY, "env_0", 2000);
    happens(RUN_EVENT_EXIT, "env_0", 3000);
    happens(RUN_EVENT_EXIT, "env_1", 3000);
    supervisor(_i == 0 ? RUN_EVENT_END : RUN_EVENT_SUPERVISOR_EXIT, 3100);
    supervisor(RUN_EVENT_RESUME, 40000);
    happens(RUN_EVENT_SPAWN, "env_0", 40100);
    happens(RUN_EVENT_READY, "env_0", 41000);
    die("env_0", 50000, (double)NAN, NULL);
    happens(RUN_EVENT_RESPAWN, "env_0", 50000);
    happens(RUN_EVENT_READY, "env_0", 50500);
    c = run_model_process(&model, "env_0")->count;
    ck_assert_uint_eq(c.restarts, 2);
    ck_assert_double_eq_tol(c.lost_s, 1.5, 1e-6);
    ck_assert_double_eq(run_model_process(&model, "env_1")->count.lost_s, 0);
}
END_TEST

/* Of what a supervisor did whose end is not recorded, up to its last event. */
START_TEST(seconds_are_of_all_supervisors)
{
    struct run_event end = {.kind = RUN_EVENT_END,
                            .time = "2026-01-31T23:59:50.000Z",
                            .end = {.state = "done", .seconds = 4.5}};

    begin_a_run();
    ck_assert_double_eq_tol(run_model_open_seconds(&model), 0.5, 1e-6);
    supervisor(RUN_EVENT_RESUME, 10000);
    ck_assert_double_eq_tol(model.seconds, 0.5, 1e-6);
    happens(RUN_EVENT_SPAWN, "env_0", 12000);
    supervisor(RUN_EVENT_SUPERVISOR_EXIT, 13000);
    ck_assert_double_eq_tol(model.seconds, 3.5, 1e-6);
    supervisor(RUN_EVENT_RESUME, 40000);
    ck_assert_int_eq(run_event_fold(&model, &end), 0); /* a run is done once */
    ck_assert_double_eq_tol(model.seconds, 8, 1e-6);
    ck_assert_double_eq(model.status.elapsed_s, 4.5);
    supervisor(RUN_EVENT_END, 55000); /* its keeper's, too late */
    ck_assert_double_eq_tol(model.seconds, 8, 1e-6);
    ck_assert_double_eq(run_model_open_seconds(&model), 0);
    ck_assert_str_eq(model.status.state, "done");
    ck_assert_str_eq(model.status.began, "2026-01-31T23:59:00.000Z");
    ck_assert_uint_eq(model.starts, 3);
}
END_TEST

/* Neither an end that was asked for, nor one of an event that this build does not know. */
START_TEST(deaths_are_those_that_nobody_asked_for)
{
    struct run_event asked = event(RUN_EVENT_EXIT, "env_0", 3000);
    struct run_event unknown = {.kind = RUN_EVENT_COUNT, .env_steps = 75};

    begin_a_run();
    die("env_1", 2000, (double)NAN, NULL);
    asked.process.in = "stopping";
    asked.process.code = 0;
    ck_assert_int_eq(run_event_fold(&model, &asked), 0);
    ck_assert_uint_eq(model.deaths, 1);
    ck_assert_str_eq(run_model_process(&model, "env_0")->last_exit, "code 0");
    ck_assert_str_eq(run_model_process(&model, "env_1")->last_exit, "SIGKILL");
    ck_assert_int_eq(run_event_fold(&model, &unknown), 0);
    ck_assert_uint_eq(model.status.env_steps, 75);
}
END_TEST

START_TEST(a_failure_is_of_the_newest_supervisor)
{
    const struct run_status *s = &model.status;
    struct run_event e = {.kind = RUN_EVENT_FAILED};

    begin_a_run();
    ck_assert(s->failure == NULL && s->failure_line == RUN_UNKNOWN);
    run_event_set_failure(
        &e,
        &(const struct err){.msg = "no", .agent = "agent_0", .file = "a.py", .line = 3});
    (void)run_event_fold(&model, &e);
    ck_assert_str_eq(s->state, "stopping");
    ck_assert_str_eq(s->failure, "no");
    ck_assert_str_eq(s->failure_agent, "agent_0");
    ck_assert_str_eq(s->failure_file, "a.py");
    ck_assert_uint_eq(s->failure_line, 3);
    supervisor(RUN_EVENT_END, 3000);
    ck_assert_str_eq(s->failure, "no");
    supervisor(RUN_EVENT_RESUME, 4000);
    ck_assert(s->failure == NULL && s->failure_agent == NULL && s->failure_file == NULL);
    ck_assert_uint_eq(s->failure_line, RUN_UNKNOWN);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("run_model");
    TCase *tc = tcase_create("run_model");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, nothing_has_happened);
    tcase_add_test(tc, deaths_and_hangs_cost_their_time);
    tcase_add_test(tc, slow_answers_and_skipped_episodes);
    tcase_add_loop_test(tc, a_resume_goes_on_counting, 0, 2);
    tcase_add_test(tc, seconds_are_of_all_supervisors);
    tcase_add_test(tc, a_failure_is_of_the_newest_supervisor);
    tcase_add_test(tc, deaths_are_those_that_nobody_asked_for);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
