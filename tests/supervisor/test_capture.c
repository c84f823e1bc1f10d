#include "supervisor/proc/capture.h"
#include "tests/support/test_main.h"

#include <string.h>
#include <sys/stat.h>

static struct capture c;

static void append(const char *text)
{
    capture_append(&c, text, strlen(text));
}

static void assert_last(size_t size, const char *expected)
{
    char got[512];

    capture_last_lines(&c, got, size);
    ck_assert_str_eq(got, expected);
}

static void setup(void)
{
    ck_assert_int_eq(capture_init(&c, NULL, NULL), 0);
}

static void teardown(void)
{
    capture_done(&c);
}

START_TEST(last_lines)
{
    assert_last(100, "");
    append("one\ntwo\nthr");
    append("ee\n\n");
    assert_last(100, "one | two | three");
    assert_last(12, "two | three");
    assert_last(11, "three");
    assert_last(6, "three");
    assert_last(5, "hree");
    append("\r\nfour\r\nfi\rve\r\n");
    assert_last(16, "four | fi\\x0dve");
}
END_TEST

START_TEST(controls_are_shown)
{
    append("a\x01\xff"
           "b\tcaf\xc3\xa9\r\n");
    assert_last(100, "a\\x01\\xffb caf\xc3\xa9");
    append("\x1b[2J\xc2\x9b\n");
    assert_last(17, "\\x1b[2J\\x9b");
    assert_last(5, "\\x9b"); /* cut at the beginning */
}
END_TEST

START_TEST(ring_wraps)
{
    char line[64];
    int i;

    for (i = 0; i < 1000; i++) {
        (void)snprintf(line, sizeof(line), "line %d of many\n", i);
        append(line);
    }
    assert_last(40, "line 998 of many | line 999 of many");
}
END_TEST

START_TEST(one_endless_line)
{
    char block[1000], got[512];
    int i;

    memset(block, 'x', sizeof(block));
    for (i = 0; i < 20; i++)
        capture_append(&c, block, sizeof(block));
    capture_last_lines(&c, got, sizeof(got));
    ck_assert_uint_eq(strlen(got), sizeof(got) - 1);
    memset(block, '\n', sizeof(block));
    for (i = 0; i < 20; i++)
        capture_append(&c, block, sizeof(block));
    assert_last(100, "");
}
END_TEST

START_TEST(file_is_bounded)
{
    static char chunk[1 << 20];
    char path[] = "/tmp/test_capture.XXXXXX";
    struct stat st, later;
    int fd = mkstemp(path), i;

    ck_assert_int_ge(fd, 0);
    memset(chunk, 'x', sizeof(chunk));
    ck_assert_int_eq(capture_init(&c, path, NULL), 0);
    for (i = 0; i < 20; i++)
        capture_append(&c, chunk, sizeof(chunk) - 7);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_gt(st.st_size, (off_t)CAPTURE_FILE_MAX_BYTES);
    ck_assert_int_lt(st.st_size, (off_t)CAPTURE_FILE_MAX_BYTES + 100);
    capture_done(&c);
    /* a later process of the same name finds the file full */
    ck_assert_int_eq(capture_init(&c, path, NULL), 0);
    append("more");
    ck_assert_int_eq(fstat(fd, &later), 0);
    ck_assert_int_eq(later.st_size, st.st_size);
    capture_done(&c);
    ck_assert_int_eq(capture_init(&c, NULL, NULL), 0);
    (void)close(fd);
    (void)unlink(path);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("capture");
    TCase *tc = tcase_create("capture");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, last_lines);
    tcase_add_test(tc, controls_are_shown);
    tcase_add_test(tc, ring_wraps);
    tcase_add_test(tc, one_endless_line);
    tcase_add_test(tc, file_is_bounded);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
