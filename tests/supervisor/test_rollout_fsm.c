#include "supervisor/rollout/rollout_fsm.h"
#include "tests/support/test_main.h"

#include <stdio.h>
#include <string.h>

static const struct stage_list one_stage = {
    .n = 1, .stage = {{.name = "learn", .writes = 1, .repeat = 1}}};
/* values, then (mix, learn) three times, then sync */
static const struct stage_list repeating = {
    .n = 4,
    .stage = {{.name = "values", .repeat_from = 0, .repeat = 1},
              {.name = "mix", .central = 1, .repeat_from = 1, .repeat = 1},
              {.name = "learn", .writes = 1, .repeat_from = 1, .repeat = 3},
              {.name = "sync", .repeat_from = 3, .repeat = 1}}};

/* A machine in the given state, with nothing due. */
static struct rollout_fsm in(enum rollout_state state)
{
    struct rollout_fsm f;

    rollout_fsm_init(&f, one_stage.stage, one_stage.n);
    f.state = state;
    return f;
}

#define __ ROLLOUT_STATE_COUNT /* impossible */

/* The state after each event, if nothing is due and nothing was requested before. */
static const enum rollout_state after[ROLLOUT_STATE_COUNT][ROLLOUT_EVENT_COUNT] = {
    /*                     START, FINISHED, STOP, PAUSE, CONTINUE, CHECKPOINT, CHANGE,
     *                     CANCELLED, FAIL */
    [ROLLOUT_IDLE] = {ROLLOUT_CHECKPOINT, __, ROLLOUT_IDLE, ROLLOUT_IDLE, ROLLOUT_IDLE,
                      ROLLOUT_IDLE, ROLLOUT_IDLE, __, ROLLOUT_FAILED},
    [ROLLOUT_ACT] = {__, ROLLOUT_STEP, ROLLOUT_ACT, ROLLOUT_ACT, ROLLOUT_ACT, ROLLOUT_ACT,
                     ROLLOUT_ACT, __, ROLLOUT_FAILED},
    [ROLLOUT_STEP] = {__, ROLLOUT_ACT, ROLLOUT_STEP, ROLLOUT_STEP, ROLLOUT_STEP,
                      ROLLOUT_STEP, ROLLOUT_STEP, __, ROLLOUT_FAILED},
    [ROLLOUT_UPDATE] = {__, ROLLOUT_ACT, ROLLOUT_UPDATE, ROLLOUT_UPDATE, ROLLOUT_UPDATE,
                        ROLLOUT_UPDATE, ROLLOUT_UPDATE, __, ROLLOUT_FAILED},
    [ROLLOUT_EVALUATE] = {__, ROLLOUT_ACT, ROLLOUT_EVALUATE, ROLLOUT_EVALUATE,
                          ROLLOUT_EVALUATE, ROLLOUT_EVALUATE, ROLLOUT_EVALUATE,
                          ROLLOUT_CHECKPOINT, ROLLOUT_FAILED},
    [ROLLOUT_LOG] = {__, ROLLOUT_ACT, ROLLOUT_LOG, ROLLOUT_LOG, ROLLOUT_LOG, ROLLOUT_LOG,
                     ROLLOUT_LOG, __, ROLLOUT_FAILED},
    [ROLLOUT_CHECKPOINT] = {__, ROLLOUT_ACT, ROLLOUT_CHECKPOINT, ROLLOUT_CHECKPOINT,
                            ROLLOUT_CHECKPOINT, ROLLOUT_CHECKPOINT, ROLLOUT_CHECKPOINT,
                            __, ROLLOUT_FAILED},
    [ROLLOUT_CHANGE] = {__, ROLLOUT_ACT, ROLLOUT_CHANGE, ROLLOUT_CHANGE, ROLLOUT_CHANGE,
                        ROLLOUT_CHANGE, ROLLOUT_CHANGE, __, ROLLOUT_FAILED},
    [ROLLOUT_PAUSED] = {__, __, ROLLOUT_CHECKPOINT, ROLLOUT_PAUSED, ROLLOUT_ACT,
                        ROLLOUT_CHECKPOINT, ROLLOUT_PAUSED, __, ROLLOUT_FAILED},
    [ROLLOUT_DONE] = {__, __, ROLLOUT_DONE, ROLLOUT_DONE, ROLLOUT_DONE, ROLLOUT_DONE,
                      ROLLOUT_DONE, __, ROLLOUT_DONE},
    [ROLLOUT_FAILED] = {__, __, ROLLOUT_FAILED, ROLLOUT_FAILED, ROLLOUT_FAILED,
                        ROLLOUT_FAILED, ROLLOUT_FAILED, __, ROLLOUT_FAILED},
};

START_TEST(a_step_is_taken_back_to_the_beginning_of_its_round)
{
    struct rollout_fsm f;
    struct due left;

    rollout_fsm_init(&f, NULL, 0);
    ck_assert_int_eq(rollout_fsm_step(&f, ROLLOUT_START), ROLLOUT_ENTERED);
    ck_assert_int_eq(rollout_fsm_step(&f, ROLLOUT_FINISHED), ROLLOUT_ENTERED);
    ck_assert_int_eq(f.state, ROLLOUT_ACT);
    ck_assert(!rollout_fsm_is_stepping(&f));
    ck_assert_int_eq(rollout_fsm_step(&f, ROLLOUT_FINISHED), ROLLOUT_ENTERED);
    ck_assert(rollout_fsm_is_stepping(&f));
    ck_assert_int_eq(rollout_fsm_left(&f, &left), 0);
    if (_i == 1)
        ck_assert_int_eq(rollout_fsm_step(&f, ROLLOUT_FAIL), ROLLOUT_ENTERED);
    rollout_fsm_take_back(&f);
    ck_assert(!rollout_fsm_is_stepping(&f));
    ck_assert_int_eq(rollout_fsm_left(&f, &left), 1);
    ck_assert(!due_is_any(&left));
}
END_TEST

START_TEST(test_all_cells)
{
    enum rollout_state state = (enum rollout_state)(_i / ROLLOUT_EVENT_COUNT);
    enum rollout_event event = (enum rollout_event)(_i % ROLLOUT_EVENT_COUNT);
    struct rollout_fsm f = in(state), before = f;
    enum rollout_state want = after[state][event];
    enum rollout_effect effect = rollout_fsm_step(&f, event);

    if (want == __) {
        ck_assert_int_eq(effect, ROLLOUT_IMPOSSIBLE);
        ck_assert_mem_eq(&f, &before, sizeof(f));
    } else {
        ck_assert_msg(f.state == want, "%s + %d -> %s, not %s", rollout_state_name(state),
                      (int)event, rollout_state_name(f.state), rollout_state_name(want));
        ck_assert_int_eq(effect, want == state ? ROLLOUT_NOTED : ROLLOUT_ENTERED);
    }
}
END_TEST

static void note_state(char *text, size_t size, const struct rollout_fsm *f)
{
    const size_t n = strlen(text);

    if (f->state == ROLLOUT_UPDATE)
        (void)snprintf(text + n, size - n, "%s%llu ", f->stages[f->stage].name,
                       (unsigned long long)f->repeat);
    else
        (void)snprintf(text + n, size - n, "%s ", rollout_state_name(f->state));
}

/* Plays until ACT, PAUSED or DONE; returns the states on the way as text. */
static const char *boundary(struct rollout_fsm *f, struct due due)
{
    static char text[1024];

    text[0] = '\0';
    rollout_fsm_step(f, ROLLOUT_FINISHED); /* ACT -> STEP */
    rollout_fsm_set_due(f, &due);
    do {
        ck_assert_int_eq(rollout_fsm_step(f, ROLLOUT_FINISHED), ROLLOUT_ENTERED);
        note_state(text, sizeof(text), f);
    } while (f->state != ROLLOUT_ACT && f->state != ROLLOUT_PAUSED &&
             f->state != ROLLOUT_DONE);
    return text;
}

START_TEST(test_order_of_what_is_due)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    ck_assert_str_eq(boundary(&f, (struct due){0}), "act ");
    ck_assert_str_eq(
        boundary(&f,
                 (struct due){.updates = 2, .evaluate = 1, .log = 1, .checkpoint = 1}),
        "learn0 learn0 evaluate log checkpoint act ");
    ck_assert_str_eq(
        boundary(&f, (struct due){.updates = 1, .log = 1, .checkpoint = 1, .end = 1}),
        "learn0 log checkpoint done ");
    ck_assert_int_eq(f.stopped, 0);
}
END_TEST

/* The checkpoint of a boundary comes before its change; requests during the change belong
 * to the next boundary. */
START_TEST(test_a_change_comes_before_the_round)
{
    struct rollout_fsm f = in(ROLLOUT_UPDATE);

    f.due.checkpoint = 1;
    ck_assert_int_eq(rollout_fsm_step(&f, ROLLOUT_CHANGE_REQUEST), ROLLOUT_NOTED);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_CHECKPOINT);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_CHANGE);
    rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_ACT);
    ck_assert_str_eq(boundary(&f, (struct due){0}), "checkpoint log done ");
}
END_TEST

START_TEST(test_a_change_waits_for_the_end_of_a_pause)
{
    struct rollout_fsm f = in(ROLLOUT_PAUSED);

    f.pause = 1;
    rollout_fsm_step(&f, ROLLOUT_CHANGE_REQUEST);
    ck_assert_int_eq(f.state, ROLLOUT_PAUSED);
    rollout_fsm_step(&f, ROLLOUT_CONTINUE_REQUEST);
    ck_assert_int_eq(f.state, ROLLOUT_CHANGE);
}
END_TEST

START_TEST(test_stages_and_repeats)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    f.stages = repeating.stage;
    f.n_stages = repeating.n;
    ck_assert_str_eq(boundary(&f, (struct due){.updates = 2}),
                     "values0 mix0 learn0 mix1 learn1 mix2 learn2 sync0 "
                     "values0 mix0 learn0 mix1 learn1 mix2 learn2 sync0 act ");
}
END_TEST

START_TEST(test_start)
{
    struct rollout_fsm f = in(ROLLOUT_IDLE);

    rollout_fsm_step(&f, ROLLOUT_START);
    ck_assert_int_eq(f.state, ROLLOUT_CHECKPOINT);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_ACT);
}
END_TEST

/* A resume from any point of a boundary does the rest of its work. */
START_TEST(test_midway)
{
    static const struct {
        enum rollout_state in;
        const char *rest; /* NULL: a run cannot be resumed there */
    } cases[] = {
        {ROLLOUT_ACT, ""},
        {ROLLOUT_STEP, NULL},
        {ROLLOUT_UPDATE, "learn0 learn0 evaluate log checkpoint "},
        {ROLLOUT_EVALUATE, "evaluate log checkpoint "},
        {ROLLOUT_LOG, NULL},
        {ROLLOUT_CHECKPOINT, ""},
        {ROLLOUT_CHANGE, NULL},
        {ROLLOUT_PAUSED, ""},
    };
    const struct due due = {.updates = 2, .evaluate = 1, .log = 1, .checkpoint = 1};
    struct rollout_fsm f = in(ROLLOUT_STEP), next = in(ROLLOUT_IDLE);
    struct due left;
    char text[256] = "";

    rollout_fsm_set_due(&f, &due);
    if (cases[_i].in == ROLLOUT_CHANGE)
        rollout_fsm_step(&f, ROLLOUT_CHANGE_REQUEST);
    if (cases[_i].in == ROLLOUT_PAUSED)
        rollout_fsm_step(&f, ROLLOUT_PAUSE_REQUEST);
    while (f.state != cases[_i].in)
        rollout_fsm_step(&f, ROLLOUT_FINISHED);
    rollout_fsm_step(&f, ROLLOUT_FAIL);
    ck_assert_int_eq(rollout_fsm_left(&f, &left), cases[_i].rest != NULL);
    if (cases[_i].rest == NULL)
        return;
    ck_assert_int_eq(due_is_any(&left), cases[_i].rest[0] != '\0');
    rollout_fsm_resume_midway(&next, &left);
    rollout_fsm_step(&next, ROLLOUT_START);
    while (next.state != ROLLOUT_ACT) {
        note_state(text, sizeof(text), &next);
        rollout_fsm_step(&next, ROLLOUT_FINISHED);
    }
    ck_assert_str_eq(text, cases[_i].rest);
}
END_TEST

START_TEST(test_stop_ends_in_order)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
    rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
    ck_assert_str_eq(boundary(&f, (struct due){.updates = 1}),
                     "learn0 checkpoint log done ");
    ck_assert_int_eq(f.stopped, 1);
}
END_TEST

/* A stop that is planned for a boundary comes after everything else that is due there. */
START_TEST(test_a_planned_stop_comes_last)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    ck_assert_str_eq(
        boundary(&f, (struct due){.updates = 1, .evaluate = 1, .log = _i, .stop = 1}),
        _i ? "learn0 evaluate log checkpoint done "
           : "learn0 evaluate checkpoint log done ");
    ck_assert_int_eq(f.stopped, 1);
}
END_TEST

/* A stop leaves the evaluation, and the row with its result, to the resume; also at the
 * end of a run. */
START_TEST(test_stop_leaves_the_evaluation)
{
    const struct due due = {
        .updates = 1, .evaluate = 1, .log = 1, .checkpoint = 1, .end = _i & 1};
    struct rollout_fsm f = in(ROLLOUT_STEP), next = in(ROLLOUT_IDLE);
    struct due left;
    char text[256] = "";

    rollout_fsm_set_due(&f, &due);
    if ((_i & 2) != 0)
        rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    if ((_i & 2) == 0) {
        ck_assert_int_eq(f.state, ROLLOUT_EVALUATE);
        rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
        rollout_fsm_step(&f, ROLLOUT_CANCELLED);
    }
    ck_assert_int_eq(f.state, ROLLOUT_CHECKPOINT);
    ck_assert_int_eq(rollout_fsm_left(&f, &left), 1);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_DONE);
    ck_assert_int_eq(f.stopped, 1);
    left.end = due.end;
    rollout_fsm_resume_midway(&next, &left);
    rollout_fsm_step(&next, ROLLOUT_START);
    while (next.state != ROLLOUT_ACT && next.state != ROLLOUT_DONE) {
        note_state(text, sizeof(text), &next);
        rollout_fsm_step(&next, ROLLOUT_FINISHED);
    }
    ck_assert_str_eq(text, "evaluate log checkpoint ");
}
END_TEST

START_TEST(test_stop_at_the_end_is_no_stop)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
    ck_assert_str_eq(boundary(&f, (struct due){.log = 1, .checkpoint = 1, .end = 1}),
                     "log checkpoint done ");
    ck_assert_int_eq(f.stopped, 0);
}
END_TEST

/* Also if a stop was requested meanwhile: the run is done. */
START_TEST(test_an_evaluation_ends_the_run)
{
    struct rollout_fsm f = in(ROLLOUT_STEP);
    const struct due due = {.evaluate = 1};
    char text[64] = "";

    rollout_fsm_set_due(&f, &due);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_EVALUATE);
    if (_i == 1)
        rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
    rollout_fsm_add_due(&f, &(struct due){.log = 1, .checkpoint = 1, .end = 1});
    while (f.state != ROLLOUT_DONE) {
        rollout_fsm_step(&f, ROLLOUT_FINISHED);
        note_state(text, sizeof(text), &f);
    }
    ck_assert_str_eq(text, "log checkpoint done ");
    ck_assert_int_eq(f.stopped, 0);
}
END_TEST

/* A checkpoint requested while the boundary's own is being written does not cause a
 * second one. */
START_TEST(test_stop_during_checkpoint)
{
    struct rollout_fsm f = in(ROLLOUT_STEP);
    struct due due = {.log = 1, .checkpoint = 1};

    rollout_fsm_set_due(&f, &due);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_CHECKPOINT);
    rollout_fsm_step(&f, ROLLOUT_STOP_REQUEST);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_DONE);
    ck_assert_int_eq(f.stopped, 1);
}
END_TEST

START_TEST(test_pause_and_go_on)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    rollout_fsm_step(&f, ROLLOUT_PAUSE_REQUEST);
    ck_assert_str_eq(boundary(&f, (struct due){.updates = 1}), "learn0 paused ");
    rollout_fsm_step(&f, ROLLOUT_CHECKPOINT_REQUEST);
    ck_assert_int_eq(f.state, ROLLOUT_CHECKPOINT);
    rollout_fsm_step(&f, ROLLOUT_FINISHED);
    ck_assert_int_eq(f.state, ROLLOUT_PAUSED);
    ck_assert_int_eq(rollout_fsm_step(&f, ROLLOUT_CHECKPOINT_REQUEST), ROLLOUT_NOTED);
    rollout_fsm_step(&f, ROLLOUT_CONTINUE_REQUEST);
    ck_assert_int_eq(f.state, ROLLOUT_ACT);
    ck_assert_str_eq(boundary(&f, (struct due){0}), "act ");
}
END_TEST

START_TEST(test_pause_taken_back)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    rollout_fsm_step(&f, ROLLOUT_PAUSE_REQUEST);
    rollout_fsm_step(&f, ROLLOUT_CONTINUE_REQUEST);
    ck_assert_str_eq(boundary(&f, (struct due){0}), "act ");
}
END_TEST

START_TEST(test_checkpoint_request)
{
    struct rollout_fsm f = in(ROLLOUT_ACT);

    rollout_fsm_step(&f, ROLLOUT_CHECKPOINT_REQUEST);
    ck_assert_str_eq(boundary(&f, (struct due){0}), "checkpoint act ");
    ck_assert_str_eq(boundary(&f, (struct due){0}), "act ");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rollout_fsm");
    TCase *tc = tcase_create("rollout_fsm");

    tcase_add_loop_test(tc, test_all_cells, 0,
                        (int)ROLLOUT_STATE_COUNT * (int)ROLLOUT_EVENT_COUNT);
    tcase_add_test(tc, test_order_of_what_is_due);
    tcase_add_test(tc, test_a_change_comes_before_the_round);
    tcase_add_test(tc, test_a_change_waits_for_the_end_of_a_pause);
    tcase_add_test(tc, test_stages_and_repeats);
    tcase_add_test(tc, test_start);
    tcase_add_loop_test(tc, a_step_is_taken_back_to_the_beginning_of_its_round, 0, 2);
    tcase_add_loop_test(tc, test_midway, 0, 8);
    tcase_add_test(tc, test_stop_ends_in_order);
    tcase_add_loop_test(tc, test_a_planned_stop_comes_last, 0, 2);
    tcase_add_loop_test(tc, test_stop_leaves_the_evaluation, 0, 4);
    tcase_add_test(tc, test_stop_at_the_end_is_no_stop);
    tcase_add_loop_test(tc, test_an_evaluation_ends_the_run, 0, 2);
    tcase_add_test(tc, test_stop_during_checkpoint);
    tcase_add_test(tc, test_pause_and_go_on);
    tcase_add_test(tc, test_pause_taken_back);
    tcase_add_test(tc, test_checkpoint_request);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
