#include "common/io/signal_process.h"
#include "common/io/write_all.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { LEN = 1 << 20, FITS = 5000 };

static uint8_t data[LEN];

static void fill(void)
{
    for (size_t i = 0; i < LEN; i++)
        data[i] = (uint8_t)(i * 31 + i / 251);
}

static void on_signal(int signum)
{
}

/* Exits with 0 if exactly `data` arrives, then the end of file. */
static void read_and_compare(int fd, pid_t writer)
{
    uint8_t piece[977];
    size_t at = 0;
    ssize_t n;

    while ((n = read(fd, piece, sizeof(piece))) > 0) {
        if (at + (size_t)n > LEN || memcmp(piece, data + at, (size_t)n) != 0)
            _exit(1);
        at += (size_t)n;
        (void)signal_process(writer, SIGUSR1); /* while it is writing */
    }
    _exit(n == 0 && at == LEN ? 0 : 2);
}

START_TEST(a_pipe_gets_everything_whatever_interrupts)
{
    const struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART */
    const pid_t writer = getpid();
    int ends[2], status;
    pid_t pid;

    fill();
    ck_assert_int_eq(sigaction(SIGUSR1, &act, NULL), 0);
    ck_assert_int_eq(pipe(ends), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        (void)close(ends[1]);
        read_and_compare(ends[0], writer);
    }
    (void)close(ends[0]);
    ck_assert_int_eq(write_all(ends[1], data, LEN), 0);
    (void)close(ends[1]);
    while (waitpid(pid, &status, 0) < 0)
        ck_assert_int_eq(errno, EINTR);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(nobody_reads)
{
    int ends[2];

    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe(ends), 0);
    (void)close(ends[0]);
    ck_assert_int_eq(write_all(ends[1], data, 1), -1);
    ck_assert_int_eq(errno, EPIPE);
    ck_assert_int_eq(write_all(ends[1], data, 0), 0);
    (void)close(ends[1]);
}
END_TEST

/* Only a part fits: pwrite_all returns the error for the rest, and append_whole removes
 * the part. */
START_TEST(a_file_that_cannot_grow_is_an_error)
{
    struct rlimit limit, before;
    struct temp_dir dir;
    struct stat st;
    struct err err;
    int fd;

    temp_dir_init(&dir);
    fd = open(temp_dir_file(&dir, "x"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = FITS;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(pwrite_all(fd, data, 100, FITS - 100), 0);
    ck_assert_int_eq(pwrite_all(fd, data, 200, FITS - 100), -1);
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, FITS);
    ck_assert_int_eq(ftruncate(fd, FITS - 100), 0);
    ck_assert_int_eq(append_whole(fd, "x", data, 200, &err), -EFBIG);
    ck_assert_str_eq(err.msg, "x: cannot write: File too large");
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, FITS - 100);
    ck_assert_int_eq(append_whole(fd, "x", data, 100, &err), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)close(fd);
    temp_dir_done(&dir);
}
END_TEST

START_TEST(a_read_ends_with_the_file)
{
    static uint8_t got[LEN];
    struct temp_dir dir;
    int fd;

    fill();
    temp_dir_init(&dir);
    fd = open(temp_dir_file(&dir, "x"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(pwrite_all(fd, data, LEN, 0), 0);
    ck_assert_int_eq(pread_all(fd, got, LEN - 10, 10), LEN - 10);
    ck_assert(memcmp(got, data + 10, LEN - 10) == 0);
    ck_assert_int_eq(pread_all(fd, got, LEN, LEN - 10), 10);
    ck_assert(memcmp(got, data + LEN - 10, 10) == 0);
    ck_assert_int_eq(pread_all(fd, got, LEN, LEN), 0);
    (void)close(fd);
    ck_assert_int_eq(pread_all(fd, got, 1, 0), -1);
    ck_assert_int_eq(errno, EBADF);
    temp_dir_done(&dir);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("write_all");
    TCase *tc = tcase_create("write_all");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_pipe_gets_everything_whatever_interrupts);
    tcase_add_test(tc, nobody_reads);
    tcase_add_test(tc, a_file_that_cannot_grow_is_an_error);
    tcase_add_test(tc, a_read_ends_with_the_file);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
