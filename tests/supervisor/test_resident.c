#include "supervisor/proc/resident.h"
#include "tests/support/test_main.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* Much more than other allocations and releases of a process in the meantime. */
#define MUCH  ((size_t)64 << 20)
#define SLACK ((int64_t)MUCH / 4)

static int64_t held(void)
{
    int64_t ret = resident_bytes(getpid());

    ck_assert_int_gt(ret, 0);
    return ret;
}

static void *map(int flags, int fd)
{
    void *p = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, flags, fd, 0);

    ck_assert_ptr_ne(p, MAP_FAILED);
    return p;
}

START_TEST(its_own_memory_counts)
{
    const int flags[] = {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS};
    const int64_t before = held();
    const int64_t own = resident_own_bytes(getpid());
    void *p = map(flags[_i], -1);

    ck_assert_int_lt(held(), before + SLACK); /* no page is touched yet */
    memset(p, 1, MUCH);
    ck_assert_int_gt(held(), before + (int64_t)MUCH - SLACK);
    ck_assert_int_lt(held(), before + (int64_t)MUCH + SLACK);
    if (flags[_i] & MAP_SHARED)
        ck_assert_int_lt(resident_own_bytes(getpid()), own + SLACK);
    else
        ck_assert_int_gt(resident_own_bytes(getpid()), own + (int64_t)MUCH - SLACK);
    ck_assert_int_eq(munmap(p, MUCH), 0);
    ck_assert_int_lt(held(), before + SLACK);
}
END_TEST

/* An agent maps the log like this: with every page in the page table. */
START_TEST(pages_of_a_file_do_not)
{
    const int64_t before = held();
    int fd = open(".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    volatile char *p;
    struct statfs fs;
    char sum = 0;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstatfs(fd, &fs), 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)MUCH), 0);
    p = map(MAP_SHARED, fd);
    for (size_t i = 0; i < MUCH; i += 4096)
        sum = (char)(sum + p[i]);
    ck_assert_int_eq(sum, 0);
    if (fs.f_type != TMPFS_MAGIC) /* files of tmpfs are shared memory */
        ck_assert_int_lt(held(), before + SLACK);
    ck_assert_int_eq(munmap((void *)(uintptr_t)p, MUCH), 0);
    (void)close(fd);
}
END_TEST

START_TEST(who_is_gone_holds_nothing)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(resident_bytes(pid), -1); /* exited, not yet reaped */
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(resident_bytes(pid), -1);
}
END_TEST

/* What a fork has is its parent's until one of them writes. */
START_TEST(what_was_inherited_is_not_its_own)
{
    char *p = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    int go[2], told[2];
    char c = 0;
    pid_t pid;

    memset(p, 1, MUCH);
    ck_assert_int_eq(pipe(go), 0);
    ck_assert_int_eq(pipe(told), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(go[1]);
        for (size_t half = 0; read(go[0], &c, 1) == 1; half++) { /* until it is closed */
            memset(p + half * (MUCH / 2), 2, MUCH / 2);
            (void)write(told[1], &c, 1);
        }
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    ck_assert_int_ge(resident_data_bytes(pid), (int64_t)MUCH);
    for (int64_t rest = (int64_t)MUCH; rest >= 0; rest -= (int64_t)MUCH / 2) {
        ck_assert_int_gt(resident_inherited_bytes(pid), rest - SLACK);
        ck_assert_int_lt(resident_inherited_bytes(pid), rest + SLACK);
        ck_assert_int_gt(resident_bytes(pid), (int64_t)MUCH - SLACK);
        if (rest > 0) {
            ck_assert_int_eq(write(go[1], &c, 1), 1);
            ck_assert_int_eq(read(told[0], &c, 1), 1);
        }
    }
    (void)close(go[1]);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(resident_inherited_bytes(pid), 0);
    ck_assert_int_eq(munmap(p, MUCH), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("resident");
    TCase *tc = tcase_create("resident");

    tcase_add_loop_test(tc, its_own_memory_counts, 0, 2);
    tcase_add_test(tc, pages_of_a_file_do_not);
    tcase_add_test(tc, who_is_gone_holds_nothing);
    tcase_add_test(tc, what_was_inherited_is_not_its_own);
    suite_add_tcase(s, tc);
    return s;
}
TEST_MAIN(make_suite)
