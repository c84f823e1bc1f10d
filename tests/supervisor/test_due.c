#include "supervisor/rollout/due.h"
#include "tests/support/test_main.h"

static struct due at(const struct intervals *s, uint64_t before, uint64_t steps)
{
    return due_find(s, &(struct due_at){.before = before, .steps = steps});
}

static uint64_t updates(const struct update_interval *u, uint64_t before, uint64_t steps)
{
    return due_updates(u, &(struct due_at){.before = before, .steps = steps});
}

START_TEST(test_floor_arithmetic)
{
    const struct update_interval u = {.every = 100};

    ck_assert_uint_eq(updates(&u, 0, 32), 0);
    ck_assert_uint_eq(updates(&u, 96, 128), 1);
    ck_assert_uint_eq(updates(&u, 100, 132), 0);
    ck_assert_uint_eq(updates(&u, 68, 100), 1);
    ck_assert_uint_eq(updates(&u, 0, 1000), 10);
    ck_assert_uint_eq(updates(&u, 99, 200), 2);
}
END_TEST

/* The number of updates in a run does not depend on the number of copies. */
START_TEST(test_no_update_is_lost)
{
    const struct update_interval u = {.every = 100, .warmup = 2560};

    for (uint64_t copies = 1; copies < 300; copies += 7) {
        uint64_t total = 0, steps = 0;
        while (steps < 50000) {
            total += updates(&u, steps, steps + copies);
            steps += copies;
        }
        ck_assert_uint_eq(total, steps / 100 - 25);
    }
}
END_TEST

/* Updates are due at 25600, 25700, ...; those due before warm-up are skipped. */
START_TEST(test_warmup)
{
    const struct update_interval u = {.every = 100, .warmup = 25600};

    ck_assert_uint_eq(updates(&u, 25568, 25599), 0);
    ck_assert_uint_eq(updates(&u, 25568, 25600), 1);
    ck_assert_uint_eq(updates(&u, 25000, 25600), 1);
    ck_assert_uint_eq(updates(&u, 0, 25800), 3);
    ck_assert_uint_eq(updates(&u, 25600, 25632), 0);
}
END_TEST

START_TEST(test_at_most_one)
{
    const struct intervals s = {
        .evaluate_every = 10, .log_every = 10, .checkpoint_every = 10};
    struct due due = at(&s, 0, 95);

    ck_assert_int_eq(due.evaluate, 1);
    ck_assert_int_eq(due.log, 1);
    ck_assert_int_eq(due.checkpoint, 1);
    ck_assert_int_eq(due.end, 0);
    due = at(&s, 90, 99);
    ck_assert(!due.evaluate && !due.log && !due.checkpoint);
}
END_TEST

START_TEST(test_never)
{
    const struct intervals s = {.length = {.env_steps = 1000}};
    struct due due = at(&s, 0, 999);

    ck_assert(!due.updates && !due.evaluate && !due.log && !due.checkpoint && !due.end);
}
END_TEST

START_TEST(test_end)
{
    const struct intervals by_steps = {.length = {.env_steps = 1000}},
                           by_episodes = {.length = {.episodes = 4}};
    struct due due = at(&by_steps, 992, 1024);

    ck_assert(due.end && due.log && due.checkpoint && !due.evaluate);
    due =
        due_find(&by_episodes, &(struct due_at){.before = 5, .steps = 10, .episodes = 3});
    ck_assert(!due.end);
    due =
        due_find(&by_episodes, &(struct due_at){.before = 5, .steps = 10, .episodes = 5});
    ck_assert(due.end && due.log && due.checkpoint);
    due = due_find(
        &(struct intervals){.length = {.env_steps = 1000}, .evaluate_every = 5000},
        &(struct due_at){.before = 992, .steps = 1024});
    ck_assert(due.end && due.evaluate);
}
END_TEST

START_TEST(test_checkpoints_by_time)
{
    const struct intervals s = {.checkpoint_every_ns = 1000};
    struct due_at now = {.before = 1, .steps = 2, .since_checkpoint_ns = 999};

    ck_assert(!due_find(&s, &now).checkpoint);
    now.since_checkpoint_ns = 1000;
    ck_assert(due_find(&s, &now).checkpoint);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("due");
    TCase *tc = tcase_create("due");

    tcase_add_test(tc, test_floor_arithmetic);
    tcase_add_test(tc, test_no_update_is_lost);
    tcase_add_test(tc, test_warmup);
    tcase_add_test(tc, test_at_most_one);
    tcase_add_test(tc, test_never);
    tcase_add_test(tc, test_end);
    tcase_add_test(tc, test_checkpoints_by_time);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
