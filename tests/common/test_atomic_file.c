#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char dir[] = "/tmp/brood-atomic-XXXXXX";

static char *in_dir(const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static size_t count_files(void)
{
    DIR *d = opendir(dir);
    size_t n = 0;

    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

static void assert_content(const char *path, const char *want)
{
    char got[64];
    FILE *f = fopen(path, "rb");
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(got, 1, sizeof(got), f);
    (void)fclose(f);
    ck_assert_uint_eq(n, strlen(want));
    ck_assert_mem_eq(got, want, n);
}

static void set_up(void)
{
    (void)strcpy(dir, "/tmp/brood-atomic-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    char *command = xasprintf("rm -r '%s'", dir);

    ck_assert_int_eq(system(command), 0);
    free(command);
}

START_TEST(a_file_is_there_only_after_commit)
{
    char *path = in_dir("a");
    struct atomic_file *f;
    struct err err;

    ck_assert_int_eq(atomic_file_write(path, "old", 3, 1, &err), 0);
    ck_assert_int_eq(atomic_file_new(&f, path, 1, &err), 0);
    ck_assert_int_eq(atomic_file_append(f, "ne", 2, &err), 0);
    ck_assert_int_eq(atomic_file_append(f, "w", 1, &err), 0);
    assert_content(path, "old");
    ck_assert_uint_eq(count_files(), 2);
    ck_assert_int_eq(atomic_file_commit(f, &err), 0);
    atomic_file_free(f);
    assert_content(path, "new");
    ck_assert_uint_eq(count_files(), 1);
    free(path);
}
END_TEST

START_TEST(what_is_not_committed_leaves_no_trace)
{
    char *path = in_dir("a");
    struct atomic_file *f, *g;

    ck_assert_int_eq(atomic_file_new(&f, path, 0, NULL), 0);
    ck_assert_int_eq(atomic_file_new(&g, path, 0, NULL), 0);
    ck_assert_uint_eq(count_files(), 2);
    atomic_file_free(f);
    atomic_file_free(g);
    atomic_file_free(NULL);
    ck_assert_uint_eq(count_files(), 0);
    free(path);
}
END_TEST

START_TEST(leftovers_of_one_file_are_removed)
{
    static const char *const names[] = {"a.tempstate1000", "a.tempstate77123",
                                        "b.tempstate1000", "a.temp", "aa.tempstate1000"};
    char *path = in_dir("a");

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *left = in_dir(names[i]);

        ck_assert_int_eq(atomic_file_write(left, "x", 1, 0, NULL), 0);
        free(left);
    }
    ck_assert_int_eq(atomic_file_write(path, "old", 3, 0, NULL), 0);
    atomic_file_tidy(path);
    ck_assert_uint_eq(count_files(), 4);
    assert_content(path, "old");
    free(path);
    path = in_dir("no/such");
    atomic_file_tidy(path);
    atomic_file_tidy_folder(path, NULL);
    free(path);
    path = in_dir("");
    atomic_file_tidy_folder(path, "aa"); /* "a" and "a.temp" are no temporary files */
    ck_assert_uint_eq(count_files(), 3);
    atomic_file_tidy_folder(path, NULL);
    ck_assert_uint_eq(count_files(), 2);
    free(path);
}
END_TEST

START_TEST(errors_name_the_step)
{
    char *missing = in_dir("no/such");
    char *taken = in_dir("taken");
    struct err err;

    ck_assert_int_eq(atomic_file_write(missing, "x", 1, 0, &err), -ENOENT);
    ck_assert_ptr_nonnull(strstr(err.msg, "no/such: create: No such file"));
    ck_assert_int_eq(mkdir(taken, 0755), 0);
    ck_assert_int_eq(atomic_file_write(taken, "x", 1, 0, &err), -EISDIR);
    ck_assert_ptr_nonnull(strstr(err.msg, "taken: rename: "));
    ck_assert_uint_eq(count_files(), 1);
    free(missing);
    free(taken);
}
END_TEST

/* A limit on the file size simulates a full disk. */
START_TEST(a_failed_write_keeps_the_old_file)
{
    static char big[100000];
    struct rlimit limit = {1000, 1000};
    char *path = in_dir("a");
    struct atomic_file *f = NULL;
    struct err err;

    ck_assert_int_eq(atomic_file_write(path, "old", 3, 0, &err), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(atomic_file_write(path, big, sizeof(big), 0, &err), -EFBIG);
    ck_assert_ptr_nonnull(strstr(err.msg, "a: write: File too large"));
    ck_assert_int_eq(atomic_file_new(&f, path, 0, &err), 0);
    (void)fwrite(big, 1, sizeof(big), atomic_file_stream(f));
    ck_assert_int_eq(atomic_file_commit(f, &err), -EFBIG);
    atomic_file_free(f);
    ck_assert_uint_eq(count_files(), 1);
    assert_content(path, "old");
    free(path);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("atomic_file");
    TCase *tc = tcase_create("atomic_file");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_file_is_there_only_after_commit);
    tcase_add_test(tc, what_is_not_committed_leaves_no_trace);
    tcase_add_test(tc, leftovers_of_one_file_are_removed);
    tcase_add_test(tc, errors_name_the_step);
    tcase_add_test(tc, a_failed_write_keeps_the_old_file);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
