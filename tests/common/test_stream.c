/* Finds the ends of messages in a stream: whole, byte by byte, several in a row, too
 * long. */
#include "common/msg/stream.h"
#include "tests/support/test_main.h"

#include <string.h>

enum { MAX = 1 << 20 };

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

/* One object for each kind of head, and nested containers. */
static const struct {
    const uint8_t *data;
    size_t len;
} objects[] = {
    {BYTES("\x07")},
    {BYTES("\xe0")},
    {BYTES("\xc0")},
    {BYTES("\xc3")},
    {BYTES("\xca"
           "abcd")},
    {BYTES("\xcb"
           "abcdefgh")},
    {BYTES("\xcc"
           "a")},
    {BYTES("\xcf"
           "abcdefgh")},
    {BYTES("\xd1"
           "ab")},
    {BYTES("\xa3"
           "abc")},
    {BYTES("\xd9\x02"
           "ab")},
    {BYTES("\xda\x00\x02"
           "ab")},
    {BYTES("\xc6\x00\x00\x00\x01"
           "a")},
    {BYTES("\xd4\x05"
           "a")},
    {BYTES("\xc7\x02\x05"
           "ab")},
    {BYTES("\x90")},
    {BYTES("\x80")},
    {BYTES("\x92\x01\x91\xa1"
           "a")},
    {BYTES("\xdc\x00\x02\xc0\xc0")},
    {BYTES("\x82\xa1"
           "a\x01\xa1"
           "b\x93\x01\x02\x03")},
    {BYTES("\xde\x00\x01\xc0\x81\xc0\xc0")},
};

enum { N_OBJECTS = sizeof(objects) / sizeof(objects[0]) };

START_TEST(an_object_ends_where_its_last_byte_is)
{
    struct stream_scan s;
    size_t end = 0;

    stream_scan_begin(&s, MAX);
    for (size_t n = 0; n < objects[_i].len; n++)
        ck_assert_int_eq(stream_scan(&s, objects[_i].data, n, &end, NULL), 0);
    ck_assert_int_eq(stream_scan(&s, objects[_i].data, objects[_i].len, &end, NULL), 1);
    ck_assert_uint_eq(end, objects[_i].len);
}
END_TEST

START_TEST(what_comes_behind_does_not_matter)
{
    const uint8_t two[] = "\x92\x01\xa1"
                          "a\x07";
    struct stream_scan s;
    size_t end;

    stream_scan_begin(&s, MAX);
    ck_assert_int_eq(stream_scan(&s, two, 5, &end, NULL), 1);
    ck_assert_uint_eq(end, 4);
}
END_TEST

START_TEST(promises_are_bounded)
{
    static const struct {
        const uint8_t *data;
        size_t len;
        int rc;
    } cases[] = {
        {BYTES("\xdd\xff\xff\xff\xff"), ERR_LIMIT},
        {BYTES("\xdf\x00\x10\x00\x00"), ERR_LIMIT},
        {BYTES("\xdb\xff\xff\xff\xff"), ERR_LIMIT},
        {BYTES("\xc6\x00\x10\x00\x01"), ERR_LIMIT},
        {BYTES("\xc1"), ERR_FORMAT},
        {BYTES("\x91\xc1"), ERR_FORMAT},
        {BYTES("\xc6\x00\x0f\x00\x00"), 0},
    };
    struct stream_scan s;
    size_t end;

    stream_scan_begin(&s, MAX);
    ck_assert_int_eq(stream_scan(&s, cases[_i].data, cases[_i].len, &end, NULL),
                     cases[_i].rc);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("stream");
    TCase *tc = tcase_create("stream");

    tcase_add_loop_test(tc, an_object_ends_where_its_last_byte_is, 0, N_OBJECTS);
    tcase_add_test(tc, what_comes_behind_does_not_matter);
    tcase_add_loop_test(tc, promises_are_bounded, 0, 7);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
