#include "common/io/tree.h"
#include "supervisor/rundir/journal.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_remove.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int has_no_locks; /* the file system has none */

/* Replaces that of the C library. */
int fcntl(int fd, int cmd, ...)
{
    void *arg;
    va_list ap;

    va_start(ap, cmd);
    arg = va_arg(ap, void *);
    va_end(ap);
    if (!has_no_locks || cmd != F_OFD_SETLK)
        return (int)syscall(SYS_fcntl, fd, cmd, arg);
    errno = ENOSYS;
    return -1;
}

static int has_no_flags; /* the file system can only rename what replaces or is alone */
static void (*before_exchange)(
    void); /* what somebody else does just before; NULL: nothing */

/* Replaces that of the C library. */
int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    void (*const other)(void) = flags == RENAME_EXCHANGE ? before_exchange : NULL;

    if (other != NULL) {
        before_exchange = NULL;
        other();
    }
    if (!has_no_flags || flags == 0)
        return (int)syscall(SYS_renameat2, at, from, to_at, to, flags);
    errno = EINVAL;
    return -1;
}

static int renames_left = -1; /* how many succeed before one fails; -1: all */

/* Replaces that of the C library. */
int renameat(int at, const char *from, int to_at, const char *to)
{
    if (renames_left < 0 || renames_left-- > 0)
        return (int)syscall(SYS_renameat2, at, from, to_at, to, 0);
    errno = EIO;
    return -1;
}

/* Replaces that of the C library. */
int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static const char *fails_to_sync; /* a folder; NULL: none */

/* Replaces that of the C library. */
int fsync(int fd)
{
    struct stat st, fails;

    if (fails_to_sync == NULL || fstat(fd, &st) < 0 || stat(fails_to_sync, &fails) < 0 ||
        st.st_ino != fails.st_ino)
        return (int)syscall(SYS_fsync, fd);
    errno = EIO;
    return -1;
}

static struct temp_dir dir;
static char runs[128];

static void setup(void)
{
    temp_dir_init(&dir);
    (void)snprintf(runs, sizeof(runs), "%s/deep/runs", dir.path);
}

static void teardown(void)
{
    temp_dir_done(&dir);
}

static struct run_dir *create(const char *name, int force)
{
    struct run_dir *d = NULL;
    struct err err = {0};

    ck_assert_msg(run_dir_create(&d, runs, name, "base", force, 0700, &err) == 0, "%s",
                  err.msg);
    return d;
}

START_TEST(test_what_is_in_it)
{
    struct run_dir *d = create("a", 0);
    struct stat st;
    char want[160], *text;
    struct err err = {0};

    (void)snprintf(want, sizeof(want), "%s/a", runs);
    ck_assert_str_eq(run_dir_path(d), want);
    ck_assert_str_eq(run_dir_name(d), "a");
    ck_assert_int_eq(stat(run_dir_file(d, "logs"), &st), 0);
    ck_assert_int_eq(stat(run_dir_file(d, "metrics"), &st), 0);
    ck_assert_int_eq(stat(run_dir_file(d, "checkpoints"), &st), 0);
    ck_assert_ptr_eq(run_dir_file(d, "logs"), run_dir_file(d, "logs"));
    ck_assert_int_eq(run_dir_write(d, "config.yaml", "x: 1\n", 5, &err), 0);
    text = temp_dir_read(run_dir_file(d, "config.yaml"), NULL);
    ck_assert_str_eq(text, "x: 1\n");
    free(text);
    run_dir_free(d);
}
END_TEST

static struct run_dir *make(const char *name, int force, int want)
{
    struct run_dir *d = NULL;
    struct err err = {0};
    const int rc = run_dir_make(&d, runs, name, "base", force, 0700, &err);

    ck_assert_msg(rc == want, "%d: %s", rc, err.msg);
    if (rc < 0)
        return NULL;
    ck_assert_ptr_nonnull(strstr(run_dir_path(d), "/" RUN_DIR_MAKING));
    ck_assert_int_eq(run_dir_write(d, "config.yaml", "x: 1\n", 5, &err), 0);
    return d;
}

static int count_runs(void)
{
    struct dirent **all;
    const int n = scandir(runs, &all, NULL, alphasort);

    for (int i = 0; i < n; i++)
        free(all[i]);
    free(all);
    return n - 2; /* "." and ".." */
}

static void check_appears(struct run_dir *d, const char *name)
{
    struct run_dir *other;
    char want[160], *text;
    struct err err = {0};

    (void)snprintf(want, sizeof(want), "%s/%s", runs, name);
    ck_assert_str_eq(run_dir_final_path(d), want);
    ck_assert_msg(run_dir_appear(d, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(run_dir_path(d), want);
    ck_assert_str_eq(run_dir_name(d), name);
    ck_assert_int_eq(run_dir_open(&other, want, 1, &err), ERR_STATE);
    text = temp_dir_read(run_dir_file(d, "config.yaml"), NULL);
    ck_assert_str_eq(text, "x: 1\n");
    free(text);
    ck_assert_int_eq(run_dir_write(d, "provenance", "y", 1, &err), 0);
    ck_assert(!run_dir_is_deleted(d));
}

/* On file systems that can exchange two folders, and on others. */
START_TEST(test_a_run_appears_whole)
{
    struct run_dir *d, *e;
    char old[192];

    has_no_flags = _i;
    d = make("a", 0, 0);
    ck_assert_int_eq(count_runs(), 1);
    check_appears(d, "a");
    ck_assert_int_eq(count_runs(), 1);
    temp_dir_write(run_dir_file(d, "old"), "old", 3);
    (void)make("a", 0, ERR_EXISTS);
    (void)make("a", 1, ERR_STATE); /* it is live */
    run_dir_free(d);

    d = make("a", 1, 0);
    check_appears(d, "a");
    (void)snprintf(old, sizeof(old), "%s/a/old", runs);
    ck_assert(!tree_exists(old));
    run_dir_free(d);
    ck_assert_int_eq(count_runs(), 1);

    d = make(NULL, 0, 0);
    e = make("base-1", 0, 0);
    check_appears(e, "base-1");
    ck_assert_int_eq(run_dir_appear(d, NULL), ERR_EXISTS);
    ck_assert_int_eq(run_dir_next_name(d, NULL), 0);
    check_appears(d, "base-2");
    run_dir_free(d);
    run_dir_free(e);
    ck_assert_int_eq(count_runs(), 3);
    run_dir_discard(make("b", 0, 0));
    ck_assert_int_eq(count_runs(), 3);
    has_no_flags = 0;
}
END_TEST

START_TEST(test_numbers)
{
    struct run_dir *one = create(NULL, 0), *two = create(NULL, 0), *four;
    char job[160];

    ck_assert_str_eq(run_dir_name(one), "base-1");
    ck_assert_str_eq(run_dir_name(two), "base-2");
    (void)snprintf(job, sizeof(job), "%s/.jobs/base-3", runs);
    ck_assert_int_eq(tree_make(job, NULL), 0); /* `brood submit` has promised that name */
    four = create(NULL, 0);
    ck_assert_str_eq(run_dir_name(four), "base-4");
    run_dir_free(one);
    run_dir_free(two);
    run_dir_free(four);
}
END_TEST

START_TEST(test_no_locks)
{
    struct run_dir *d = NULL;
    struct err err = {0};

    has_no_locks = 1;
    ck_assert_int_eq(run_dir_create(&d, runs, "a", "base", 0, 0700, &err), -ENOSYS);
    has_no_locks = 0;
    ck_assert_ptr_nonnull(strstr(err.msg, "/a/lock: cannot lock"));
    run_dir_free(create("a", 0)); /* nothing was left */
}
END_TEST

START_TEST(test_taken_name)
{
    struct run_dir *d = create("a", 0), *again;
    struct stat st;
    struct err err = {0};

    ck_assert_int_eq(run_dir_write(d, "old", "", 0, &err), 0);
    ck_assert_int_eq(run_dir_create(&again, runs, "a", "base", 0, 0700, &err),
                     ERR_EXISTS);
    /* the run is live, so not even force removes it */
    ck_assert_int_eq(run_dir_create(&again, runs, "a", "base", 1, 0700, &err), ERR_STATE);
    ck_assert_int_eq(stat(run_dir_file(d, "old"), &st), 0);
    run_dir_free(d);
    d = create("a", 1);
    ck_assert_int_ne(stat(run_dir_file(d, "old"), &st), 0);
    run_dir_free(d);
}
END_TEST

/* --force removes only folders of runs. */
START_TEST(test_force_spares_what_is_no_run)
{
    struct run_dir *d;
    struct err err = {0};
    char path[160];

    (void)snprintf(path, sizeof(path), "%s/photos/2026", runs);
    ck_assert_int_eq(tree_make(path, &err), 0);
    ck_assert_int_eq(run_dir_create(&d, runs, "photos", "base", 1, 0700, &err),
                     ERR_EXISTS);
    ck_assert(tree_exists(path));
}
END_TEST

START_TEST(test_bad_names)
{
    static const char *const names[] = {"", ".", "..", "a/b", ".hidden", "a b", "x\n"};
    struct run_dir *d;
    struct err err = {0};

    ck_assert_int_eq(run_dir_create(&d, runs, names[_i], "base", 0, 0700, &err), ERR_ARG);
}
END_TEST

START_TEST(test_lock)
{
    struct run_dir *d = create("a", 0), *other;
    struct err err = {0};
    char path[256], pid[16];
    int status;
    pid_t child;

    (void)snprintf(path, sizeof(path), "%s", run_dir_path(d));
    ck_assert_int_eq(run_dir_holder(path), getpid());
    ck_assert_int_eq(run_dir_open(&other, path, 1, &err), ERR_STATE);
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    ck_assert_ptr_nonnull(strstr(err.msg, pid));
    ck_assert_int_eq(run_dir_open(&other, path, 0, &err), 0);
    run_dir_free(other); /* closing by a reader does not release the lock */
    ck_assert_int_eq(run_dir_holder(path), getpid());
    run_dir_free(d);
    ck_assert_int_eq(run_dir_holder(path), 0);

    /* a killed holder releases the lock */
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(run_dir_open(&d, path, 1, NULL) != 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(run_dir_holder(path), 0);
    ck_assert_int_eq(run_dir_open(&d, path, 1, &err), 0);
    run_dir_free(d);
}
END_TEST

/* ---- another directory takes a run's place ---- */

static const char *path_of(const char *name)
{
    static char path[2][192];
    static int turn;

    turn = !turn;
    (void)snprintf(path[turn], sizeof(path[turn]), "%s/%s", runs, name);
    return path[turn];
}

static void make_run(const char *name)
{
    struct run_dir *d = create(name, 0);

    ck_assert_int_eq(run_dir_write(d, "config.yaml", name, strlen(name), NULL), 0);
    run_dir_free(d);
}

/* Whether the directory of that name is the run that was created as `run`. */
static int is_run(const char *name, const char *run)
{
    char file[256], *text;
    int yes;

    (void)snprintf(file, sizeof(file), "%s/%s/config.yaml", runs, name);
    if (access(file, F_OK) < 0)
        return 0;
    text = temp_dir_read(file, NULL);
    yes = strcmp(text, run) == 0;
    free(text);
    return yes;
}

static void swap(const char *a, const char *b)
{
    ck_assert_int_eq(
        renameat2(AT_FDCWD, path_of(a), AT_FDCWD, path_of(b), RENAME_EXCHANGE), 0);
}

/* The commands find a run, which holds it; what they do then is done to that one. */
START_TEST(test_what_takes_a_runs_place_is_not_removed)
{
    struct err err = {0};
    char *found;

    make_run("a");
    make_run("best");
    ck_assert_int_eq(run_dir_find(runs, "a", &found, &err), 0);
    swap("a", "best");
    ck_assert_int_eq(run_remove(found, &err), ERR_STATE);
    ck_assert_ptr_nonnull(strstr(err.msg, "was replaced by another directory"));
    ck_assert(is_run("a", "best") && is_run("best", "a"));
    swap("a", "best");
    ck_assert_int_eq(run_remove(found, &err), 0);
    ck_assert(is_run("best", "best") && !tree_exists(path_of("a")));
    free(found);
}
END_TEST

/* A run would replace "a", and cannot: both stay what they are. */
static void check_stays(int n_renames, const char *no_sync)
{
    struct run_dir *d = make("a", 1, 0);
    struct err err = {0};

    renames_left = n_renames;
    fails_to_sync = no_sync;
    ck_assert_int_eq(run_dir_appear(d, &err), -EIO);
    renames_left = -1;
    fails_to_sync = NULL;
    run_dir_discard(d);
    ck_assert_msg(is_run("a", "a"), "%s", err.msg);
    ck_assert_int_eq(count_runs(), 1);
}

/* A file system that cannot exchange two folders does so in three steps. */
START_TEST(test_a_run_that_cannot_be_replaced_stays)
{
    make_run("a");
    has_no_flags = 1;
    for (int i = 0; i < 3; i++)
        check_stays(i, NULL);
    has_no_flags = 0;
}
END_TEST

START_TEST(test_a_run_stays_until_what_replaces_it_is_on_the_disk)
{
    make_run("a");
    check_stays(-1, runs);
}
END_TEST

static void swap_a_and_best(void)
{
    swap("a", "best");
}

START_TEST(test_only_the_run_that_was_locked_is_replaced)
{
    struct run_dir *d;
    struct err err = {0};

    make_run("a");
    make_run("best");
    d = make("a", 1, 0);
    before_exchange = swap_a_and_best;
    ck_assert_int_eq(run_dir_appear(d, &err), ERR_STATE);
    run_dir_discard(d);
    ck_assert(is_run("a", "best") && is_run("best", "a"));
    ck_assert_int_eq(count_runs(), 2);
}
END_TEST

/* Nothing is left of a run whose folder was made and cannot be opened. */
START_TEST(test_no_descriptors)
{
    struct rlimit limit, few;
    struct run_dir *d = NULL;
    const int next = open("/dev/null", O_RDONLY);

    run_dir_free(create("a", 0));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(close(next), 0);
    few = limit;
    few.rlim_cur = (rlim_t)next;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    ck_assert_int_eq(run_dir_make(&d, runs, "b", "base", 0, 0700, NULL), -EMFILE);
    ck_assert_int_eq(run_dir_create(&d, runs, "b", "base", 0, 0700, NULL), -EMFILE);
    ck_assert_int_eq(run_dir_create(&d, runs, NULL, "base", 0, 0700, NULL), -EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(count_runs(), 1);
}
END_TEST

/* The swap comes after run_remove has opened the run. */
START_TEST(test_only_the_opened_directory_is_renamed_and_removed)
{
    struct run_dir *d;
    struct err err = {0};

    make_run("a");
    make_run("best");
    ck_assert_int_eq(run_dir_open(&d, path_of("a"), 1, &err), 0);
    swap("a", "best");
    ck_assert_int_eq(run_dir_rename(d, ".rm-a-1", &err), ERR_STATE);
    ck_assert(is_run("a", "best") && is_run("best", "a"));
    ck_assert(!tree_exists(path_of(".rm-a-1")));
    swap("a", "best");
    ck_assert_int_eq(run_dir_rename(d, ".rm-a-1", &err), 0);
    swap(".rm-a-1", "best");
    /* the contents of the opened one go; the other one is not empty, so it stays */
    ck_assert_int_eq(run_dir_remove(d, &err), -ENOTEMPTY);
    ck_assert(is_run(".rm-a-1", "best"));
    ck_assert_int_eq(rmdir(path_of("best")), 0);
    run_dir_free(d);
}
END_TEST

START_TEST(test_a_link_in_a_runs_place_is_not_followed)
{
    struct run_dir *d;
    struct err err = {0};

    make_run("a");
    make_run("best");
    ck_assert_int_eq(run_dir_open(&d, path_of("a"), 1, &err), 0);
    ck_assert_int_eq(rename(path_of("a"), path_of("away")), 0);
    ck_assert_int_eq(symlink("best", path_of("a")), 0);
    ck_assert_int_eq(run_dir_rename(d, ".rm-a-1", &err), ERR_STATE);
    run_dir_discard(d); /* a run that could not begin */
    ck_assert(is_run("best", "best") && is_run("a", "best"));
}
END_TEST

/* Of what another user's link leads to, nothing is said. */
START_TEST(test_a_planted_link_has_no_holder)
{
    struct run_dir *d;
    struct err err = {0};

    if (geteuid() != 0)
        return;
    make_run("best");
    ck_assert_int_eq(run_dir_open(&d, path_of("best"), 1, &err), 0);
    ck_assert_int_ne(run_dir_holder(path_of("best")), 0);
    ck_assert_int_eq(symlink("best", path_of("planted")), 0);
    ck_assert_int_ne(run_dir_holder(path_of("planted")), 0); /* root's own link */
    ck_assert_int_eq(lchown(path_of("planted"), 65534, 65534), 0);
    ck_assert_int_eq(run_dir_holder(path_of("planted")), 0);
    run_dir_free(d);
}
END_TEST

/* A run of a study is not looked for behind another user's link. */
START_TEST(test_a_planted_study_is_not_entered)
{
    char *found, run[256];
    struct err err = {0};

    if (geteuid() != 0)
        return;
    make_run("private");
    make_run("1-s1");
    (void)snprintf(run, sizeof(run), "%s/private/1-s1", runs);
    ck_assert_int_eq(rename(path_of("1-s1"), run), 0);
    ck_assert_int_eq(symlink("private", path_of("lr")), 0);
    ck_assert_int_eq(run_dir_find(runs, "lr/1-s1", &found, &err), 0);
    free(found);
    ck_assert_int_eq(lchown(path_of("lr"), 65534, 65534), 0);
    ck_assert_int_eq(run_dir_find(runs, "lr/1-s1", &found, &err), -EXDEV);
    ck_assert_ptr_nonnull(strstr(err.msg, "/lr is a link that user 65534 made"));
    ck_assert_int_eq(run_dir_find(runs, "lr/1", &found, &err), -EXDEV);
}
END_TEST

/* Another user, who cannot write in a run, gives it the name of a removal. */
START_TEST(test_a_run_with_the_name_of_a_removal_stays)
{
    char mark[256];
    struct err err = {0};

    make_run("best");
    make_run("next");
    make_run("old");
    ck_assert_int_eq(rename(path_of("best"), path_of(".rm-best-1")), 0);
    ck_assert_int_eq(rename(path_of("next"), path_of(".new-1-0")), 0);
    ck_assert_int_eq(rename(path_of("old"), path_of(".rm-old-2")), 0);
    (void)snprintf(mark, sizeof(mark), "%s/.rm-old-2/unwanted", runs);
    ck_assert_int_eq(symlink(".rm-old-2", mark), 0);
    ck_assert_int_eq(run_remove_leftovers(runs, &err), 0);
    ck_assert(is_run(".rm-best-1", "best"));
    ck_assert(is_run(".new-1-0", "next"));
    ck_assert(!tree_exists(path_of(".rm-old-2")));
}
END_TEST

START_TEST(test_find)
{
    struct run_dir *a, *b;
    struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char *found, path[256];
    struct err err = {0};

    ck_assert_int_eq(run_dir_find(runs, NULL, &found, &err), ERR_NOT_FOUND);
    a = create("a", 0);
    (void)snprintf(path, sizeof(path), "%s/lock", run_dir_path(a));
    ck_assert_int_eq(run_dir_find(path, NULL, &found, &err), -ENOTDIR);
    ck_assert_int_eq(run_dir_find(path, "b", &found, &err), -ENOTDIR);
    b = create("b", 0);
    ck_assert_int_eq(run_dir_find(runs, "a", &found, &err), 0);
    ck_assert_str_eq(found, run_dir_path(a));
    free(found);
    (void)snprintf(path, sizeof(path), "%s/", run_dir_path(b));
    ck_assert_int_eq(run_dir_find("/nowhere", path, &found, &err), 0);
    ck_assert_str_eq(found, path);
    free(found);
    ck_assert_int_eq(run_dir_find(runs, "c", &found, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.msg, "there is no run c in "));
    (void)snprintf(path, sizeof(path), "%s/study", runs);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/study/study.yaml", runs);
    ck_assert_int_eq(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    ck_assert_int_eq(run_dir_find(runs, "study", &found, &err), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(
        strstr(err.msg, " is a study: expected one of its runs, study/RUN"));
    ck_assert_int_eq(utimensat(AT_FDCWD, run_dir_file(b, "lock"), times, 0), 0);
    ck_assert_int_eq(run_dir_find(runs, NULL, &found, &err), 0);
    ck_assert_str_eq(found, run_dir_path(a));
    free(found);
    run_dir_free(a);
    run_dir_free(b);
}
END_TEST

START_TEST(test_provenance)
{
    struct run_dir *d = create("a", 0);
    char *const argv[] = {(char[]){"brood"}, (char[]){"run"}, (char[]){"it's.yaml"}};
    char *text;
    struct err err = {0};

    ck_assert_int_eq(run_dir_write_provenance(d, 3, argv, "beef", NUMERICS_NATIVE, &err),
                     0);
    text = temp_dir_read(run_dir_file(d, "provenance"), NULL);
    ck_assert_msg(strncmp(text, "command: brood run 'it'\\''s.yaml'\n", 34) == 0, "%s",
                  text);
    ck_assert_ptr_nonnull(strstr(text, "\nagent build id: beef\n"));
    ck_assert_ptr_nonnull(strstr(text, "\nnumerics: native, version 3\nkernels: "));
    ck_assert_ptr_nonnull(strstr(text, "\nlibuv: 1."));
    ck_assert_ptr_nonnull(strstr(text, "\nlibyaml: 0."));
    ck_assert_ptr_nonnull(strstr(text, "\nmsgpack-c: "));
    ck_assert_ptr_nonnull(strstr(text, "\nOpenBLAS: "));
    ck_assert_ptr_nonnull(strstr(text, "\nlibc: 2."));
    ck_assert_ptr_nonnull(strstr(text, "\ncpu: "));
    free(text);
    run_dir_free(d);
}
END_TEST

START_TEST(test_journal)
{
    struct journal *j;
    struct run_event e;
    struct err err = {0};
    char *text, *line;

    for (int again = 0; again < 2; again++) {
        j = journal_new(temp_dir_file(&dir, "journal"));
        ck_assert_int_eq(journal_begin(j, &err), 0);
        e = (struct run_event){.kind = RUN_EVENT_RESPAWN, .env_steps = 25600};
        (void)log_time(e.time);
        run_event_process_init(&e.process, "agent_0", NULL);
        e.process.pid = 4711;
        ck_assert_int_eq(journal_write(j, &e, &err), 0);
        e.kind = RUN_EVENT_FAILED;
        e.env_steps = 1;
        run_event_set_failure(&e, &(const struct err){.msg = "no \"end\"\nat all"});
        ck_assert_int_eq(journal_write(j, &e, &err), 0);
        journal_close(j);
    }
    text = temp_dir_read(temp_dir_file(&dir, "journal"), NULL);
    line = strchr(text, ' ');
    ck_assert_int_eq(text[10], 'T');
    ck_assert_int_eq(line[-1], 'Z');
    ck_assert_msg(
        strncmp(line, " step=25600 event=respawn agent=agent_0 pid=4711\n", 49) == 0,
        "%s", line);
    ck_assert_ptr_nonnull(
        strstr(text, "Z step=1 event=failed error=\"no \\\"end\\\"\\nat all\"\n"));
    line = text;
    for (int i = 0; i < 4; i++) {
        line = strchr(line, '\n');
        ck_assert_ptr_nonnull(line++);
    }
    ck_assert_str_eq(line, "");
    free(text);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("run_dir");
    TCase *tc = tcase_create("run_dir");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, test_what_is_in_it);
    tcase_add_loop_test(tc, test_a_run_appears_whole, 0, 2);
    tcase_add_test(tc, test_numbers);
    tcase_add_test(tc, test_no_locks);
    tcase_add_test(tc, test_taken_name);
    tcase_add_test(tc, test_force_spares_what_is_no_run);
    tcase_add_loop_test(tc, test_bad_names, 0, 7);
    tcase_add_test(tc, test_lock);
    tcase_add_test(tc, test_what_takes_a_runs_place_is_not_removed);
    tcase_add_test(tc, test_a_run_that_cannot_be_replaced_stays);
    tcase_add_test(tc, test_a_run_stays_until_what_replaces_it_is_on_the_disk);
    tcase_add_test(tc, test_only_the_run_that_was_locked_is_replaced);
    tcase_add_test(tc, test_no_descriptors);
    tcase_add_test(tc, test_only_the_opened_directory_is_renamed_and_removed);
    tcase_add_test(tc, test_a_link_in_a_runs_place_is_not_followed);
    tcase_add_test(tc, test_a_planted_link_has_no_holder);
    tcase_add_test(tc, test_a_planted_study_is_not_entered);
    tcase_add_test(tc, test_a_run_with_the_name_of_a_removal_stays);
    tcase_add_test(tc, test_find);
    tcase_add_test(tc, test_provenance);
    tcase_add_test(tc, test_journal);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
