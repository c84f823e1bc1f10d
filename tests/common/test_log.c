#include "common/log/log.h"
#include "tests/support/test_main.h"

#include <string.h>

static size_t read_all(int fd, char *buf, size_t size)
{
    ssize_t n = read(fd, buf, size - 1);

    ck_assert_int_ge(n, 0);
    buf[n] = '\0';
    return (size_t)n;
}

START_TEST(a_line_has_level_role_and_text_and_levels_filter)
{
    int fds[2];
    char buf[4096];

    ck_assert_int_eq(pipe(fds), 0);
    log_init("tester", LOG_LEVEL_INFO, fds[1]);
    log_debug("not %s", "this");
    log_warn("rows: %d", 3);
    (void)read_all(fds[0], buf, sizeof(buf));
    ck_assert_ptr_nonnull(strstr(buf, "Z warning tester["));
    ck_assert_ptr_nonnull(strstr(buf, "]: rows: 3\n"));
    ck_assert_ptr_null(strstr(buf, "not this"));
    (void)close(fds[0]);
    (void)close(fds[1]);
}
END_TEST

START_TEST(a_long_line_is_cut_but_ends)
{
    int fds[2];
    char buf[8192], text[4096];
    size_t n;

    ck_assert_int_eq(pipe(fds), 0);
    log_init("tester", LOG_LEVEL_INFO, fds[1]);
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_info("%s", text);
    n = read_all(fds[0], buf, sizeof(buf));
    ck_assert_uint_lt(n, 2100);
    ck_assert_int_eq(buf[n - 1], '\n');
    (void)close(fds[0]);
    (void)close(fds[1]);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("log");
    TCase *tc = tcase_create("log");

    tcase_add_test(tc, a_line_has_level_role_and_text_and_levels_filter);
    tcase_add_test(tc, a_long_line_is_cut_but_ends);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
