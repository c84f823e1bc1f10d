/* The checks that `brood web` makes before it handles a request, without a socket. */
#include "supervisor/facts/curves.h"
#include "supervisor/facts/growing_file.h"
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

static void write_csv(const char *dir, const char *text)
{
    char path[512];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/metrics", dir);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/metrics/progress.csv", dir);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

START_TEST(test_curves_are_numbers_as_a_chart_shows_them)
{
    static const char *const columns[] = {"b", "a"};
    /* numbers for strtod, of a damaged file: one of them, and the page reads nothing */
    static const char *const no_json[] = {"-.5",  "1.",   "007", "-01.5",
                                          "1.e5", "0.5e", "+1",  "-"};
    struct temp_dir dir;
    struct json j = {0};
    const char *text;

    temp_dir_init(&dir);
    write_csv(dir.path,
              "env_steps,a,b\n1,nan,2\n2,inf\n3,0x10,-1e-3\n4,,\"\n5,1e999,.5\nhalf");
    json_begin(&j);
    ck_assert_int_eq(curves_put(dir.path, columns, 2, "", &j, NULL), 0);
    text = json_line(&j, NULL);
    ck_assert_msg(strstr(text, "\"steps\": [1,2,3,4,5]") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "[2,null,-1e-3,null,null], [null,null,null,null,null]") !=
                      NULL,
                  "%s", text);
    for (size_t i = 0; i < sizeof(no_json) / sizeof(no_json[0]); i++) {
        char rows[64];

        (void)snprintf(rows, sizeof(rows), "env_steps,a,b\n1,2,%s\n", no_json[i]);
        write_csv(dir.path, rows);
        json_begin(&j);
        ck_assert_int_eq(curves_put(dir.path, columns, 2, "", &j, NULL), 0);
        text = json_line(&j, NULL);
        ck_assert_msg(strstr(text, "\"columns\": [[null], [2]]") != NULL, "%s", text);
    }
    json_begin(&j);
    write_csv(dir.path, "env_steps,a,b\n"
                        "12345678901234567,0.12345678901234567,-1234567.8901234567\n"
                        "2,-0.000012345678901234567,1.2345678901234567e-300\n");
    ck_assert_int_eq(curves_put(dir.path, columns, 2, "", &j, NULL), 0);
    text = json_line(&j, NULL);
    ck_assert_msg(strstr(text, "\"steps\": [12345678901234567,2]") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "[[-1234568,1.234568e-300], [0.1234568,-1.234568e-05]]") !=
                      NULL,
                  "%s", text);
    json_begin(&j);
    write_csv(dir.path, "env_steps,rollout/team_return/x\n1,\n2,-5\n3,\n4,-4\n");
    curves_put_spark(dir.path, 48, &j);
    text = json_line(&j, NULL);
    ck_assert_msg(strcmp(text, "[-5,-4]\n") == 0, "%s", text);
    json_done(&j);
    temp_dir_done(&dir);
}
END_TEST

static void write_log(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

/* What a reader gets who has read the file up to an offset. */
static void get_position(const struct growing_file *f, size_t offset, char ret[64])
{
    struct json j = {0};
    size_t len;

    json_object(&j);
    growing_file_put(f, offset, GROWING_ON, &j);
    json_close(&j);
    ck_assert_int_eq(sscanf(json_line(&j, &len), "{\"next\": \"%63[^\"]", ret), 1);
    json_done(&j);
}

START_TEST(test_a_growing_file_is_read_on_from_a_position)
{
    static const char *const others[] = {"1:1:0", "x", "::", "-1:-1:-1",
                                         "99999999999999999999:5:0"};
    struct temp_dir dir;
    struct growing_file f;
    char path[512], other[512], at[64], text[16] = "";
    size_t offset = 77;

    temp_dir_init(&dir);
    (void)snprintf(path, sizeof(path), "%s/log", dir.path);
    (void)snprintf(other, sizeof(other), "%s/other", dir.path);
    ck_assert_int_eq(growing_file_open(&f, path, NULL), 0); /* the file does not exist */
    ck_assert_int_eq(f.fd, -1);
    ck_assert_int_eq(growing_file_find(&f, "5:1:0", 0, &offset), GROWING_FIRST);
    ck_assert_int_eq(growing_file_read(&f, 0, text, sizeof(text)), 0);
    growing_file_close(&f);
    write_log(path, "one\ntwo\n");
    ck_assert_int_eq(growing_file_open(&f, path, NULL), 0);
    ck_assert_int_eq(growing_file_find(&f, "", 0, &offset), GROWING_FIRST);
    ck_assert_int_eq(growing_file_find(&f, NULL, 0, &offset), GROWING_FIRST);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ck_assert_int_eq(growing_file_find(&f, others[i], 0, &offset), GROWING_AGAIN);
    get_position(&f, 4, at);
    ck_assert_int_eq(growing_file_find(&f, at, 5, &offset), GROWING_AGAIN);
    ck_assert_uint_eq(offset, 77);
    ck_assert_int_eq(growing_file_find(&f, at, 4, &offset), GROWING_ON);
    ck_assert_uint_eq(offset, 4);
    ck_assert_int_eq(growing_file_read(&f, 4, text, sizeof(text)), 4);
    ck_assert_int_eq(memcmp(text, "two\n", 4), 0);
    ck_assert_int_eq(growing_file_read(&f, 4, text, 2), 2);
    ck_assert_int_eq(growing_file_read(&f, 8, text, 2), 0);
    growing_file_close(&f);
    write_log(other, "one\ntwo\nthree\n"); /* replaced; the offset alone would be valid */
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert_int_eq(growing_file_open(&f, path, NULL), 0);
    ck_assert_int_eq(growing_file_find(&f, at, 0, &offset), GROWING_AGAIN);
    get_position(&f, 14, at);
    ck_assert_int_eq(growing_file_find(&f, at, 0, &offset), GROWING_ON);
    growing_file_close(&f);
    write_log(path, "one\n"); /* cut off */
    ck_assert_int_eq(growing_file_open(&f, path, NULL), 0);
    ck_assert_int_eq(growing_file_find(&f, at, 0, &offset), GROWING_AGAIN);
    growing_file_close(&f);
    write_log(path, "one\n2\n3\n4\n5\nsix\n"); /* and it has grown since */
    ck_assert_int_eq(growing_file_open(&f, path, NULL), 0);
    ck_assert_int_eq(growing_file_find(&f, at, 0, &offset), GROWING_AGAIN);
    get_position(&f, 14, at);
    ck_assert_int_eq(growing_file_find(&f, at, 0, &offset), GROWING_ON);
    growing_file_close(&f);
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
    tcase_add_test(t, test_curves_are_numbers_as_a_chart_shows_them);
    tcase_add_test(t, test_a_growing_file_is_read_on_from_a_position);
    suite_add_tcase(s, t);
    return s;
}
TEST_MAIN(make_suite)
