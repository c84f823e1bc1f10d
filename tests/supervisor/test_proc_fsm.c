#include "supervisor/proc/proc_fsm.h"
#include "tests/support/test_main.h"

#include <string.h>

/* The states in which there is a process. */
static const enum proc_state with_process[] = {
    PROC_STARTING, PROC_CONFIGURING, PROC_DESCRIBING, PROC_REPLAYING, PROC_IDLE,
    PROC_BUSY,     PROC_COMMITTING,  PROC_DYING,      PROC_ENDING,    PROC_STOPPING,
};

/* _i walks every cell. */
START_TEST(every_cell_is_sound)
{
    enum proc_state state = (enum proc_state)(_i / PROC_EVENT_COUNT);
    enum proc_event event = (enum proc_event)(_i % PROC_EVENT_COUNT);
    struct proc_step s = proc_fsm_step(state, event);

    ck_assert(s.next < PROC_STATE_COUNT);
    ck_assert_uint_lt(s.actions, PROC_DO_BUG << 1);
    if ((s.actions & PROC_DO_BUG) != 0) {
        ck_assert_uint_eq(s.actions, PROC_DO_BUG);
        ck_assert_uint_eq(s.next, state);
    }
    ck_assert_uint_gt(strlen(proc_state_name(state)), 0);
    ck_assert_uint_gt(strlen(proc_event_name(event)), 0);
}
END_TEST

/* No event that an agent or the outside can cause leads to a missing cell. */
START_TEST(nothing_from_outside_is_a_bug)
{
    static const enum proc_event outside[] = {
        PROC_EV_HELLO, PROC_EV_RESPONSE, PROC_EV_BAD,
        PROC_EV_FATAL, PROC_EV_STOP,     PROC_EV_EXIT,
    };
    size_t e;

    for (e = 0; e < sizeof(outside) / sizeof(outside[0]); e++)
        ck_assert_uint_eq(
            proc_fsm_step(with_process[_i], outside[e]).actions & PROC_DO_BUG, 0);
}
END_TEST

START_TEST(stop_always_ends)
{
    struct proc_step s = proc_fsm_step(with_process[_i], PROC_EV_STOP);

    ck_assert(s.next == PROC_STOPPING || s.next == PROC_ENDING);
    s = proc_fsm_step(s.next, PROC_EV_DEADLINE);
    ck_assert_uint_eq(s.next, PROC_ENDING);
    s = proc_fsm_step(s.next, PROC_EV_EXIT);
    ck_assert_uint_eq(s.next, PROC_GONE);
    ck_assert(s.actions & PROC_DO_GONE);
}
END_TEST

START_TEST(death_is_judged_unless_it_was_wanted)
{
    enum proc_state state = with_process[_i];
    struct proc_step s = proc_fsm_step(state, PROC_EV_EXIT);

    if (state == PROC_ENDING || state == PROC_STOPPING) {
        ck_assert_uint_eq(s.next, PROC_GONE);
    } else {
        ck_assert_uint_eq(s.next, PROC_DOWN);
        ck_assert_uint_eq(s.actions, PROC_DO_JUDGE);
    }
}
END_TEST

START_TEST(a_life)
{
    static const struct {
        enum proc_event event;
        enum proc_state next;
        unsigned actions;
    } steps[] = {
        {PROC_EV_START, PROC_STARTING, PROC_DO_SPAWN | PROC_DO_CONFIGURE},
        {PROC_EV_REQUEST, PROC_STARTING, 0},
        {PROC_EV_HELLO, PROC_CONFIGURING, 0},
        {PROC_EV_RESPONSE, PROC_DESCRIBING, PROC_DO_DESCRIBE},
        {PROC_EV_REQUEST, PROC_DESCRIBING, 0},
        {PROC_EV_COPIED, PROC_REPLAYING, PROC_DO_REPLAY},
        {PROC_EV_RESPONSE, PROC_REPLAYING, PROC_DO_COMPARE | PROC_DO_REPLAY},
        {PROC_EV_REPLAYED, PROC_IDLE, PROC_DO_READY},
        {PROC_EV_REQUEST, PROC_BUSY, PROC_DO_SEND},
        {PROC_EV_RESPONSE, PROC_COMMITTING, PROC_DO_COMMIT},
        {PROC_EV_COPIED, PROC_IDLE, PROC_DO_DELIVER},
        {PROC_EV_RESPONSE, PROC_DYING, PROC_DO_KILL},
        {PROC_EV_RESPONSE, PROC_DYING, 0},
        {PROC_EV_EXIT, PROC_DOWN, PROC_DO_JUDGE},
        {PROC_EV_FATAL, PROC_GONE, PROC_DO_REPORT | PROC_DO_GONE},
    };
    enum proc_state state = PROC_DOWN;
    struct proc_step s;
    size_t i;

    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        s = proc_fsm_step(state, steps[i].event);
        ck_assert_msg(s.next == steps[i].next && s.actions == steps[i].actions,
                      "step %zu: %s in state %s", i, proc_event_name(steps[i].event),
                      proc_state_name(state));
        state = s.next;
    }
}
END_TEST

static Suite *make_suite(void)
{
    const int n = sizeof(with_process) / sizeof(with_process[0]);
    Suite *s = suite_create("proc_fsm");
    TCase *tc = tcase_create("table");

    tcase_add_loop_test(tc, every_cell_is_sound, 0, PROC_STATE_COUNT * PROC_EVENT_COUNT);
    tcase_add_loop_test(tc, nothing_from_outside_is_a_bug, 0, n);
    tcase_add_loop_test(tc, stop_always_ends, 0, n);
    tcase_add_loop_test(tc, death_is_judged_unless_it_was_wanted, 0, n);
    tcase_add_test(tc, a_life);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
