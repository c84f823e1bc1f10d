#include "common/wire/crc32c.h"
#include "common/wire/cursor.h"
#include "tests/support/test_main.h"

#include <stdint.h>
#include <string.h>

/* RFC 3720, appendix B.4, and the customary check value. */
START_TEST(crc32c_gives_the_published_values)
{
    unsigned char bytes[32];

    ck_assert_uint_eq(crc32c("123456789", 9), 0xe3069283u);
    memset(bytes, 0, sizeof(bytes));
    ck_assert_uint_eq(crc32c(bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, sizeof(bytes));
    ck_assert_uint_eq(crc32c(bytes, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    ck_assert_uint_eq(crc32c(bytes, 32), 0x46dd794eu);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    ck_assert_uint_eq(crc32c(bytes, 32), 0x113fdb5cu);
    ck_assert_uint_eq(crc32c(NULL, 0), 0);
}
END_TEST

START_TEST(crc32c_can_be_made_in_parts)
{
    unsigned char bytes[300];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    for (size_t cut = 0; cut <= sizeof(bytes); cut++)
        ck_assert_uint_eq(
            crc32c_extend(crc32c(bytes, cut), bytes + cut, sizeof(bytes) - cut),
            crc32c(bytes, sizeof(bytes)));
}
END_TEST

START_TEST(mask_is_tensorflows)
{
    ck_assert_uint_eq(crc32c_mask(0), 0xa282ead8u);
    ck_assert_uint_eq(crc32c_mask(crc32c("123456789", 9)), 0xc78ab0e5u);
    for (uint32_t v = 1; v != 0; v <<= 1)
        ck_assert_uint_eq(crc32c_unmask(crc32c_mask(v)), v);
}
END_TEST

START_TEST(what_is_written_is_read)
{
    static const uint64_t VALUES[] = {0,          1,          127,        128,
                                      16383,      16384,      UINT32_MAX, 1ull << 32,
                                      1ull << 62, 1ull << 63, UINT64_MAX};
    struct wbuf b = {0};
    struct cursor c;

    wbuf_u8(&b, 0xab);
    wbuf_u32(&b, 0x01020304);
    wbuf_u64(&b, 0x1112131415161718u);
    ck_assert_mem_eq(b.data, "\xab\x04\x03\x02\x01\x18\x17\x16\x15\x14\x13\x12\x11", 13);
    for (size_t i = 0; i < sizeof(VALUES) / sizeof(VALUES[0]); i++)
        wbuf_varint(&b, VALUES[i]);
    wbuf_bytes(&b, "end", 3);
    c = cursor_of(b.data, b.len);
    ck_assert_uint_eq(cursor_u8(&c), 0xab);
    ck_assert_uint_eq(cursor_u32(&c), 0x01020304);
    ck_assert_uint_eq(cursor_u64(&c), 0x1112131415161718u);
    for (size_t i = 0; i < sizeof(VALUES) / sizeof(VALUES[0]); i++)
        ck_assert_uint_eq(cursor_varint64(&c), VALUES[i]);
    ck_assert_mem_eq(cursor_bytes(&c, 3), "end", 3);
    ck_assert(!c.failed && cursor_left(&c) == 0);
    wbuf_done(&b);
    ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(reading_past_the_end_fails_for_good)
{
    struct cursor c = cursor_of("\x05\x06\x07", 3);

    ck_assert_uint_eq(cursor_u32(&c), 0);
    ck_assert(c.failed);
    ck_assert_uint_eq(cursor_u8(&c), 0);
    ck_assert_ptr_null(cursor_bytes(&c, 0));
    c = cursor_of(NULL, 0);
    ck_assert_uint_eq(cursor_left(&c), 0);
    ck_assert_uint_eq(cursor_u64(&c), 0);
    ck_assert(c.failed);
}
END_TEST

START_TEST(bad_varints_fail)
{
    static const struct {
        const char *bytes;
        size_t len;
        int bits;
    } CASES[] = {
        {"\x80", 1, 64},                                          /* cut */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 64},     /* 65 bits */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11, 64}, /* 11 bytes */
        {"\xff\xff\xff\xff\x10", 5, 32},                          /* 33 bits */
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct cursor c = cursor_of(CASES[i].bytes, CASES[i].len);
        uint64_t v = CASES[i].bits == 64 ? cursor_varint64(&c) : cursor_varint32(&c);

        ck_assert_uint_eq(v, 0);
        ck_assert_msg(c.failed, "case %zu", i);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("wire");
    TCase *tc = tcase_create("wire");

    tcase_add_test(tc, crc32c_gives_the_published_values);
    tcase_add_test(tc, crc32c_can_be_made_in_parts);
    tcase_add_test(tc, mask_is_tensorflows);
    tcase_add_test(tc, what_is_written_is_read);
    tcase_add_test(tc, reading_past_the_end_fails_for_good);
    tcase_add_test(tc, bad_varints_fail);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
