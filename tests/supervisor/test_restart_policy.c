#include "supervisor/proc/restart_policy.h"
#include "tests/support/test_main.h"

#define MS UINT64_C(1000000)
#define S  (1000 * MS)

enum { N_POLICIES = RESTART_TEMPORARY + 1 };

static const struct restart_config config = {.policy = RESTART_PERMANENT,
                                             .max_restarts = 5,
                                             .within_s = 60,
                                             .delay_s = 0.1,
                                             .max_delay_s = 0.5};

static int is_running(enum restart_state s)
{
    return s == RESTART_TRYING || s == RESTART_PROGRESSED;
}

static int is_death(enum restart_event e)
{
    return e >= RESTART_EV_CRASHED && e <= RESTART_EV_REPLACED;
}

/* _i walks every cell of every policy. */
START_TEST(every_cell)
{
    const enum restart_policy policy =
        (enum restart_policy)((unsigned)_i / (RESTART_STATE_COUNT * RESTART_EVENT_COUNT));
    const enum restart_state state =
        (enum restart_state)((unsigned)_i / RESTART_EVENT_COUNT % RESTART_STATE_COUNT);
    const enum restart_event event = (enum restart_event)(_i % RESTART_EVENT_COUNT);
    const struct restart_step s = restart_policy_step(policy, state, event);

    ck_assert(s.next < RESTART_STATE_COUNT && s.action < RESTART_ACTION_COUNT);
    ck_assert_int_eq(s.action == RESTART_DO_GIVE_UP, s.reason != RESTART_NO_REASON);
    if (s.action == RESTART_DO_GIVE_UP)
        ck_assert_uint_eq(s.next, RESTART_OVER);
    if (state == RESTART_OVER)
        ck_assert(s.next == RESTART_OVER && s.action == RESTART_DO_NOTHING);
    /* a running process that dies leaves its state, and an action follows */
    if (is_running(state) && is_death(event))
        ck_assert(!is_running(s.next) && s.action != RESTART_DO_NOTHING);
    /* Without a process there is no death. */
    if (!is_running(state) && is_death(event) && event != RESTART_EV_REPLACED)
        ck_assert(s.next == state && s.action == RESTART_DO_NOTHING);
    /* only deaths without progress and deaths over memory are counted */
    if (s.action == RESTART_DO_COUNT)
        ck_assert(event == RESTART_EV_OVER_MEMORY || event == RESTART_EV_LATER ||
                  (state == RESTART_TRYING &&
                   (event == RESTART_EV_CRASHED || event == RESTART_EV_DONE)));
}
END_TEST

/* The action after each kind of exit, for a process without progress and for one with
 * progress. */
static const struct {
    enum restart_event event;
    enum restart_action trying[N_POLICIES], getting[N_POLICIES];
} ends[] = {
#define GIVE_UP RESTART_DO_GIVE_UP
    {RESTART_EV_CRASHED,
     {RESTART_DO_COUNT, RESTART_DO_COUNT, GIVE_UP},
     {RESTART_DO_START, RESTART_DO_START, GIVE_UP}},
    {RESTART_EV_OVER_MEMORY,
     {RESTART_DO_COUNT, RESTART_DO_COUNT, GIVE_UP},
     {RESTART_DO_COUNT, RESTART_DO_COUNT, GIVE_UP}},
    {RESTART_EV_POISONED, {GIVE_UP, GIVE_UP, GIVE_UP}, {GIVE_UP, GIVE_UP, GIVE_UP}},
    {RESTART_EV_DONE,
     {RESTART_DO_COUNT, GIVE_UP, GIVE_UP},
     {RESTART_DO_START, GIVE_UP, GIVE_UP}},
    {RESTART_EV_REFUSED, {GIVE_UP, GIVE_UP, GIVE_UP}, {GIVE_UP, GIVE_UP, GIVE_UP}},
    {RESTART_EV_LATER,
     {RESTART_DO_COUNT, RESTART_DO_COUNT, GIVE_UP},
     {RESTART_DO_COUNT, RESTART_DO_COUNT, GIVE_UP}},
    {RESTART_EV_KILLED,
     {RESTART_DO_START, RESTART_DO_START, GIVE_UP},
     {RESTART_DO_START, RESTART_DO_START, GIVE_UP}},
    {RESTART_EV_REPLACED,
     {RESTART_DO_START, RESTART_DO_START, RESTART_DO_START},
     {RESTART_DO_START, RESTART_DO_START, RESTART_DO_START}},
#undef GIVE_UP
};

START_TEST(what_follows_an_end)
{
    for (int p = 0; p < N_POLICIES; p++) {
        const enum restart_policy policy = (enum restart_policy)p;

        ck_assert_uint_eq(
            restart_policy_step(policy, RESTART_TRYING, ends[_i].event).action,
            ends[_i].trying[p]);
        ck_assert_uint_eq(
            restart_policy_step(policy, RESTART_PROGRESSED, ends[_i].event).action,
            ends[_i].getting[p]);
    }
}
END_TEST

/* ---- with a history ---- */

static struct restart_history m;
static uint64_t now;

static void setup(void)
{
    m = RESTART_HISTORY_ZERO;
    now = 1000 * S;
}

static void teardown(void)
{
    restart_history_done(&m);
}

static struct restart_verdict feed(enum restart_event event, uint32_t request)
{
    return restart_history_feed(&m, &config, event, now, request);
}

/* A process that lives for `ms`, with or without progress, and crashes. */
static struct restart_verdict life(uint64_t ms, int gets_on, uint32_t request)
{
    (void)feed(RESTART_EV_STARTED, 0);
    now += ms * MS;
    if (gets_on)
        (void)feed(RESTART_EV_PROGRESS, 0);
    return feed(RESTART_EV_CRASHED, request);
}

START_TEST(delays_grow_until_it_is_given_up)
{
    static const uint64_t delays_ms[] = {0, 100, 200, 400, 500};
    struct restart_verdict v;

    for (size_t i = 0; i < 5; i++) {
        v = life(1, 0, 0);
        ck_assert_uint_eq(v.action,
                          delays_ms[i] > 0 ? RESTART_DO_WAIT : RESTART_DO_START);
        ck_assert_uint_eq(v.delay_ns, delays_ms[i] * MS);
        if (v.action == RESTART_DO_WAIT)
            ck_assert_uint_eq(feed(RESTART_EV_DELAY_OVER, 0).action, RESTART_DO_START);
    }
    v = life(1, 0, 0);
    ck_assert_uint_eq(v.action, RESTART_DO_GIVE_UP);
    ck_assert_uint_eq(v.reason, RESTART_TOO_OFTEN);
    ck_assert_uint_eq(m.n_deaths, 6);
}
END_TEST

START_TEST(only_the_period_counts)
{
    for (int i = 0; i < 1000; i++) {
        now += 12 * S; /* five in a minute, again and again */
        ck_assert_uint_ne(life(0, 0, 0).action, RESTART_DO_GIVE_UP);
    }
    ck_assert_uint_le(m.cap, 8);
}
END_TEST

START_TEST(progress_counts_for_nothing)
{
    for (int i = 0; i < 1000; i++)
        ck_assert_uint_eq(life(1, 1, 0).action, RESTART_DO_START);
    ck_assert_uint_eq(m.n_deaths, 0);
    (void)life(1, 0, 0);
    (void)life(1, 0, 0);
    (void)life(1, 1, 0);
    /* progress has overcome the cause of those deaths */
    ck_assert_uint_eq(m.n_deaths, 0);
    ck_assert_uint_eq(life(1, 0, 0).delay_ns, 0);
}
END_TEST

START_TEST(what_was_asked_for_never_counts)
{
    for (int i = 0; i < 1000; i++) {
        (void)feed(RESTART_EV_STARTED, 0);
        ck_assert_uint_eq(
            feed(i % 2 == 0 ? RESTART_EV_KILLED : RESTART_EV_REPLACED, 0).action,
            RESTART_DO_START);
    }
    ck_assert_uint_eq(m.n_deaths, 0);
}
END_TEST

START_TEST(one_request_three_times)
{
    struct restart_verdict v;

    (void)life(1, 1, 16);
    (void)life(1, 1, 16);
    (void)life(1, 1, 17); /* it has got past request 16 */
    (void)life(1, 0, 17);
    v = life(1, 0, 17);
    ck_assert_uint_eq(v.action, RESTART_DO_GIVE_UP);
    ck_assert_uint_eq(v.reason, RESTART_ONE_REQUEST);
}
END_TEST

/* Memory grows slowly: progress in the meantime does not mean that the cause is
 * overcome. */
START_TEST(outgrowing_counts_whatever_got_done)
{
    static const uint64_t delays_ms[] = {0, 100, 200, 400, 500};

    for (size_t i = 0; i < 6; i++) {
        struct restart_verdict v;

        (void)feed(RESTART_EV_STARTED, 0);
        now += 250 * MS;
        (void)feed(RESTART_EV_PROGRESS, 0);
        v = feed(RESTART_EV_OVER_MEMORY, 0);
        if (i == 5)
            ck_assert_uint_eq(v.reason, RESTART_TOO_OFTEN);
        else
            ck_assert_uint_eq(v.delay_ns, delays_ms[i] * MS);
        (void)feed(RESTART_EV_DELAY_OVER, 0);
    }
    ck_assert_uint_eq(m.state, RESTART_OVER);
}
END_TEST

START_TEST(outgrowing_now_and_then_is_no_end)
{
    for (int i = 0; i < 1000; i++) {
        (void)feed(RESTART_EV_STARTED, 0);
        now += 61 * S;
        (void)feed(RESTART_EV_PROGRESS, 0);
        ck_assert_uint_eq(feed(RESTART_EV_OVER_MEMORY, 0).action, RESTART_DO_START);
    }
}
END_TEST

START_TEST(no_memory_waits_and_counts)
{
    static const uint64_t delays_ms[] = {100, 200, 400, 500, 500};
    struct restart_verdict v;

    for (size_t i = 0; i < 6; i++) {
        (void)feed(RESTART_EV_STARTED, 0);
        /* progress does not mean that there will be memory */
        (void)feed(RESTART_EV_PROGRESS, 0);
        v = feed(RESTART_EV_LATER, 0);
        if (i == 5)
            break;
        ck_assert_uint_eq(v.action, RESTART_DO_WAIT);
        ck_assert_uint_eq(v.delay_ns, delays_ms[i] * MS);
        ck_assert_uint_eq(feed(RESTART_EV_DELAY_OVER, 0).action, RESTART_DO_START);
    }
    ck_assert_uint_eq(v.action, RESTART_DO_GIVE_UP);
    ck_assert_uint_eq(v.reason, RESTART_TOO_OFTEN);
}
END_TEST

START_TEST(a_wait_can_be_cut_short)
{
    (void)feed(RESTART_EV_STARTED, 0);
    (void)feed(RESTART_EV_LATER, 0);
    ck_assert_uint_eq(feed(RESTART_EV_REPLACED, 0).action, RESTART_DO_START);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("restart_policy");
    TCase *tc = tcase_create("table");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, every_cell, 0,
                        N_POLICIES * RESTART_STATE_COUNT * RESTART_EVENT_COUNT);
    tcase_add_loop_test(tc, what_follows_an_end, 0, sizeof(ends) / sizeof(ends[0]));
    tcase_add_test(tc, delays_grow_until_it_is_given_up);
    tcase_add_test(tc, only_the_period_counts);
    tcase_add_test(tc, progress_counts_for_nothing);
    tcase_add_test(tc, what_was_asked_for_never_counts);
    tcase_add_test(tc, one_request_three_times);
    tcase_add_test(tc, outgrowing_counts_whatever_got_done);
    tcase_add_test(tc, outgrowing_now_and_then_is_no_end);
    tcase_add_test(tc, no_memory_waits_and_counts);
    tcase_add_test(tc, a_wait_can_be_cut_short);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
