#include "common/io/tree.h"

#include "tests/support/let_fail.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct temp_dir place;

static const char *in(const char *name)
{
    (void)snprintf(place.file, sizeof(place.file), "%s/%s", place.path, name);
    return place.file;
}

static void put(const char *name)
{
    FILE *f = fopen(in(name), "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(a_folder_whose_entries_cannot_be_read_is_not_synced)
{
    struct err err = {0};
    int is_lost = 1, status;
    pid_t child;

    temp_dir_init(&place);
    put("file");
    ck_assert_int_eq(tree_sync_all(place.path, &is_lost, &err), 0);
    child = fork(); /* only there the call fails from now on */
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        let_fail(SYS_getdents64, EIO);
        _exit(tree_sync_all(place.path, &is_lost, &err) == -EIO && !is_lost &&
                      tree_remove(place.path, &err) == -EIO
                  ? 0
                  : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(tree_remove(place.path, &err), 0);
}
END_TEST

START_TEST(what_has_no_data_needs_no_sync)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct err err = {0};
    int is_lost = 0;

    temp_dir_init(&place);
    put("file");
    ck_assert_int_ge(fd, 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", place.path);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(mkfifo(in("fifo"), 0600), 0);
    ck_assert_int_eq(symlink("nowhere", in("link")), 0);
    ck_assert_msg(tree_sync_all(place.path, &is_lost, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(is_lost, 0);
    ck_assert_int_eq(tree_remove(place.path, &err), 0);
    ck_assert(!tree_exists(place.path));
    ck_assert_int_eq(close(fd), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("tree");
    TCase *tc = tcase_create("tree");

    tcase_add_test(tc, a_folder_whose_entries_cannot_be_read_is_not_synced);
    tcase_add_test(tc, what_has_no_data_needs_no_sync);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
