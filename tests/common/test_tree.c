#include "common/io/tree.h"

#include "tests/support/let_fail.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct temp_dir place;

static atomic_int n_syncs,
    n_others;              /* calls of fsync; those by other threads than the test's */
static atomic_int failing; /* the call that fails; 0: none */
static pthread_t own;

int fsync(int fd)
{
    const int n = atomic_fetch_add(&n_syncs, 1) + 1;

    if (!pthread_equal(pthread_self(), own))
        (void)atomic_fetch_add(&n_others, 1);
    if (n != failing)
        return (int)syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}

static int n_descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    ck_assert_ptr_nonnull(d);
    while (readdir(d) != NULL)
        n++;
    (void)closedir(d);
    return n;
}

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

START_TEST(many_files_are_synced_by_threads)
{
    enum { FOLDERS = 10, FILES = 40 };
    const int all = FOLDERS * (FILES + 1) + 1, descriptors = n_descriptors();
    struct err err = {0};
    int is_lost = 0;

    temp_dir_init(&place);
    for (int i = 0; i < FOLDERS; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "folder_%d", i);
        ck_assert_int_eq(mkdir(in(name), 0700), 0);
        for (int k = 0; k < FILES; k++) {
            (void)snprintf(name, sizeof(name), "folder_%d/%d", i, k);
            put(name);
        }
    }
    own = pthread_self();
    n_syncs = n_others = failing = 0;
    ck_assert_msg(tree_sync_all(place.path, &is_lost, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(n_syncs, all);
    ck_assert_int_eq(n_others, all);
    ck_assert_int_eq(n_descriptors(), descriptors);
    n_syncs = 0;
    failing = 100;
    ck_assert_int_eq(tree_sync_all(place.path, &is_lost, &err), -EIO);
    ck_assert_int_eq(is_lost, 1);
    ck_assert_int_eq(n_syncs, all);
    ck_assert_int_eq(n_descriptors(), descriptors);
    failing = 0;
    ck_assert_int_eq(tree_remove(place.path, &err), 0);
}
END_TEST

/* Lets no thread start, and few files be open. */
START_TEST(many_files_are_synced_without_threads_or_descriptors)
{
    const struct rlimit few = {40, 40};
    struct err err = {0};
    int status;
    pid_t child;

    temp_dir_init(&place);
    for (int i = 0; i < 200; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "%d", i);
        put(name);
    }
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int is_lost = 0;

        own = pthread_self();
        n_syncs = n_others = failing = 0;
        let_fail(SYS_clone3, EAGAIN);
        let_fail(SYS_clone, EAGAIN);
        if (tree_sync_all(place.path, &is_lost, &err) != 0 || n_syncs != 201)
            _exit(2);
        n_syncs = 0;
        if (setrlimit(RLIMIT_NOFILE, &few) < 0)
            _exit(3);
        _exit(tree_sync_all(place.path, &is_lost, &err) == 0 && n_syncs == 201 &&
                      n_others == 0
                  ? 0
                  : 4);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(tree_remove(place.path, &err), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("tree");
    TCase *tc = tcase_create("tree");

    tcase_add_test(tc, a_folder_whose_entries_cannot_be_read_is_not_synced);
    tcase_add_test(tc, what_has_no_data_needs_no_sync);
    tcase_add_test(tc, many_files_are_synced_by_threads);
    tcase_add_test(tc, many_files_are_synced_without_threads_or_descriptors);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
