#include "supervisor/proc/replay.h"
#include "tests/support/test_main.h"

#include <string.h>
#include <uv.h>

static struct replay_exchange exchange(uint32_t id, const void *frame, size_t len)
{
    return (struct replay_exchange){.id = id,
                                    .frame = frame,
                                    .frame_len = len,
                                    .response = (const uint8_t *)"ok",
                                    .response_len = 2};
}

/* Pretends that a snapshot of this block takes for ever, so that none is due. */
static void begin(struct replay *r, const void *block, size_t len)
{
    const struct replay_block b = replay_block_at(block, len);

    ck_assert_int_eq(replay_snapshot(r, &b, NULL), 0);
    r->cost_ns = UINT64_MAX / 1000;
}

START_TEST(keeps_requests_in_order)
{
    struct replay r = REPLAY_ZERO;
    char block[4] = "abc", frame[16];
    const struct replay_block b = replay_block_at(block, sizeof(block));
    const struct replay_request *q;
    struct replay_exchange x;
    size_t i, len;
    const uint8_t *kept;

    begin(&r, block, sizeof(block));
    for (i = 0; i < 200; i++) {
        len = (size_t)snprintf(frame, sizeof(frame), "frame %zu", i);
        x = exchange((uint32_t)i + 1, frame, len);
        ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
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
    const struct replay_block b = replay_block_at(block, sizeof(block));
    struct replay_exchange x = exchange(1, (const uint8_t *)"f", 1);

    begin(&r, block, sizeof(block));
    ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 1);
    block[0] = 'x';
    r.cost_ns = 0; /* a snapshot without cost is always due */
    ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 0);
    ck_assert_mem_eq(r.snapshot, "xbc", 4);
    replay_done(&r);
}
END_TEST

/* Commits requests to a list that has room for three until a snapshot is taken. */
static void fill_lists_of_three(struct replay *r, uint64_t cost_ns)
{
    char block[4] = "abc";
    const struct replay_block b = replay_block_at(block, sizeof(block));
    struct replay_exchange x = exchange(1, (const uint8_t *)"f", 1);

    begin(r, block, sizeof(block));
    for (size_t i = 0; i < 12; i++) {
        block[0] = (char)('a' + i);
        r->cost_ns = cost_ns;
        ck_assert_int_eq(replay_commit(r, &b, &x, 0, NULL), 0);
        ck_assert_uint_eq(r->n_requests, (i + 1) % 4);
        ck_assert_int_eq(r->snapshot[0], i < 3 ? 'a' : 'a' + (int)(i + 1) / 4 * 4 - 1);
    }
}

/* If the number of requests is limited, a group that shares parameters can repeat that
 * many of its steps. */
START_TEST(number_of_requests_is_bounded)
{
    struct replay r = REPLAY_ZERO;

    r.max_requests = 3;
    fill_lists_of_three(&r, UINT64_MAX / 1000);
    replay_done(&r);
}
END_TEST

/* A snapshot without cost, which is always due otherwise, waits for that many requests; one
 * that must be taken does not. */
START_TEST(a_number_of_requests_makes_a_snapshot_due)
{
    struct replay r = REPLAY_ZERO;
    const struct replay_block b = replay_block_at("xyz", 4);
    struct replay_exchange x = exchange(1, (const uint8_t *)"f", 1);

    r.due_after = 3;
    fill_lists_of_three(&r, 0);
    ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 1);
    ck_assert_int_eq(replay_commit(&r, &b, &x, 1, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 0);
    replay_done(&r);
}
END_TEST

START_TEST(an_earlier_snapshot_is_kept)
{
    struct replay r = REPLAY_ZERO;
    char block[4] = "abc";
    const struct replay_block b = replay_block_at(block, sizeof(block));
    struct replay_exchange x = exchange(1, (const uint8_t *)"f", 1);

    replay_keep(&r, NULL);
    ck_assert_int_eq(r.has_kept, 0);
    begin(&r, block, sizeof(block));
    replay_keep(&r, &b);
    for (block[0] = '0'; block[0] <= '9'; block[0]++) {
        ck_assert_int_eq(replay_snapshot(&r, &b, NULL), 0);
        ck_assert_int_eq(r.has_kept, 1);
        ck_assert_mem_eq(r.kept, "abc", 4);
        ck_assert_mem_eq(r.snapshot, block, 4);
    }
    replay_keep(&r, &b);
    ck_assert_mem_eq(r.kept, "9bc", 4);
    /* the snapshot lacks the request in the list, and a new snapshot would cost too
     * much */
    r.cost_ns = UINT64_MAX / 1000;
    ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
    replay_keep(&r, &b);
    ck_assert_int_eq(r.has_kept, 0);
    r.cost_ns = 0;
    replay_keep(&r, NULL); /* the block of a dead agent */
    ck_assert_int_eq(r.has_kept, 0);
    replay_keep(&r, &b);
    ck_assert_int_eq(r.has_kept, 1);
    ck_assert_mem_eq(r.kept, block, 4);
    replay_done(&r);
}
END_TEST

static int copy_later(void *ctx, void *dst, size_t len_bytes, struct err *err)
{
    return UV_EAGAIN;
}

/* If the block cannot be copied now, the list gets longer; nothing else changes. */
START_TEST(what_cannot_be_copied_stays_in_the_list)
{
    struct replay r = REPLAY_ZERO;
    char bytes[4] = "abc";
    const struct replay_block b = replay_block_at(bytes, sizeof(bytes));
    const struct replay_block later = {.copy = copy_later, .len_bytes = sizeof(bytes)};
    struct replay_exchange x = exchange(1, (const uint8_t *)"f", 1);

    ck_assert_int_eq(replay_snapshot(&r, &b, NULL), 0);
    replay_keep(&r, &b);
    r.cost_ns = 0; /* a snapshot without cost is always due */
    bytes[0] = 'x';
    ck_assert_int_eq(replay_commit(&r, &later, &x, 0, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 1);
    ck_assert_int_eq(replay_snapshot(&r, &later, NULL), UV_EAGAIN);
    ck_assert_uint_eq(r.n_requests, 1);
    r.max_requests = 1; /* it may not get longer than that */
    ck_assert_int_eq(replay_commit(&r, &later, &x, 0, NULL), UV_EAGAIN);
    ck_assert_uint_eq(r.n_requests, 1);
    ck_assert_mem_eq(r.snapshot, "abc", 4);
    ck_assert_int_eq(r.has_kept, 1);
    ck_assert_mem_eq(r.kept, "abc", 4);
    r.cost_ns = 0;
    ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 0);
    ck_assert_mem_eq(r.snapshot, "xbc", 4);
    ck_assert_mem_eq(r.kept, "abc", 4);
    replay_done(&r);
}
END_TEST

/* A copy that took its time covers only the requests before it. */
START_TEST(an_older_copy_leaves_the_newer_requests)
{
    struct replay r = REPLAY_ZERO;
    char bytes[4] = "abc";
    const struct replay_block b = replay_block_at(bytes, sizeof(bytes));
    const uint8_t *frame;
    size_t len;

    ck_assert_int_eq(replay_snapshot(&r, &b, NULL), 0);
    r.cost_ns = UINT64_MAX / 1000; /* none is due */
    for (uint32_t id = 1; id <= 4; id++) {
        const struct replay_exchange x =
            exchange(id, (const uint8_t *)"one2three4" + id, id);

        ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
    }
    ck_assert_int_eq(replay_snapshot_of(&r, &b, 0, NULL), 0);
    ck_assert_uint_eq(r.n_requests, 4);
    bytes[0] = 'x';
    ck_assert_int_eq(replay_snapshot_of(&r, &b, 2, NULL), 0);
    ck_assert_mem_eq(r.snapshot, "xbc", 4);
    ck_assert_uint_eq(r.n_requests, 2);
    for (size_t i = 0; i < 2; i++) {
        frame = replay_frame_at(&r, i, &len);
        ck_assert_uint_eq(replay_request_at(&r, i)->id, i + 3);
        ck_assert_uint_eq(len, i + 3);
        ck_assert_mem_eq(frame, &"one2three4"[len], len);
    }
    replay_done(&r);
}
END_TEST

START_TEST(list_is_bounded)
{
    const size_t len = REPLAY_MAX_BYTES / 4;
    struct replay r = REPLAY_ZERO;
    char block[4] = "abc";
    const struct replay_block b = replay_block_at(block, sizeof(block));
    uint8_t *frame = calloc(1, len);
    struct replay_exchange x = exchange(1, frame, len);
    size_t i;

    begin(&r, block, sizeof(block));
    for (i = 0; i < 4; i++) {
        ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
        ck_assert_uint_eq(r.n_requests, i + 1);
    }
    ck_assert_int_eq(replay_commit(&r, &b, &x, 0, NULL), 0);
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
    tcase_add_test(tc, what_cannot_be_copied_stays_in_the_list);
    tcase_add_test(tc, an_older_copy_leaves_the_newer_requests);
    tcase_add_test(tc, list_is_bounded);
    tcase_add_test(tc, number_of_requests_is_bounded);
    tcase_add_test(tc, a_number_of_requests_makes_a_snapshot_due);
    tcase_add_test(tc, digests_differ);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
