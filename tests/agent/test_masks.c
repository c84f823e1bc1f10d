/* Choices that are not allowed take no part in learning: in policies of logits, and in
 * the proposals for the next action. */
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 32, ROWS = 100, WIDTH = 8 };

#define SIZES "actor: {hidden: [16]}, critic: {hidden: [16]}"
static const char *const learners[] = {"{" SIZES "}", "{algorithm: ddpg, " SIZES "}",
                                       "{algorithm: matd3, " SIZES "}"};
enum { LEARNERS = sizeof(learners) / sizeof(learners[0]) };

static uint64_t rows[BATCH];

/* Two heads, of five and of three. */
static struct team *open_team(const char *config, int masked)
{
    struct team_args args = team_spread(config, ROWS);

    args.space =
        (struct space){.width = WIDTH, .n_heads = 2, .heads = {5, 3}, .masked = masked};
    rng_below(rng_key_make(3, "test", "rows"), 0, 0, ROWS, rows, BATCH);
    return team_new(&args);
}

static void mask_all(struct team *t, const char *column, const uint8_t *mask)
{
    for (uint64_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < t->args.n; i++)
            team_write_mask(t, row, i, column, mask);
}

static const float *propose(struct team *t, size_t member, uint64_t update)
{
    struct stage_result res;
    struct err err;

    ck_assert_msg(
        team_stage(t, member, "propose", update, rows, 1, BATCH, NULL, &res, &err) == 0,
        "%s", err.msg);
    return tensor_f32(&res.output[0].value);
}

/* ---- learners ---- */

/* If all choices are allowed, or none of a head, learning is the same as without
 * masks. */
START_TEST(masks_that_forbid_nothing_change_nothing)
{
    static const uint8_t none[WIDTH], first[WIDTH] = {1, 1, 1, 1, 1};
    struct team *plain = open_team(learners[_i], 0), *masked = open_team(learners[_i], 1);

    mask_all(masked, "allowed", none);
    mask_all(masked, "next_allowed", first);
    for (uint64_t u = 0; u < 3; u++) {
        team_update(plain, u, rows, 1, BATCH, NULL);
        team_update(masked, u, rows, 1, BATCH, NULL);
    }
    for (size_t i = 0; i < 3; i++) {
        struct session *a = plain->members[i].session;
        struct session *b = masked->members[i].session;

        ck_assert_uint_eq(session_block_bytes(a), session_block_bytes(b));
        ck_assert_mem_eq(session_block(a), session_block(b), session_block_bytes(a));
    }
    team_free(plain);
    team_free(masked);
}
END_TEST

/* The probability of a forbidden choice is exactly 0, however likely it is without the
 * mask. */
START_TEST(what_will_not_be_possible_is_not_proposed)
{
    static const uint8_t mask[WIDTH] = {1, 0, 0, 1, 0, 0, 1, 0};
    struct team *t = open_team(learners[0], 1);
    const float *p;

    mask_all(t, "next_allowed", mask);
    p = propose(t, 1, 0);
    for (int b = 0; b < BATCH; b++, p += WIDTH) {
        if (team_is_gone(t, rows[b], 1))
            continue;
        ck_assert_float_eq_tol(p[0] + p[3], 1, 1e-6f);
        ck_assert_float_gt(p[0], 0);
        ck_assert_float_gt(p[3], 0);
        ck_assert_float_eq(p[6], 1);
        for (int k = 0; k < WIDTH; k++)
            ck_assert(mask[k] || p[k] == 0);
    }
    team_free(t);
}
END_TEST

/* The weights (16, U) of the layer of logits. */
static void copy_logit_weights(struct team *t, float *ret)
{
    const struct tensor w = team_variable(t, 0, "p_func/fully_connected_1/weights");

    ck_assert(shape_equal(&w.shape, &SHAPE(16, WIDTH)));
    memcpy(ret, w.data, 16 * WIDTH * sizeof(float));
}

/* The gradient of a forbidden logit is 0: neither critic nor penalty changes a bit of its
 * weights, while those of the other logits change. */
START_TEST(forbidden_logits_are_not_moved)
{
    static const uint8_t mask[WIDTH] = {1, 1, 0, 1, 0, 1, 1, 0};
    struct team *t = open_team(learners[_i], 1);
    float before[16 * WIDTH], after[16 * WIDTH];
    struct tensor bias;

    mask_all(t, "allowed", mask);
    copy_logit_weights(t, before);
    for (uint64_t u = 0; u < 5; u++)
        team_update(t, u, rows, 1, BATCH, NULL);
    copy_logit_weights(t, after);
    bias = team_variable(t, 0, "p_func/fully_connected_1/biases");
    for (int k = 0; k < WIDTH; k++) {
        int moved = 0;

        for (int i = 0; i < 16; i++)
            moved |= before[i * WIDTH + k] != after[i * WIDTH + k];
        ck_assert_int_eq(moved, mask[k]);
        ck_assert_int_eq(tensor_f32(&bias)[k] != 0, mask[k]);
    }
    team_free(t);
}
END_TEST

/* The mask of the next action changes the targets of the rows. */
START_TEST(targets_see_the_mask)
{
    static const uint8_t mask[WIDTH] = {1, 0, 0, 0, 0, 1, 0, 0};
    struct team *open = open_team(learners[_i], 1), *shut = open_team(learners[_i], 1);

    mask_all(shut, "next_allowed", mask);
    team_update(open, 0, rows, 1, BATCH, NULL);
    team_update(shut, 0, rows, 1, BATCH, NULL);
    ck_assert_double_ne(team_scalar(&open->members[2], "target_q_mean"),
                        team_scalar(&shut->members[2], "target_q_mean"));
    ck_assert_double_eq(team_scalar(&open->members[2], "q_mean"),
                        team_scalar(&shut->members[2], "q_mean"));
    team_free(open);
    team_free(shut);
}
END_TEST

/* ---- acting ---- */

START_TEST(only_what_is_possible_is_done)
{
    static const uint8_t masks[2 * WIDTH] = {0, 1, 0, 0, 1, 0, 0, 1,
                                             0, 0, 0, 0, 0, 1, 0, 0};
    struct team *t = open_team(learners[_i], 1);
    struct member *m = &t->members[0];
    static const float obs[2 * 18] = {0.25f};
    uint64_t counter[2] = {0, 1};
    static const uint64_t first[2];
    float x[2 * WIDTH];
    struct act_args args = {.n_copies = 2,
                            .obs = obs,
                            .allowed = masks,
                            .key = rng_key_make(1, "agent_0", PURPOSE_ACT),
                            .counter = counter,
                            .draw_first = first};
    struct act_result res = {.actions = x};
    int seen[WIDTH] = {0};

    for (int k = 0; k < 100; k++) {
        args.mode = k < 90 ? ACT_EXPLORE : ACT_GREEDY;
        counter[0]++;
        counter[1]++;
        ck_assert_int_eq(m->ops->act(m->algo, m->session, &args, &res, NULL), 0);
        ck_assert_float_eq(x[1] + x[4], 1);
        ck_assert_float_eq(x[7], 1);
        ck_assert_float_eq(x[WIDTH + 5], 1);
        for (int i = 0; i < 5; i++)
            seen[i] += x[WIDTH + i] == 1;
        seen[5] += x[1] == 1;
        seen[6] += x[4] == 1;
    }
    for (int i = 0; i < 7; i++) /* every allowed choice was made */
        ck_assert_int_gt(seen[i], 3);
    team_free(t);
}
END_TEST

/* ---- agents that do not learn ---- */

START_TEST(others_propose_what_will_be_possible)
{
    static const uint8_t mask[WIDTH] = {0, 0, 1, 1, 0, 0, 0, 1};
    struct team *t = open_team("{algorithm: random}", 1);
    const float *p;
    int thirds = 0, n = 0;

    mask_all(t, "next_allowed", mask);
    p = propose(t, 0, 0);
    for (int b = 0; b < BATCH; b++, p += WIDTH) {
        const float there = team_is_gone(t, rows[b], 0) ? 0 : 1;

        ck_assert_float_eq(p[2] + p[3], there);
        ck_assert_float_eq(p[7], there);
        thirds += p[2] == 1;
        n += there == 1;
    }
    ck_assert(n < BATCH && thirds > 3 && thirds < n - 3);
    team_free(t);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("masks");
    TCase *tc = tcase_create("masks");

    tcase_add_loop_test(tc, masks_that_forbid_nothing_change_nothing, 0, LEARNERS);
    tcase_add_test(tc, what_will_not_be_possible_is_not_proposed);
    tcase_add_loop_test(tc, forbidden_logits_are_not_moved, 0, LEARNERS);
    tcase_add_loop_test(tc, targets_see_the_mask, 0, LEARNERS);
    tcase_add_loop_test(tc, only_what_is_possible_is_done, 0, LEARNERS);
    tcase_add_test(tc, others_propose_what_will_be_possible);
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(make_suite)
