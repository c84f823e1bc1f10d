#include "supervisor/run/life_fsm.h"
#include "tests/support/test_main.h"

#include <string.h>

#define __      LIFE_STATE_COUNT /* impossible */
#define S(name) LIFE_##name

/* The state after each event; the columns are in the order of enum life_event. */
static const enum life_state after[LIFE_STATE_COUNT][LIFE_EVENT_COUNT] = {
    /* clang-format off */
    /* OPENED, CONNECTED, DRIVEN | PAUSED, FULL, SPACE, CHECKPOINT_WAITS,
     * CHECKPOINT_TAKEN, CHANGE_WAITS, CHANGE_MADE, DONE | CONTINUE, STOP, DELETED, CUT_OFF | FAIL,
     * AGENT_READY, WRITER_FREE, AGENTS_ENDED, ENVIRONMENTS_ENDED, CLOSED */
    [S(LOADING)] = {S(CONNECTING), __, __, __, __, __, __, __, __, __, __,
                    __, __, __, __, __, __, __, __, __, __},
    [S(CONNECTING)] = {__, S(STARTING), __, __, __, __, __, __, __, __, __,
                       S(CONNECTING), S(STOPPING), S(STOPPING), S(STOPPING), S(STOPPING),
                       S(CONNECTING), S(CONNECTING), __, __, __},
    [S(STARTING)] = {__, __, S(PLAYING), __, __, __, __, __, __, __, __,
                     S(STARTING), S(STOPPING), S(STOPPING), S(STOPPING), S(STOPPING),
                     S(STARTING), S(STARTING), __, __, __},
    [S(PLAYING)] = {__, __, __, S(PAUSED), S(FULL), __, S(AT_CHECKPOINT), __,
                    S(AT_CHANGE), __, S(STOPPING),
                    S(PLAYING), S(FINISHING), S(FINISHING), S(STOPPING), S(STOPPING),
                    S(PLAYING), S(PLAYING), __, __, __},
    [S(AT_CHECKPOINT)] = {__, __, __, __, __, S(AT_CHECKPOINT), __, S(PLAYING), __, __,
                          __, S(AT_CHECKPOINT), S(FINISHING_AT_CHECKPOINT),
                          S(FINISHING_AT_CHECKPOINT), S(STOPPING), S(STOPPING),
                          S(AT_CHECKPOINT), S(AT_CHECKPOINT), __, __, __},
    [S(AT_CHANGE)] = {__, __, __, __, __, S(AT_CHANGE), __, __, __, S(PLAYING), __,
                      S(AT_CHANGE), S(FINISHING_AT_CHANGE), S(FINISHING_AT_CHANGE),
                      S(STOPPING), S(STOPPING), S(AT_CHANGE), S(AT_CHANGE), __, __, __},
    [S(FULL)] = {__, __, __, S(PAUSED), S(FULL), S(PLAYING), S(AT_CHECKPOINT), __,
                 S(AT_CHANGE), __, S(STOPPING),
                 S(FULL), S(STOPPING), S(STOPPING), S(STOPPING), S(STOPPING),
                 S(FULL), S(FULL), __, __, __},
    [S(PAUSED)] = {__, __, __, S(PAUSED), __, S(PAUSED), S(PAUSED_AT_CHECKPOINT), __, __,
                   __, __, S(PLAYING), S(FINISHING), S(FINISHING), S(STOPPING), S(STOPPING),
                   S(PAUSED), S(PAUSED), __, __, __},
    [S(PAUSED_AT_CHECKPOINT)] = {__, __, __, __, __, __, __, S(PAUSED), __, __, __,
                                 S(AT_CHECKPOINT), S(FINISHING_AT_CHECKPOINT),
                                 S(FINISHING_AT_CHECKPOINT), S(STOPPING), S(STOPPING),
                                 S(PAUSED_AT_CHECKPOINT), S(PAUSED_AT_CHECKPOINT),
                                 __, __, __},
    [S(FINISHING)] = {__, __, __, __, S(STOPPING), __, S(FINISHING_AT_CHECKPOINT), __,
                      S(FINISHING_AT_CHANGE), __, S(STOPPING),
                      S(FINISHING), S(FINISHING), S(FINISHING), S(STOPPING), S(STOPPING),
                      S(FINISHING), S(FINISHING), __, __, __},
    [S(FINISHING_AT_CHECKPOINT)] = {__, __, __, __, __, __, __, S(FINISHING), __, __, __,
                                    S(FINISHING_AT_CHECKPOINT),
                                    S(FINISHING_AT_CHECKPOINT),
                                    S(FINISHING_AT_CHECKPOINT), S(STOPPING), S(STOPPING),
                                    S(FINISHING_AT_CHECKPOINT),
                                    S(FINISHING_AT_CHECKPOINT), __, __, __},
    [S(FINISHING_AT_CHANGE)] = {__, __, __, __, __, __, __, __, __, S(FINISHING), __,
                                S(FINISHING_AT_CHANGE), S(FINISHING_AT_CHANGE),
                                S(FINISHING_AT_CHANGE), S(STOPPING), S(STOPPING),
                                S(FINISHING_AT_CHANGE), S(FINISHING_AT_CHANGE),
                                __, __, __},
    [S(STOPPING)] = {__, __, S(STOPPING), __, __, S(STOPPING), S(STOPPING), S(STOPPING),
                     S(STOPPING), S(STOPPING), __,
                     __, S(STOPPING), S(STOPPING), S(STOPPING), S(STOPPING),
                     S(STOPPING), S(STOPPING), S(STOPPING_ENVIRONMENTS),
                     S(STOPPING_AGENTS), __},
    [S(STOPPING_AGENTS)] = {__, __, S(STOPPING_AGENTS), __, __, S(STOPPING_AGENTS),
                            S(STOPPING_AGENTS), S(STOPPING_AGENTS), S(STOPPING_AGENTS),
                            S(STOPPING_AGENTS), __,
                            __, S(STOPPING_AGENTS), S(STOPPING_AGENTS),
                            S(STOPPING_AGENTS), S(STOPPING_AGENTS), S(STOPPING_AGENTS),
                            S(STOPPING_AGENTS), S(SAVING), __, __},
    [S(STOPPING_ENVIRONMENTS)] = {__, __, S(STOPPING_ENVIRONMENTS), __, __,
                                  S(STOPPING_ENVIRONMENTS), S(STOPPING_ENVIRONMENTS),
                                  S(STOPPING_ENVIRONMENTS), S(STOPPING_ENVIRONMENTS),
                                  S(STOPPING_ENVIRONMENTS), __,
                                  __, S(STOPPING_ENVIRONMENTS), S(STOPPING_ENVIRONMENTS),
                                  S(STOPPING_ENVIRONMENTS), S(STOPPING_ENVIRONMENTS),
                                  S(STOPPING_ENVIRONMENTS), S(STOPPING_ENVIRONMENTS),
                                  __, S(SAVING), __},
    [S(SAVING)] = {__, __, S(SAVING), __, __, S(SAVING), S(SAVING), S(SAVING), S(SAVING),
                   S(SAVING), __, __, S(SAVING), S(SAVING), S(SAVING), S(SAVING),
                   S(SAVING), S(SAVING), __, __, S(OVER)},
    [S(OVER)] = {__, __, S(OVER), __, __, S(OVER), S(OVER), S(OVER), S(OVER), S(OVER), __,
                 __, S(OVER), S(OVER), S(OVER), S(OVER), S(OVER), S(OVER), __, __, __},
    /* clang-format on */
};

START_TEST(test_all_cells)
{
    enum life_state state = (enum life_state)(_i / LIFE_EVENT_COUNT);
    enum life_event event = (enum life_event)(_i % LIFE_EVENT_COUNT);
    enum life_state want = after[state][event];
    struct life_step s = life_fsm_step(state, event);

    ck_assert_uint_lt(s.actions, LIFE_DO_BUG << 1);
    ck_assert_uint_gt(strlen(life_state_name(state)), 0);
    ck_assert_uint_gt(strlen(life_event_name(event)), 0);
    if (want == __) {
        ck_assert_uint_eq(s.actions, LIFE_DO_BUG);
        ck_assert_int_eq(s.next, state);
        return;
    }
    ck_assert_uint_eq(s.actions & LIFE_DO_BUG, 0);
    ck_assert_msg(s.next == want, "%s + %s -> %s, not %s", life_state_name(state),
                  life_event_name(event), life_state_name(s.next), life_state_name(want));
}
END_TEST

/* Observers see the agents once before they stop, and processes are stopped exactly on
 * the way into STOPPING; only a second signal kills them, then or later. */
START_TEST(test_what_stops_the_processes)
{
    enum life_state state = (enum life_state)(_i / LIFE_EVENT_COUNT);
    enum life_event event = (enum life_event)(_i % LIFE_EVENT_COUNT);
    struct life_step s = life_fsm_step(state, event);
    const int ends = !life_state_is_ending(state) && life_state_is_ending(s.next);
    const int kills = event == LIFE_EV_CUT_OFF && s.next < LIFE_SAVING;

    if ((s.actions & LIFE_DO_BUG) != 0)
        return;
    ck_assert_int_eq((s.actions & LIFE_DO_REFRESH) != 0, ends);
    ck_assert_int_eq((s.actions & LIFE_DO_KILL) != 0, kills);
    ck_assert_int_eq((s.actions & LIFE_DO_END) != 0, ends && !kills);
}
END_TEST

/* A run that fails reaches its end from every state. */
START_TEST(test_every_failure_ends)
{
    enum life_state state = (enum life_state)_i;
    unsigned did = 0;

    if (state == LIFE_LOADING)
        return;
    state = life_fsm_step(state, LIFE_EV_FAIL).next;
    ck_assert(life_state_is_ending(state));
    if (state == LIFE_STOPPING)
        state = life_fsm_step(state, LIFE_EV_ENVIRONMENTS_ENDED).next;
    if (state == LIFE_STOPPING_AGENTS || state == LIFE_STOPPING_ENVIRONMENTS) {
        struct life_step s = life_fsm_step(state, state == LIFE_STOPPING_AGENTS
                                                      ? LIFE_EV_AGENTS_ENDED
                                                      : LIFE_EV_ENVIRONMENTS_ENDED);
        did = s.actions;
        state = s.next;
        ck_assert(did & LIFE_DO_UNWATCH && did & LIFE_DO_CLOSE);
    }
    if (state == LIFE_SAVING) {
        did = life_fsm_step(state, LIFE_EV_WRITER_FREE).actions;
        ck_assert_uint_eq(did, LIFE_DO_WRITE_LAST | LIFE_DO_CLOSE);
        did = life_fsm_step(state, LIFE_EV_CLOSED).actions;
        state = life_fsm_step(state, LIFE_EV_CLOSED).next;
        ck_assert_uint_eq(did, LIFE_DO_ANSWER_ALL);
    }
    ck_assert_int_eq(state, LIFE_OVER);
}
END_TEST

struct moment {
    enum life_event event;
    enum life_state next;
    unsigned actions;
};

static void live(const struct moment *m, size_t n)
{
    enum life_state state = LIFE_LOADING;

    for (size_t i = 0; i < n; i++) {
        struct life_step s = life_fsm_step(state, m[i].event);

        ck_assert_msg(s.next == m[i].next && s.actions == m[i].actions,
                      "step %zu: %s in state %s", i, life_event_name(m[i].event),
                      life_state_name(state));
        state = s.next;
    }
}

START_TEST(test_a_life)
{
    static const struct moment m[] = {
        {LIFE_EV_OPENED, LIFE_CONNECTING, 0},
        {LIFE_EV_CONNECTED, LIFE_STARTING, LIFE_DO_START_AGENTS},
        {LIFE_EV_DRIVEN, LIFE_PLAYING, 0},
        {LIFE_EV_CHECKPOINT_WAITS, LIFE_AT_CHECKPOINT, 0},
        {LIFE_EV_AGENT_READY, LIFE_AT_CHECKPOINT, LIFE_DO_TAKE_CHECKPOINT},
        {LIFE_EV_WRITER_FREE, LIFE_AT_CHECKPOINT, LIFE_DO_TAKE_CHECKPOINT},
        {LIFE_EV_CHECKPOINT_TAKEN, LIFE_PLAYING, 0},
        {LIFE_EV_CHANGE_WAITS, LIFE_AT_CHANGE, 0},
        {LIFE_EV_WRITER_FREE, LIFE_AT_CHANGE, 0},
        {LIFE_EV_AGENT_READY, LIFE_AT_CHANGE, LIFE_DO_MAKE_CHANGE},
        {LIFE_EV_CHANGE_MADE, LIFE_PLAYING, 0},
        {LIFE_EV_AGENT_READY, LIFE_PLAYING, 0},
        {LIFE_EV_PAUSED, LIFE_PAUSED, LIFE_DO_REPORT_PAUSE | LIFE_DO_ANSWER_PAUSE},
        {LIFE_EV_CHECKPOINT_WAITS, LIFE_PAUSED_AT_CHECKPOINT, 0},
        {LIFE_EV_WRITER_FREE, LIFE_PAUSED_AT_CHECKPOINT, LIFE_DO_TAKE_CHECKPOINT},
        {LIFE_EV_CHECKPOINT_TAKEN, LIFE_PAUSED, 0},
        {LIFE_EV_PAUSED, LIFE_PAUSED, LIFE_DO_ANSWER_PAUSE},
        {LIFE_EV_CONTINUE, LIFE_PLAYING, LIFE_DO_REPORT_CONTINUE},
        {LIFE_EV_STOP, LIFE_FINISHING, LIFE_DO_RECORD_STOP | LIFE_DO_ASK_STOP},
        {LIFE_EV_DELETED, LIFE_FINISHING, 0},
        {LIFE_EV_DONE, LIFE_STOPPING, LIFE_DO_REFRESH | LIFE_DO_END},
        {LIFE_EV_WRITER_FREE, LIFE_STOPPING, LIFE_DO_WRITE_LAST},
        {LIFE_EV_AGENTS_ENDED, LIFE_STOPPING_ENVIRONMENTS, 0},
        {LIFE_EV_ENVIRONMENTS_ENDED, LIFE_SAVING, LIFE_DO_UNWATCH | LIFE_DO_CLOSE},
        {LIFE_EV_WRITER_FREE, LIFE_SAVING, LIFE_DO_WRITE_LAST | LIFE_DO_CLOSE},
        {LIFE_EV_CLOSED, LIFE_OVER, LIFE_DO_ANSWER_ALL},
    };

    live(m, sizeof(m) / sizeof(m[0]));
}
END_TEST

/* Without space no boundary is reached: a stop, before or after, loses the round. */
START_TEST(test_a_full_disk)
{
    const unsigned loses = LIFE_DO_DISCARD_ROUND | LIFE_DO_REFRESH | LIFE_DO_END;
    const struct moment goes_on[] = {
        {LIFE_EV_OPENED, LIFE_CONNECTING, 0},
        {LIFE_EV_CONNECTED, LIFE_STARTING, LIFE_DO_START_AGENTS},
        {LIFE_EV_DRIVEN, LIFE_PLAYING, 0},
        {LIFE_EV_FULL, LIFE_FULL, LIFE_DO_REPORT_FULL | LIFE_DO_TRY_LATER},
        {LIFE_EV_FULL, LIFE_FULL, LIFE_DO_TRY_LATER},
        {LIFE_EV_SPACE, LIFE_PLAYING, LIFE_DO_REPORT_SPACE},
        {LIFE_EV_FULL, LIFE_FULL, LIFE_DO_REPORT_FULL | LIFE_DO_TRY_LATER},
        {LIFE_EV_PAUSED, LIFE_PAUSED, LIFE_DO_REPORT_PAUSE | LIFE_DO_ANSWER_PAUSE},
        {LIFE_EV_SPACE, LIFE_PAUSED, LIFE_DO_REPORT_SPACE},
    };
    const struct moment stop_then_full[] = {
        {LIFE_EV_OPENED, LIFE_CONNECTING, 0},
        {LIFE_EV_CONNECTED, LIFE_STARTING, LIFE_DO_START_AGENTS},
        {LIFE_EV_DRIVEN, LIFE_PLAYING, 0},
        {LIFE_EV_STOP, LIFE_FINISHING, LIFE_DO_RECORD_STOP | LIFE_DO_ASK_STOP},
        {LIFE_EV_FULL, LIFE_STOPPING, loses},
    };
    const struct moment full_then_stop[] = {
        {LIFE_EV_OPENED, LIFE_CONNECTING, 0},
        {LIFE_EV_CONNECTED, LIFE_STARTING, LIFE_DO_START_AGENTS},
        {LIFE_EV_DRIVEN, LIFE_PLAYING, 0},
        {LIFE_EV_FULL, LIFE_FULL, LIFE_DO_REPORT_FULL | LIFE_DO_TRY_LATER},
        {LIFE_EV_STOP, LIFE_STOPPING, LIFE_DO_RECORD_STOP | loses},
        {LIFE_EV_CUT_OFF, LIFE_STOPPING, LIFE_DO_KILL},
    };

    live(goes_on, sizeof(goes_on) / sizeof(goes_on[0]));
    live(stop_then_full, sizeof(stop_then_full) / sizeof(stop_then_full[0]));
    live(full_then_stop, sizeof(full_then_stop) / sizeof(full_then_stop[0]));
}
END_TEST

static Suite *make_suite(void)
{
    const int cells = (int)LIFE_STATE_COUNT * (int)LIFE_EVENT_COUNT;
    Suite *s = suite_create("life_fsm");
    TCase *tc = tcase_create("life_fsm");

    tcase_add_loop_test(tc, test_all_cells, 0, cells);
    tcase_add_loop_test(tc, test_what_stops_the_processes, 0, cells);
    tcase_add_loop_test(tc, test_every_failure_ends, 0, LIFE_STATE_COUNT);
    tcase_add_test(tc, test_a_life);
    tcase_add_test(tc, test_a_full_disk);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
