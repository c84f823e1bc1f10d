#include "common/ckpt/protowire.h"
#include "tests/support/test_main.h"

#include <string.h>

/* The first two messages are from protobuf's own description of the encoding. */
START_TEST(fields_are_written_as_protobuf_has_them)
{
    struct wbuf b = {0};
    size_t m;

    pw_put_varint(&b, 1, 150);
    pw_put_text(&b, 2, "testing");
    ck_assert_uint_eq(b.len, 12);
    ck_assert_mem_eq(b.data, "\x08\x96\x01\x12\x07testing", b.len);
    wbuf_clear(&b);
    m = pw_begin(&b, 3);
    pw_put_varint(&b, 1, 150);
    pw_end(&b, m);
    ck_assert_uint_eq(b.len, 5);
    ck_assert_mem_eq(b.data, "\x1a\x03\x08\x96\x01", b.len);
    wbuf_clear(&b);
    pw_put_fixed32(&b, 6, 0xc61a9652u);
    pw_put_float(&b, 2, 1.5f);
    ck_assert_uint_eq(b.len, 10);
    ck_assert_mem_eq(b.data, "\x35\x52\x96\x1a\xc6\x15\x00\x00\xc0\x3f", b.len);
    wbuf_clear(&b);
    pw_put_varint_nonzero(&b, 1, 0);
    ck_assert_uint_eq(b.len, 0);
    pw_put_varint(&b, 1, (uint64_t)-1);
    ck_assert_uint_eq(b.len, 11);
    wbuf_done(&b);
}
END_TEST

START_TEST(messages_nest_whatever_their_length)
{
    static char text[20000];

    memset(text, 'x', sizeof(text) - 1);
    for (size_t n = 0; n < 17000; n = n * 2 + 1) {
        struct wbuf b = {0};
        size_t outer = pw_begin(&b, 1), inner = pw_begin(&b, 2);
        struct cursor c;
        struct pw_field f;

        pw_put_bytes(&b, 3, text, n);
        pw_end(&b, inner);
        pw_end(&b, outer);
        c = cursor_of(b.data, b.len);
        for (uint32_t number = 1; number <= 3; number++) {
            ck_assert(pw_next(&c, &f));
            ck_assert_uint_eq(f.number, number);
            ck_assert_int_eq(f.type, PW_LEN);
            ck_assert(cursor_left(&c) == 0);
            c = f.bytes;
        }
        ck_assert_uint_eq(cursor_left(&c), n);
        wbuf_done(&b);
    }
}
END_TEST

START_TEST(each_kind_of_field_is_read)
{
    struct wbuf b = {0};
    struct cursor c;
    struct pw_field f;

    pw_put_varint(&b, 1, UINT64_MAX);
    pw_put_fixed64(&b, 536870911, 7);
    pw_put_fixed32(&b, 3, 8);
    pw_put_bytes(&b, 4, "", 0);
    c = cursor_of(b.data, b.len);
    ck_assert(pw_next(&c, &f) && f.type == PW_VARINT && f.value == UINT64_MAX);
    ck_assert(pw_next(&c, &f) && f.type == PW_FIXED64 && f.value == 7);
    ck_assert_uint_eq(f.number, 536870911);
    ck_assert(pw_next(&c, &f) && f.type == PW_FIXED32 && f.value == 8);
    ck_assert(pw_next(&c, &f) && f.type == PW_LEN && cursor_left(&f.bytes) == 0);
    ck_assert(!pw_next(&c, &f) && !c.failed);
    for (size_t cut = 1; cut < b.len; cut++) {
        size_t n = 0;

        c = cursor_of(b.data, cut);
        while (pw_next(&c, &f))
            n++;
        ck_assert_uint_le(n, 3);
        /* a cut between two fields leaves a valid, shorter message */
        ck_assert_int_eq(c.failed, cut != 11 && cut != 24 && cut != 29);
    }
    wbuf_done(&b);
}
END_TEST

START_TEST(malformed_fields_fail)
{
    static const struct {
        const char *bytes;
        size_t len;
    } CASES[] = {
        {"\x00\x01", 2},     /* field 0 */
        {"\x0b\x0c", 2},     /* a group */
        {"\x0e\x00", 2},     /* wire type 6 */
        {"\x12\x05xxxx", 6}, /* length past the end */
        {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
        {"\x80\x80\x80\x80\x80\x01", 6}, /* tag past 32 bits */
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct cursor c = cursor_of(CASES[i].bytes, CASES[i].len);
        struct pw_field f;

        ck_assert_msg(!pw_next(&c, &f) && c.failed, "case %zu", i);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("protowire");
    TCase *tc = tcase_create("protowire");

    tcase_add_test(tc, fields_are_written_as_protobuf_has_them);
    tcase_add_test(tc, messages_nest_whatever_their_length);
    tcase_add_test(tc, each_kind_of_field_is_read);
    tcase_add_test(tc, malformed_fields_fail);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
