#include "common/msg/frame.h"
#include "tests/support/test_main.h"

#include <string.h>

static struct err err;

static void feed(struct frame_reader *r, const void *data, size_t n)
{
    const uint8_t *p = data;

    while (n > 0) {
        uint8_t *room;
        size_t size;

        ck_assert_int_eq(frame_reader_room(r, &room, &size, &err), 0);
        ck_assert_uint_ge(size, 1);
        if (size > n)
            size = n;
        memcpy(room, p, size);
        frame_reader_filled(r, size);
        p += size;
        n -= size;
    }
}

static void put_length(uint8_t *p, uint32_t len)
{
    for (unsigned i = 0; i < FRAME_HEADER_BYTES; i++)
        p[i] = (uint8_t)(len >> (8 * i));
}

static void feed_frame(struct frame_reader *r, const void *data, uint32_t len)
{
    uint8_t head[FRAME_HEADER_BYTES];

    put_length(head, len);
    feed(r, head, sizeof(head));
    feed(r, data, len);
}

static void expect(struct frame_reader *r, const void *data, size_t len)
{
    const uint8_t *p = NULL;
    size_t n = 0;

    ck_assert_int_eq(frame_reader_next(r, &p, &n, &err), 1);
    ck_assert_uint_eq(n, len);
    ck_assert_mem_eq(p, data, len);
}

static void expect_nothing(struct frame_reader *r)
{
    const uint8_t *p = NULL;
    size_t n = 0;

    ck_assert_int_eq(frame_reader_next(r, &p, &n, &err), 0);
    ck_assert_ptr_null(p);
}

START_TEST(a_frame_may_come_byte_by_byte)
{
    static const uint8_t bytes[] = {3, 0, 0, 0, 'a', 'b', 'c', 2, 0, 0, 0, 'd', 'e'};
    struct frame_reader r;

    frame_reader_init(&r, 100);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        ck_assert_uint_eq(frame_reader_pending(&r), i < 7 ? i : i - 7);
        expect_nothing(&r);
        feed(&r, &bytes[i], 1);
        if (i == 6)
            expect(&r, "abc", 3);
    }
    expect(&r, "de", 2);
    expect_nothing(&r);
    ck_assert_uint_eq(frame_reader_pending(&r), 0);
    frame_reader_done(&r);
}
END_TEST

START_TEST(one_filling_may_hold_several_frames)
{
    static const uint8_t bytes[] = {1, 0,   0,   0, 'a', 2, 0, 0,
                                    0, 'b', 'c', 5, 0,   0, 0, 'd'};
    struct frame_reader r;

    frame_reader_init(&r, 100);
    feed(&r, bytes, sizeof(bytes));
    expect(&r, "a", 1);
    expect(&r, "bc", 2);
    expect_nothing(&r);
    ck_assert_uint_eq(frame_reader_pending(&r), 5);
    feed(&r, "efgh", 4);
    expect(&r, "defgh", 5);
    expect_nothing(&r);
    frame_reader_done(&r);
}
END_TEST

START_TEST(hostile_lengths_cost_nothing)
{
    static const struct {
        uint32_t len;
        int code;
    } cases[] = {{0, ERR_FORMAT}, {0xffffffff, ERR_LIMIT}, {101, ERR_LIMIT}, {100, 0}};
    uint8_t head[FRAME_HEADER_BYTES];
    const uint8_t *p;
    size_t n;
    struct frame_reader r;

    frame_reader_init(&r, 100);
    put_length(head, cases[_i].len);
    feed(&r, head, sizeof(head));
    ck_assert_int_eq(frame_reader_next(&r, &p, &n, &err), cases[_i].code);
    ck_assert_uint_le(r.cap, 64 << 10);
    frame_reader_done(&r);
}
END_TEST

START_TEST(the_buffer_grows_with_what_has_come)
{
    const uint32_t len = 5u << 20;
    uint8_t *data = malloc(len);
    uint8_t head[FRAME_HEADER_BYTES];
    struct frame_reader r;

    for (uint32_t i = 0; i < len; i++)
        data[i] = (uint8_t)(i * 31 + (i >> 8));
    frame_reader_init(&r, FRAME_MAX_BYTES);
    put_length(head, len);
    feed(&r, head, sizeof(head));
    for (uint32_t i = 0; i < len; i += 1u << 16) {
        feed(&r, data + i, 1u << 16);
        ck_assert_uint_le(r.cap, r.len + (1u << 20) + (64u << 10));
    }
    expect(&r, data, len);
    frame_reader_done(&r);
    free(data);
}
END_TEST

START_TEST(memory_is_used_again)
{
    static uint8_t data[3000];
    struct frame_reader r;

    frame_reader_init(&r, FRAME_MAX_BYTES);
    for (int i = 0; i < 1000; i++) {
        memset(data, i, sizeof(data));
        feed_frame(&r, data, sizeof(data));
        feed_frame(&r, data, 7);
        expect(&r, data, sizeof(data));
        expect(&r, data, 7);
        expect_nothing(&r);
    }
    ck_assert_uint_le(r.cap, 64 << 10);
    frame_reader_done(&r);
    frame_reader_done(&r);
}
END_TEST

START_TEST(what_long_messages_took_is_given_back)
{
    const uint32_t len = 1u << 20;
    uint8_t *data = calloc(len, 1);
    struct frame_reader r;

    frame_reader_init(&r, FRAME_MAX_BYTES);
    feed_frame(&r, data, len);
    expect(&r, data, len);
    for (unsigned i = 0; i < 6 * FRAME_SHRINK_AFTER; i++) {
        feed_frame(&r, data, 100);
        expect(&r, data, 100);
        if (i + 1 < FRAME_SHRINK_AFTER)
            ck_assert_uint_ge(r.cap, len);
    }
    ck_assert_uint_le(r.cap, 64 << 10);
    feed_frame(&r, data, len);
    expect(&r, data, len);
    frame_reader_done(&r);
    free(data);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("frame");
    TCase *tc = tcase_create("frame");

    tcase_add_test(tc, a_frame_may_come_byte_by_byte);
    tcase_add_test(tc, one_filling_may_hold_several_frames);
    tcase_add_loop_test(tc, hostile_lengths_cost_nothing, 0, 4);
    tcase_add_test(tc, the_buffer_grows_with_what_has_come);
    tcase_add_test(tc, memory_is_used_again);
    tcase_add_test(tc, what_long_messages_took_is_given_back);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
