#include "common/io/beneath.h"

#include "common/io/tree.h"
#include "tests/support/let_fail.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct temp_dir place;
static char root[128], outside[128];

static const char *in(const char *name)
{
    static char path[2][256];
    static int turn;

    turn = !turn;
    (void)snprintf(path[turn], sizeof(path[turn]), "%s/%s", root, name);
    return path[turn];
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Makes openat2 fail as on a kernel without it. */
static void forget_openat2(void)
{
    let_fail(SYS_openat2, ENOSYS);
    ck_assert_int_eq(syscall(SYS_openat2, AT_FDCWD, ".", NULL, 0), -1);
    ck_assert_int_eq(errno, ENOSYS);
}

/* Every test runs twice, each time in a process of its own: with openat2, and without. */
static void set_up(int without)
{
    temp_dir_init(&place);
    (void)snprintf(root, sizeof(root), "%s/run", place.path);
    (void)snprintf(outside, sizeof(outside), "%s/outside", place.path);
    ck_assert_int_eq(mkdir(root, 0700), 0);
    ck_assert_int_eq(mkdir(outside, 0700), 0);
    (void)snprintf(place.file, sizeof(place.file), "%s/secret", outside);
    put(place.file, "secret");
    if (without)
        forget_openat2();
    ck_assert_int_eq(beneath_hold(root, NULL), 0);
}

static void tear_down(void)
{
    size_t len;
    char *text;

    (void)snprintf(place.file, sizeof(place.file), "%s/secret", outside);
    text = temp_dir_read(place.file, &len);
    ck_assert_str_eq(text, "secret");
    free(text);
    beneath_release(root);
    temp_dir_done(&place);
}

static void refused(int r, int error)
{
    ck_assert_int_eq(r, -1);
    ck_assert_int_eq(errno, error);
}

START_TEST(links_are_not_followed)
{
    struct stat st;

    set_up(_i);
    ck_assert_int_eq(symlink("../outside/secret", in("file")), 0);
    ck_assert_int_eq(symlink("../outside", in("folder")), 0);
    ck_assert_int_eq(symlink("file", in("inside")), 0);
    ck_assert_int_eq(symlink("../outside/new", in("new")), 0);
    refused(beneath_open(in("file"), O_RDONLY, 0), ELOOP);
    refused(beneath_open(in("file"), O_RDWR | O_CREAT | O_TRUNC, 0666), ELOOP);
    refused(beneath_open(in("file"), O_PATH, 0), ELOOP);
    refused(beneath_open(in("inside"), O_RDONLY, 0), ELOOP);
    refused(beneath_open(in("new"), O_WRONLY | O_CREAT, 0666), ELOOP);
    refused(beneath_open(in("new"), O_WRONLY | O_CREAT | O_EXCL, 0666), EEXIST);
    refused(beneath_open(in("folder/secret"), O_RDONLY, 0), ELOOP);
    refused(beneath_open(in("folder/made"), O_WRONLY | O_CREAT, 0666), ELOOP);
    refused(beneath_mkdir(in("folder/made"), 0777), ELOOP);
    refused(beneath_unlink(in("folder/secret")), ELOOP);
    refused(beneath_rename(in("folder/secret"), in("taken"), 0), ELOOP);
    refused(beneath_stat(in("folder/secret"), &st), ELOOP);
    ck_assert_ptr_null(beneath_fopen(in("file"), "r"));
    ck_assert_ptr_null(beneath_fopen(in("file"), "a"));
    ck_assert_ptr_null(beneath_opendir(in("folder")));
    /* operations on the link itself succeed */
    ck_assert_int_eq(beneath_stat(in("file"), &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(beneath_unlink(in("file")), 0);
    (void)snprintf(place.file, sizeof(place.file), "%s/new", outside);
    refused(lstat(place.file, &st), ENOENT);
    tear_down();
}
END_TEST

START_TEST(only_files_and_folders_are_opened)
{
    set_up(_i);
    ck_assert_int_eq(mkfifo(in("fifo"), 0600), 0);
    refused(beneath_open(in("fifo"), O_RDONLY, 0), ENXIO);
    refused(beneath_open(in("fifo"), O_WRONLY | O_CREAT, 0666), ENXIO);
    refused(beneath_open(in("fifo"), O_RDWR, 0), ENXIO);
    refused(beneath_open(in("none"), O_RDONLY, 0), ENOENT);
    refused(beneath_open(in("fifo/x"), O_RDONLY, 0), ENOTDIR);
    tear_down();
}
END_TEST

/* The file in the directory is a hard link to a file of another user. */
START_TEST(others_files_are_not_written)
{
    char secret[160];
    int fd;

    set_up(_i);
    (void)snprintf(secret, sizeof(secret), "%s/secret", outside);
    if (getuid() == 0) {
        ck_assert_int_eq(chown(root, 65534, 65534), 0);
        ck_assert_int_eq(link(secret, in("name")), 0);
        refused(beneath_open(in("name"), O_RDWR, 0), EMLINK);
        refused(beneath_open(in("name"), O_WRONLY | O_CREAT | O_TRUNC, 0666), EMLINK);
        fd = beneath_open(in("name"), O_RDONLY, 0);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    tear_down();
}
END_TEST

static int mode_of(const char *path)
{
    struct stat st;

    ck_assert_int_eq(lstat(path, &st), 0);
    return (int)(st.st_mode & 0777);
}

START_TEST(modes_follow_the_directory)
{
    static const struct {
        mode_t root, umask;
        int file, folder;
    } cases[] = {{0700, 022, 0600, 0700},
                 {0750, 077, 0640, 0750},
                 {0755, 000, 0644, 0755},
                 {0770, 022, 0660, 0770}};

    set_up(_i);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(chmod(root, cases[i].root), 0);
        (void)umask(cases[i].umask);
        close(beneath_open(in("file"), O_WRONLY | O_CREAT, 0666));
        close(beneath_open(in("own"), O_WRONLY | O_CREAT, 0600));
        fclose(beneath_fopen(in("stream"), "wx"));
        ck_assert_int_eq(beneath_mkdir(in("folder"), 0777), 0);
        ck_assert_int_eq(mode_of(in("file")), cases[i].file);
        ck_assert_int_eq(mode_of(in("stream")), cases[i].file);
        ck_assert_int_eq(mode_of(in("own")), 0600);
        ck_assert_int_eq(mode_of(in("folder")), cases[i].folder);
        ck_assert_int_eq(beneath_unlink(in("file")), 0);
        ck_assert_int_eq(beneath_unlink(in("own")), 0);
        ck_assert_int_eq(beneath_unlink(in("stream")), 0);
        ck_assert_int_eq(rmdir(in("folder")), 0);
    }
    tear_down();
}
END_TEST

START_TEST(ordinary_work)
{
    struct dirent **list;
    struct stat st;
    FILE *f;
    int fd;

    set_up(_i);
    ck_assert_int_eq(beneath_mkdir(in("a"), 0777), 0);
    ck_assert_int_eq(beneath_mkdir(in("a/b"), 0777), 0);
    refused(beneath_mkdir(in("a"), 0777), EEXIST);
    f = beneath_fopen(in("a/b/file"), "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs("text", f), 0);
    ck_assert_int_eq(fclose(f), 0);
    fd = beneath_open(in("a//b/./file"), O_RDWR | O_APPEND | O_CREAT, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    ck_assert_int_eq(write(fd, "more", 4), 4);
    close(fd);
    ck_assert_int_eq(beneath_rename(in("a/b/file"), in("moved"), 0), 0);
    ck_assert_int_eq(beneath_stat(in("moved"), &st), 0);
    ck_assert_int_eq(st.st_size, 8);
    fd = beneath_open(in("moved"), O_WRONLY | O_TRUNC, 0);
    close(fd);
    ck_assert_int_eq(beneath_stat(in("moved"), &st), 0);
    ck_assert_int_eq(st.st_size, 0);
    ck_assert_int_eq(beneath_scandir(in("a"), &list, NULL), 3); /* . .. b */
    for (int i = 0; i < 3; i++)
        free(list[i]);
    free(list);
    ck_assert_int_eq(beneath_unlink(in("moved")), 0);
    tear_down();
}
END_TEST

/* A held directory is used even if its path leads elsewhere by now. */
START_TEST(a_held_directory_stays)
{
    struct stat st;
    char moved[160];

    set_up(_i);
    put(in("file"), "mine");
    (void)snprintf(moved, sizeof(moved), "%s/moved", place.path);
    ck_assert_int_eq(rename(root, moved), 0);
    ck_assert_int_eq(symlink("outside", root), 0);
    refused(beneath_open(in("secret"), O_RDONLY, 0), ENOENT);
    ck_assert_int_eq(beneath_stat(in("file"), &st), 0);
    ck_assert_int_eq(unlink(root), 0);

    ck_assert_int_eq(beneath_unlink(in("file")), 0);
    ck_assert_int_eq(rmdir(moved), 0);
    ck_assert_int_eq(beneath_held(root, &st), 0);
    ck_assert_int_eq(st.st_nlink, 0);

    /* holding the path again takes the directory that is there now */
    ck_assert_int_eq(mkdir(root, 0700), 0);
    put(in("new"), "new");
    ck_assert_int_eq(beneath_hold(root, NULL), 0);
    ck_assert_int_eq(beneath_stat(in("new"), &st), 0);
    beneath_release(root);
    tear_down();
}
END_TEST

/* What is done to the directory itself is done to the held one, too. */
START_TEST(a_directory_in_its_place_is_not_taken)
{
    char moved[160];
    struct stat st, held;
    DIR *dir;

    set_up(_i);
    put(in("file"), "mine");
    ck_assert_int_eq(beneath_hold_same(root, NULL), 0);
    beneath_release(root);
    ck_assert_int_eq(beneath_held(root, &held), 0);
    (void)snprintf(moved, sizeof(moved), "%s/moved", place.path);
    ck_assert_int_eq(rename(root, moved), 0);
    ck_assert_int_eq(rename(outside, root), 0);
    ck_assert_int_eq(beneath_hold_same(root, NULL), ERR_STATE);
    ck_assert_int_eq(beneath_stat(root, &st), 0);
    ck_assert(st.st_ino == held.st_ino);
    dir = beneath_opendir(root);
    ck_assert_ptr_nonnull(dir);
    ck_assert_int_eq(fstatat(dirfd(dir), "file", &st, 0), 0);
    ck_assert_int_eq(closedir(dir), 0);
    ck_assert_int_eq(tree_empty(root, NULL, NULL), 0);
    ck_assert_int_eq(rename(root, outside), 0);
    ck_assert_int_eq(rmdir(moved),
                     0); /* it was emptied; tear_down finds the other whole */
    tear_down();
}
END_TEST

static int hold_of(const char *path)
{
    const int rc = beneath_hold(path, NULL);

    if (rc == 0)
        beneath_release(path);
    return rc;
}

/* Another user makes links in a shared folder. */
START_TEST(planted_links_are_not_held)
{
    enum { OTHER = 65534 };
    char link[160], theirs[160];

    set_up(_i);
    (void)snprintf(link, sizeof(link), "%s/link", place.path);
    (void)snprintf(theirs, sizeof(theirs), "%s/theirs", place.path);
    ck_assert_int_eq(mkdir(theirs, 0700), 0);
    ck_assert_int_eq(symlink("outside", link), 0);
    ck_assert_int_eq(hold_of(link), 0);
    if (getuid() == 0) {
        ck_assert_int_eq(chown(theirs, OTHER, OTHER), 0);
        ck_assert_int_eq(lchown(link, OTHER, OTHER), 0);
        ck_assert_int_eq(hold_of(link), -EXDEV);
        ck_assert_int_eq(unlink(link), 0);
        ck_assert_int_eq(symlink("theirs", link), 0);
        ck_assert_int_eq(hold_of(link), 0);
        ck_assert_int_eq(lchown(link, OTHER, OTHER), 0);
        ck_assert_int_eq(hold_of(link), 0);
        ck_assert_int_eq(hold_of(strcat(link, "/")), 0);
    }
    tear_down();
}
END_TEST

START_TEST(what_is_not_held_is_left_alone)
{
    char link[160], dotdot[160];
    struct stat st;

    set_up(_i);
    (void)snprintf(link, sizeof(link), "%s/link", place.path);
    (void)snprintf(dotdot, sizeof(dotdot), "%s/../link", root);
    ck_assert_int_eq(symlink("outside/secret", link), 0);
    ck_assert_int_eq(beneath_stat(link, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    ck_assert_int_eq(beneath_stat(dotdot, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    (void)snprintf(link, sizeof(link), "%sx", root); /* a sibling of the held directory */
    refused(beneath_open(link, O_RDONLY, 0), ENOENT);
    beneath_release(root);
    refused(beneath_held(root, &st), EBADF);
    ck_assert_int_eq(beneath_hold(root, NULL), 0);
    tear_down();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("beneath");
    TCase *tc = tcase_create("beneath");

    tcase_add_loop_test(tc, links_are_not_followed, 0, 2);
    tcase_add_loop_test(tc, only_files_and_folders_are_opened, 0, 2);
    tcase_add_loop_test(tc, others_files_are_not_written, 0, 2);
    tcase_add_loop_test(tc, modes_follow_the_directory, 0, 2);
    tcase_add_loop_test(tc, ordinary_work, 0, 2);
    tcase_add_loop_test(tc, a_held_directory_stays, 0, 2);
    tcase_add_loop_test(tc, a_directory_in_its_place_is_not_taken, 0, 2);
    tcase_add_loop_test(tc, planted_links_are_not_held, 0, 2);
    tcase_add_loop_test(tc, what_is_not_held_is_left_alone, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
