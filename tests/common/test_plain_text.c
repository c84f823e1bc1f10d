#include "common/err/err.h"
#include "common/log/log.h"
#include "common/text/plain_text.h"
#include "tests/support/test_main.h"

#include <string.h>
#include <unistd.h>

static const struct {
    const char *text, *shown;
} rows[] = {
    {"", ""},
    {"plain \\ text", "plain \\ text"},
    {"tab\tand\nnewline", "tab\tand\nnewline"},
    {"\x1b[31mred", "\\x1b[31mred"},
    {"\r\b\a\x7f", "\\x0d\\x08\\x07\\x7f"},
    {"\xc2\x9b"
     "31m",
     "\\x9b31m"}, /* U+009B, CSI */
    {"\xc2\x80 \xc2\x9f", "\\x80 \\x9f"},
    {"\xc2\xa0", "\xc2\xa0"}, /* the first beyond C1 */
    {"\x9b"
     "31m",
     "\\x9b31m"}, /* the raw byte */
    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa3",
     "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa3"},
    {"\xc0\x9b", "\\xc0\\x9b"}, /* overlong */
    {"\xe0\x82\x9b", "\\xe0\\x82\\x9b"},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* half of a surrogate pair */
    {"\xf5\x80\x80\x80", "\\xf5\\x80\\x80\\x80"},
    {"cut \xe2\x82", "cut \\xe2\\x82"},
    {"\xff\xfe", "\\xff\\xfe"},
    /* characters that reorder or break a line, and their neighbours */
    {"\xd8\x9c \xd8\x9b", "\\xd8\\x9c \xd8\x9b"},
    {"\xe2\x80\x8d \xe2\x80\x8e \xe2\x80\x8f",
     "\xe2\x80\x8d \\xe2\\x80\\x8e \\xe2\\x80\\x8f"},
    {"\xe2\x80\xa7 \xe2\x80\xa8 \xe2\x80\xae \xe2\x80\xaf",
     "\xe2\x80\xa7 \\xe2\\x80\\xa8 \\xe2\\x80\\xae \xe2\x80\xaf"},
    {"\xe2\x81\xa5 \xe2\x81\xa6 \xe2\x81\xa9 \xe2\x81\xaa",
     "\xe2\x81\xa5 \\xe2\\x81\\xa6 \\xe2\\x81\\xa9 \xe2\x81\xaa"},
};

START_TEST(controls_are_shown_and_text_stays)
{
    char shown[256];
    size_t n = plain_text(shown, sizeof(shown), rows[_i].text, strlen(rows[_i].text));

    ck_assert_str_eq(shown, rows[_i].shown);
    ck_assert_uint_eq(n, strlen(rows[_i].shown));
}
END_TEST

START_TEST(a_name_stays_on_its_line)
{
    char longest[256];

    ck_assert_str_eq(PLAIN_NAME("a\nb\tc\x1b"), "a\\x0ab\\x09c\\x1b");
    ck_assert_str_eq(PLAIN_NAME(NULL), "");
    memset(longest, '\n', 255); /* of a folder */
    longest[255] = '\0';
    ck_assert_uint_eq(strlen(PLAIN_NAME(longest)), 4 * 255);
}
END_TEST

START_TEST(a_nul_is_a_control)
{
    char shown[32];

    ck_assert_uint_eq(plain_text(shown, sizeof(shown), "a\0b", 3), 6);
    ck_assert_str_eq(shown, "a\\x00b");
}
END_TEST

static int is_text(const char *shown, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)shown[i];

        if ((c < 0x20 && c != '\t' && c != '\n') || c == 0x7f)
            return 0;
        if (c >= 0x80 && n != 2) /* one character of two bytes */
            return 0;
    }
    return n != 2 || (unsigned char)shown[0] != 0xc2 || (unsigned char)shown[1] >= 0xa0;
}

/* Any two bytes become plain text, which a second pass does not change. */
START_TEST(all_pairs_of_bytes_become_text)
{
    char text[2], shown[16], again[64];

    for (int pair = 0; pair < 0x10000; pair++) {
        size_t n;

        text[0] = (char)(pair >> 8);
        text[1] = (char)(pair & 0xff);
        n = plain_text(shown, sizeof(shown), text, 2);
        if (n > 2 * PLAIN_TEXT_GROWTH || !is_text(shown, n) ||
            plain_text(again, sizeof(again), shown, n) != n ||
            memcmp(again, shown, n) != 0)
            ck_abort_msg("the bytes %04x became '%s'", pair, shown);
    }
}
END_TEST

START_TEST(what_does_not_fit_is_left_out_whole)
{
    char shown[8];

    ck_assert_uint_eq(plain_text(shown, 8, "abcd\x1b[", 6), 4);
    ck_assert_str_eq(shown, "abcd");
    ck_assert_uint_eq(plain_text(shown, 8, "abcde\xe2\x82\xac", 8), 5);
    ck_assert_uint_eq(plain_text(shown, 1, "a", 1), 0);
}
END_TEST

START_TEST(an_unfinished_character_is_found)
{
    ck_assert_uint_eq(plain_text_unfinished("abc", 3), 0);
    ck_assert_uint_eq(plain_text_unfinished("a\xe2", 2), 1);
    ck_assert_uint_eq(plain_text_unfinished("a\xe2\x82", 3), 2);
    ck_assert_uint_eq(plain_text_unfinished("a\xe2\x82\xac", 4), 0);
    ck_assert_uint_eq(plain_text_unfinished("\xf0\x9f\x90", 3), 3);
    ck_assert_uint_eq(plain_text_unfinished("\xf0\x9f\x90\xa3", 4), 0);
    ck_assert_uint_eq(plain_text_unfinished("\x80\x80\x80\x80", 4), 0);
    ck_assert_uint_eq(plain_text_unfinished("\xc0", 1), 0);
    ck_assert_uint_eq(plain_text_unfinished("", 0), 0);
}
END_TEST

START_TEST(errors_have_no_controls)
{
    struct err err;

    (void)err_set(&err, ERR_FORMAT, "key '%s'", "\x1b]0;x\a\xc2\x9b\x9b");
    ck_assert_str_eq(err.msg, "key '\\x1b]0;x\\x07\\x9b\\x9b'");
    (void)err_wrap(&err, "file %s", "\x1b.yaml");
    ck_assert_str_eq(err.msg, "file \\x1b.yaml: key '\\x1b]0;x\\x07\\x9b\\x9b'");
}
END_TEST

START_TEST(log_lines_have_no_controls)
{
    int fds[2];
    char line[256];
    ssize_t n;

    ck_assert_int_eq(pipe(fds), 0);
    log_init("test", LOG_LEVEL_INFO, fds[1]);
    log_warn("agent \x1b[2J says\nmuch");
    log_init("test", LOG_LEVEL_INFO, STDERR_FILENO);
    n = read(fds[0], line, sizeof(line) - 1);
    ck_assert_int_gt(n, 0);
    line[n] = '\0';
    ck_assert_ptr_nonnull(strstr(line, "]: agent \\x1b[2J says\nmuch\n"));
    (void)close(fds[0]);
    (void)close(fds[1]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("plain_text");
    TCase *tc = tcase_create("plain_text");

    tcase_add_loop_test(tc, controls_are_shown_and_text_stays, 0,
                        sizeof(rows) / sizeof(rows[0]));
    tcase_add_test(tc, a_name_stays_on_its_line);
    tcase_add_test(tc, a_nul_is_a_control);
    tcase_add_test(tc, all_pairs_of_bytes_become_text);
    tcase_add_test(tc, what_does_not_fit_is_left_out_whole);
    tcase_add_test(tc, an_unfinished_character_is_found);
    tcase_add_test(tc, errors_have_no_controls);
    tcase_add_test(tc, log_lines_have_no_controls);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
