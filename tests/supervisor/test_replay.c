#include "supervisor/proc/replay.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct replay_exchange exchange(uint32_t id, const void *frame, size_t len)
{
    return (struct replay_exchange){.id = id,
                                    .frame = frame,
                                    .frame_len = len,
                                    .response = (const uint8_t *)"ok",
                                    .response_len = 2};
}

/* As if a snapshot of this block took for ever, so that none is due. */
static void begin(struct replay *r, const void *block, size_t len)
{
    ck_assert_int_eq(replay_snapshot(r, block, len, NULL), 0);
    r->cost_ns = UINT64_MAX / 1000;
}

START_TEST(keeps_requests_in_order)
{
    struct replay r = REPLAY_ZERO;
    char block[4] = "abc", frame[16];
    const struct replay_request *q;
    struct replay_exchange x;
    size_t i, len;
    const uint8_t *kept;

    begin(&r, block, sizeof(block));
    for (i = 0; i < 200; i++) {
        len = (size_t)snprintf(frame, sizeof(frame), "frame %zu", i);
        x = exchange((uint32_t)i + 1, frame, len);
        ck_assert_int_eq(replay_commit(&r, block, sizeof(block), &x, NULL), 0);
    }
    ck_assert_uint_eq(r.n_requests, 200);
    for (i = 0; i < 200; i++) {
        q = replay_request_at(&r, i);
        kept = replay_frame_at(&r, i, &len);
        ck_assert_uint_eq(q->id, i + 1);
        ck_assert(replay_digest_equal(q->response, replay_digest("ok", 2)));
        ck_assert_uint_eq(len, (size_t)snprintf(frame, sizeof(frame), "frame %zu", i));
        ck_assert_mem_eq(kept, frame, len);
    }
    ck_assert_mem_eq(r.snapshot, "abc", 4);
    replay_done(&r);
}
END_TEST

START_TEST(snapshot_cuts_the_list)
{
    struct replay r = REPLAY_ZERO;
    char block[4] = "abc";
    struct replay_exchange x = exchange(1, (const uint8_t *)"f", 1);

    begin(&r, block, sizeof(block));
    ck_assert_int_eq(replay_commit(&r, block, sizeof(block), &x, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 1);
    block[0] = 'x';
    r.cost_ns = 0; /* a free one is always due */
    ck_assert_int_eq(replay_commit(&r, block, sizeof(block), &x, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 0);
    ck_assert_mem_eq(r.snapshot, "xbc", 4);
    replay_done(&r);
}
END_TEST

START_TEST(an_earlier_snapshot_is_kept)
{
    struct replay r = REPLAY_ZERO;
    char block[4] = "abc";
    struct replay_exchange x = exchange(1, (const uint8_t *)"f", 1);

    replay_keep(&r, NULL, 0);
    ck_assert_int_eq(r.has_kept, 0);
    begin(&r, block, sizeof(block));
    replay_keep(&r, block, sizeof(block));
    for (block[0] = '0'; block[0] <= '9'; block[0]++) {
        ck_assert_int_eq(replay_snapshot(&r, block, sizeof(block), NULL), 0);
        ck_assert_int_eq(r.has_kept, 1);
        ck_assert_mem_eq(r.kept, "abc", 4);
        ck_assert_mem_eq(r.snapshot, block, 4);
    }
    replay_keep(&r, block, sizeof(block));
    ck_assert_mem_eq(r.kept, "9bc", 4);
    /* What is in the list is not in the snapshot, and one is not worth its cost. */
    r.cost_ns = UINT64_MAX / 1000;
    ck_assert_int_eq(replay_commit(&r, block, sizeof(block), &x, NULL), 0);
    replay_keep(&r, block, sizeof(block));
    ck_assert_int_eq(r.has_kept, 0);
    r.cost_ns = 0;
    replay_keep(&r, NULL, sizeof(block)); /* a dead one's block */
    ck_assert_int_eq(r.has_kept, 0);
    replay_keep(&r, block, sizeof(block));
    ck_assert_int_eq(r.has_kept, 1);
    ck_assert_mem_eq(r.kept, block, 4);
    replay_done(&r);
}
END_TEST

START_TEST(list_is_bounded)
{
    const size_t len = REPLAY_MAX_BYTES / 4;
    struct replay r = REPLAY_ZERO;
    char block[4] = "abc";
    uint8_t *frame = calloc(1, len);
    struct replay_exchange x = exchange(1, frame, len);
    size_t i;

    begin(&r, block, sizeof(block));
    for (i = 0; i < 4; i++) {
        ck_assert_int_eq(replay_commit(&r, block, sizeof(block), &x, NULL), 0);
        ck_assert_uint_eq(r.n_requests, i + 1);
    }
    ck_assert_int_eq(replay_commit(&r, block, sizeof(block), &x, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 0);
    free(frame);
    replay_done(&r);
}
END_TEST

START_TEST(digests_differ)
{
    ck_assert(replay_digest_equal(replay_digest("abc", 3), replay_digest("abc", 3)));
    ck_assert(!replay_digest_equal(replay_digest("abc", 3), replay_digest("abd", 3)));
    ck_assert(!replay_digest_equal(replay_digest("", 0), replay_digest("\0", 1)));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("replay");
    TCase *tc = tcase_create("replay");

    tcase_add_test(tc, keeps_requests_in_order);
    tcase_add_test(tc, snapshot_cuts_the_list);
    tcase_add_test(tc, an_earlier_snapshot_is_kept);
    tcase_add_test(tc, list_is_bounded);
    tcase_add_test(tc, digests_differ);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
