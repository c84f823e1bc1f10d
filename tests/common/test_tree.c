#include "common/io/tree.h"

#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
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

/* From now on the call fails in this process, which is the test's own. */
static void let_fail(unsigned nr, unsigned error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(a_folder_whose_entries_cannot_be_read_is_not_synced)
{
    struct err err = {0};
    int is_lost = 1;

    temp_dir_init(&place);
    put("file");
    ck_assert_int_eq(tree_sync_all(place.path, &is_lost, &err), 0);
    ck_assert_int_eq(unlink(in("file")), 0);
    let_fail(SYS_getdents64, EIO);
    ck_assert_int_eq(tree_sync_all(place.path, &is_lost, &err), -EIO);
    ck_assert_int_eq(is_lost, 0);
    ck_assert_int_eq(tree_remove(place.path, &err), -EIO);
    ck_assert_int_eq(rmdir(place.path), 0);
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
