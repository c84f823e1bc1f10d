/* Ending the connections on a Unix socket: clients still get what they have not read
 * yet. Opening them. */
#include "common/io/beneath.h"
#include "supervisor/control/client.h"
#include "supervisor/control/rpc_server.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* More than a socket's buffers hold. */
enum { EVENTS = 64, EVENT_BYTES = 1 << 16, NEVER_MS = 3600 * 1000 };

static int do_subscribe(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                        struct err *err)
{
    rpc_subscribe(reply, 1);
    rpc_reply_empty(reply);
    (*(int *)ctx)++;
    return 0;
}

static const struct rpc_method methods[] = {{"subscribe", do_subscribe, {{0}}}};

static char folder[] = "/tmp/test_rpc_server.XXXXXX";
static uv_loop_t loop;
static struct rpc *rpc;
static struct rpc_server *server;
static int n_subscribers;

static void set_up(void)
{
    struct err err = {0};

    signal(SIGPIPE, SIG_IGN); /* as in the program */
    n_subscribers = 0;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(beneath_hold(folder, &err), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    rpc = rpc_new(methods, 1, &n_subscribers);
    ck_assert_msg(rpc_server_open(&server, rpc, &loop, folder, "sock", &err) == 0, "%s",
                  err.msg);
}

static void tear_down(void)
{
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    rpc_server_free(server);
    rpc_free(rpc);
    beneath_release(folder);
    ck_assert_int_eq(rmdir(folder), 0);
}

static int subscribe(void)
{
    /* [0, 1, "subscribe", {}] */
    static const char request[] = "\x94\x00\x01\xa9subscribe\x80";
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int before = n_subscribers;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    snprintf(at.sun_path, sizeof(at.sun_path), "%s/sock", folder);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    ck_assert_int_eq(write(fd, request, sizeof(request) - 1), sizeof(request) - 1);
    while (n_subscribers == before)
        uv_run(&loop, UV_RUN_ONCE);
    return fd;
}

static void notify(void)
{
    static char text[EVENT_BYTES];

    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < EVENTS; i++) {
        struct msg_out *o = rpc_notify_begin(rpc, 1, "event");

        msg_map(o, 1);
        msg_put_str(o, "text", text);
        rpc_notify_end(rpc);
    }
}

/* Reads the available bytes: 0 at the end of the file. */
static int read_some(int fd, size_t *total)
{
    static char bytes[1 << 16];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    *total += n > 0 ? (size_t)n : 0;
    return n != 0;
}

START_TEST(a_subscriber_that_lags_gets_the_last_events)
{
    const int fd = subscribe();
    size_t total = 0;

    notify();
    rpc_server_close(server, NEVER_MS);
    while (read_some(fd, &total))
        uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_uint_gt(total, (size_t)EVENTS * (EVENT_BYTES - 1));
    close(fd);
}
END_TEST

START_TEST(one_that_reads_nothing_is_not_waited_for_long)
{
    const int idle = subscribe(), fd = subscribe();
    size_t total = 0;

    notify();
    rpc_server_close(server, 20);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    while (read_some(fd, &total))
        ;
    ck_assert_uint_lt(total, (size_t)EVENTS * EVENT_BYTES);
    close(idle);
    close(fd);
}
END_TEST

START_TEST(those_that_keep_up_do_not_delay_the_end)
{
    const int fd = subscribe();
    size_t total = 0;

    rpc_server_close(server, NEVER_MS);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    while (read_some(fd, &total))
        ;
    ck_assert_uint_gt(total, 0);
    close(fd);
}
END_TEST

START_TEST(one_that_leaves_meanwhile_ends_the_wait)
{
    const int fd = subscribe();

    notify();
    rpc_server_close(server, NEVER_MS);
    uv_run(&loop, UV_RUN_NOWAIT);
    close(fd);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}
END_TEST

/* What control_client_open returns if at most n more descriptors can be opened. */
static int open_with(unsigned n, struct err *err)
{
    const int next = dup(STDERR_FILENO);
    struct control_client *client = NULL;
    struct rlimit was, few;
    int rc;

    ck_assert_int_ge(next, 0);
    ck_assert_int_eq(close(next), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = (struct rlimit){(rlim_t)next + n, was.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    rc = control_client_open(&client, folder, NEVER_MS, err);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
    control_client_close(client);
    return rc;
}

START_TEST(a_client_that_cannot_ask_does_not_say_that_nothing_runs)
{
    char at[64], from[64];
    struct err err = {0};

    snprintf(from, sizeof(from), "%s/sock", folder);
    snprintf(at, sizeof(at), "%s/control.sock", folder);
    ck_assert_int_eq(open_with(2, &err), ERR_NOT_FOUND); /* there is none of this name */
    ck_assert_int_eq(link(from, at), 0);
    for (unsigned n = 0; n < 2; n++) { /* the file's, and the socket */
        ck_assert_int_eq(open_with(n, &err), -EMFILE);
        ck_assert_ptr_nonnull(strstr(err.msg, at));
    }
    ck_assert_int_eq(open_with(2, &err), 0);
    rpc_server_close(server, 0);
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(open_with(2, &err), ERR_NOT_FOUND); /* nobody listens there */
    ck_assert_int_eq(unlink(at), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rpc_server");
    TCase *tc = tcase_create("the end of connections");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_subscriber_that_lags_gets_the_last_events);
    tcase_add_test(tc, one_that_reads_nothing_is_not_waited_for_long);
    tcase_add_test(tc, those_that_keep_up_do_not_delay_the_end);
    tcase_add_test(tc, one_that_leaves_meanwhile_ends_the_wait);
    tcase_add_test(tc, a_client_that_cannot_ask_does_not_say_that_nothing_runs);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
