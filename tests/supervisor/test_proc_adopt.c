/* A process that another one has forked, and that ends before that one does. */
#include "supervisor/proc/proc.h"
#include "supervisor/proc/sweep.h"
#include "tests/support/test_main.h"

#include <poll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

static int n_exited, n_closed;

static void on_message(struct proc *p, const uint8_t *data, size_t len)
{
    ck_abort_msg("a message");
}

static void on_broken(struct proc *p, const struct err *why)
{
    ck_abort_msg("%s", why->msg);
}

static void on_exited(struct proc *p)
{
    n_exited++;
}

static void on_closed(struct proc *p)
{
    n_closed++;
}

static const struct proc_callbacks callbacks = {.on_message = on_message,
                                                .on_broken = on_broken,
                                                .on_exited = on_exited,
                                                .on_closed = on_closed};

static void await(int fd)
{
    char byte;

    ck_assert_int_eq(read(fd, &byte, 1), 1);
}

/* Forks the process that is expected, which ends at once; keeps its ends of the pipes until the
 * first byte of `go`, and ends at the second. */
_Noreturn static void be_between(const struct proc *p, int told, int go)
{
    const pid_t pid = fork();

    if (pid == 0)
        _exit(3);
    if (write(told, &pid, sizeof(pid)) != sizeof(pid))
        _exit(1);
    await(go);
    for (size_t i = 0; i < sizeof(p->ends) / sizeof(p->ends[0]); i++)
        (void)close(p->ends[i]);
    await(go);
    _exit(0);
}

static pid_t read_ended(int fd)
{
    struct pollfd watched = {.events = POLLIN};
    pid_t pid;

    ck_assert_int_eq(read(fd, &pid, sizeof(pid)), (int)sizeof(pid));
    watched.fd = pidfd_open(pid, 0);
    ck_assert_int_eq(poll(&watched, 1, -1), 1);
    (void)close(watched.fd);
    return pid;
}

/* Its pipes are closed while it is still the child of another process: that is no reason to think
 * that it goes on, and its exit is seen as soon as it is a child of this one. */
START_TEST(test_it_has_ended_before_it_is_adopted)
{
    struct capture capture;
    struct err err = {0};
    struct proc p;
    int told[2], go[2];
    uv_loop_t loop;
    pid_t between;

    ck_assert_int_eq(sweep_enable(&err), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(capture_init(&capture, NULL, &err), 0);
    ck_assert_int_eq(pipe(told) | pipe(go), 0);
    ck_assert_int_eq(proc_expect(&p, &loop, &capture, &callbacks, NULL, &err), 0);
    between = fork();
    if (between == 0)
        be_between(&p, told[1], go[0]);
    ck_assert_int_eq(proc_adopt(&p, &loop, read_ended(told[0]), &err), 0);
    while (!p.is_looking)
        (void)uv_run(&loop, UV_RUN_ONCE);
    ck_assert_int_eq(write(go[1], "1", 1), 1);
    while (!p.chan_eof)
        (void)uv_run(&loop, UV_RUN_ONCE);
    ck_assert_int_eq(n_exited, 0);
    ck_assert_int_eq(write(go[1], "2", 1), 1);
    ck_assert_int_eq(waitpid(between, NULL, 0), between);
    while (n_closed == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    ck_assert_int_eq(n_exited, 1);
    ck_assert_int_eq(p.exit_code, 3);
    ck_assert(!proc_is_known(p.pid));
    capture_done(&capture);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(told[i]);
        (void)close(go[i]);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("proc_adopt");
    TCase *c = tcase_create("proc_adopt");

    tcase_add_test(c, test_it_has_ended_before_it_is_adopted);
    suite_add_tcase(s, c);
    return s;
}

TEST_MAIN(make_suite)
