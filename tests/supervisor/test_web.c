/* The checks that `brood web` makes before it handles a request, without a socket. */
#include "supervisor/web/folders.h"
#include "supervisor/web/guard.h"
#include "supervisor/web/request.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <string.h>
#include <sys/stat.h>

START_TEST(test_token)
{
    struct guard a, b;
    char other[GUARD_TOKEN_BYTES];

    ck_assert_int_eq(guard_init(&a, NULL), 0);
    ck_assert_int_eq(guard_init(&b, NULL), 0);
    ck_assert_uint_eq(strlen(a.token), 64);
    ck_assert_str_ne(a.token, b.token);
    ck_assert(guard_token(&a, a.token));
    ck_assert(!guard_token(&a, NULL) && !guard_token(&a, "") &&
              !guard_token(&a, b.token));
    for (size_t i = 0; i < strlen(a.token); i++) { /* every digit counts */
        (void)memcpy(other, a.token, sizeof(other));
        other[i] ^= 1;
        ck_assert(!guard_token(&a, other));
        other[i] = '\0';
        ck_assert(!guard_token(&a, other));
    }
}
END_TEST

START_TEST(test_hosts_and_origins)
{
    static const char *const wrong[] = {"",
                                        "127.0.0.1",
                                        "127.0.0.1:812",
                                        "127.0.0.1:81234",
                                        "evil.example:8123",
                                        "127.0.0.1:8123.evil.example",
                                        "localhost",
                                        "LOCALHOST:8123",
                                        "[::1]:8123"};
    struct guard g;

    ck_assert_int_eq(guard_init(&g, NULL), 0);
    ck_assert(!guard_host(&g, "")); /* no port is set yet */
    guard_set_port(&g, 8123);
    ck_assert(guard_host(&g, "127.0.0.1:8123") && guard_host(&g, "localhost:8123"));
    ck_assert(!guard_host(&g, "127.0.0.1") && !guard_host(&g, "localhost"));
    guard_set_port(&g, 80); /* a port that browsers leave out */
    ck_assert(guard_host(&g, "127.0.0.1") && guard_host(&g, "localhost:80"));
    ck_assert(guard_origin(&g, "http://localhost", 1) && !guard_host(&g, ""));
    guard_set_port(&g, 8123);
    ck_assert(!guard_host(&g, NULL));
    ck_assert(guard_origin(&g, "http://127.0.0.1:8123", 1));
    ck_assert(guard_origin(&g, NULL, 0) && !guard_origin(&g, NULL, 1));
    ck_assert(!guard_origin(&g, "null", 0) && !guard_origin(&g, "", 0));
    ck_assert(!guard_origin(&g, "https://127.0.0.1:8123", 0));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char origin[80];

        (void)snprintf(origin, sizeof(origin), "http://%s", wrong[i]);
        ck_assert_msg(!guard_host(&g, wrong[i]), "%s", wrong[i]);
        ck_assert_msg(!guard_origin(&g, origin, 0), "%s", origin);
    }
}
END_TEST

START_TEST(test_requests)
{
    static const char *const wrong[] = {"",
                                        "7",
                                        "x list",
                                        "0 list ",
                                        "-1 list ",
                                        "4294967296 list ",
                                        "1 list a",
                                        "1 list =b",
                                        "1 list a=%4",
                                        "1 list a=%zz",
                                        "1 list a=%00"};
    char text[] = "7 set run=a%2Fb&change=k%3Dv+w&change=x%26y&at=12&empty=";
    struct request r;
    const char *all[1];
    uint64_t at = 0;

    ck_assert_int_eq(request_parse(&r, text, strlen(text), NULL), 0);
    ck_assert_uint_eq(r.id, 7);
    ck_assert_str_eq(r.method, "set");
    ck_assert_uint_eq(r.n, 5);
    ck_assert_str_eq(request_get(&r, "run"), "a/b");
    ck_assert_str_eq(request_get(&r, "empty"), "");
    ck_assert_ptr_null(request_get(&r, "nothing"));
    ck_assert_uint_eq(request_all(&r, "change", all, 1), 2);
    ck_assert_str_eq(all[0], "k=v w");
    ck_assert(request_u64(&r, "at", &at) && at == 12);
    ck_assert(!request_u64(&r, "run", &at) && !request_u64(&r, "empty", &at));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char copy[64];

        (void)snprintf(copy, sizeof(copy), "%s", wrong[i]);
        ck_assert_msg(request_parse(&r, copy, strlen(copy), NULL) < 0, "%s", wrong[i]);
    }
}
END_TEST

START_TEST(test_folders)
{
    enum { MOST = 3 };
    static const struct {
        const char *path[MOST], *label[MOST];
        int rc;
    } cases[] = {
        {{"a"}, {""}, 0},
        {{"a", "b"}, {"a", "b"}, 0},
        {{"a/runs", "b/runs"}, {"a", "b"}, 0},
        {{"a/runs", "a/old", "b/runs"}, {"a/runs", "a/old", "b/runs"}, 0},
        {{"a/runs", "b/runs", "gone/runs/"}, {"a", "b", "gone"}, 0},
        {{"a", "a/runs"}, {"a", "runs"}, 0},
        {{"a", "b", "a/../a/"}, {NULL}, ERR_ARG},
        {{"a", "a/runs/one"}, {NULL}, ERR_ARG}, /* it is a run */
        {{"gone", "gone-too"}, {NULL}, ERR_NOT_FOUND},
    };
    static const char *const made[] = {"a",     "b",      "a/runs",
                                       "a/old", "b/runs", "a/runs/one"};
    struct temp_dir dir;

    temp_dir_init(&dir);
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++)
        ck_assert_int_eq(mkdir(temp_dir_file(&dir, made[i]), 0700), 0);
    temp_dir_write(temp_dir_file(&dir, "a/runs/one/config.yaml"), "", 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char paths[MOST][sizeof(dir.file)], *path[MOST];
        struct folders f;
        size_t n = 0;

        for (; n < MOST && cases[i].path[n] != NULL; n++) {
            path[n] = paths[n];
            (void)strcpy(paths[n], temp_dir_file(&dir, cases[i].path[n]));
        }
        ck_assert_int_eq(folders_open(&f, path, n, NULL), cases[i].rc);
        for (size_t k = 0; k < n && cases[i].rc == 0; k++) {
            ck_assert_str_eq(f.folder[k].label, cases[i].label[k]);
            ck_assert_str_eq(f.folder[k].path, paths[k]);
        }
        folders_close(&f);
    }
    temp_dir_done(&dir);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("web");
    TCase *t = tcase_create("web");

    tcase_add_test(t, test_token);
    tcase_add_test(t, test_hosts_and_origins);
    tcase_add_test(t, test_requests);
    tcase_add_test(t, test_folders);
    suite_add_tcase(s, t);
    return s;
}
TEST_MAIN(make_suite)
