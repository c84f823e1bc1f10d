#include "supervisor/chan/chan.h"
#include "tests/support/test_main.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

/* Tests of chan. The test is the peer: it has the other ends of the pipes. */
static uv_loop_t loop;
static uv_timer_t deadline;
static struct chan chan;
static int peer_in, peer_out; /* reads from the chan; writes to it */
static size_t n_messages, n_bytes;
static char last[64];
static struct err end;
static int n_ends, n_closed, timed_out;

static void on_message(struct chan *c, const uint8_t *data, size_t len)
{
    n_messages++;
    n_bytes += len;
    (void)snprintf(last, sizeof(last), "%.*s", (int)(len < 60 ? len : 60),
                   (const char *)data);
}

static void on_end(struct chan *c, const struct err *err)
{
    n_ends++;
    end = *err;
}

static void on_closed(struct chan *c)
{
    n_closed++;
}

static void on_deadline(uv_timer_t *t)
{
    timed_out = 1;
}

#define RUN_UNTIL(condition)                                                             \
    do {                                                                                 \
        while (!(condition)) {                                                           \
            ck_assert_msg(!timed_out, "waited in vain for " #condition);                 \
            (void)uv_run(&loop, UV_RUN_ONCE);                                            \
        }                                                                                \
    } while (0)

static void setup(void)
{
    int in[2], out[2];

    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(uv_timer_init(&loop, &deadline), 0);
    ck_assert_int_eq(uv_timer_start(&deadline, on_deadline, 20000, 0), 0);
    ck_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    peer_out = in[1];
    peer_in = out[0];
    ck_assert_int_eq(
        chan_open(&chan, &loop, in[0], out[1], on_message, on_end, NULL, NULL), 0);
}

static void teardown(void)
{
    chan_close(&chan, on_closed);
    RUN_UNTIL(n_closed == 1);
    uv_close((uv_handle_t *)&deadline, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    (void)close(peer_in);
    (void)close(peer_out);
}

static void peer_write(const void *data, size_t len)
{
    ck_assert_int_eq(write(peer_out, data, len), (ssize_t)len);
}

static void peer_close(void)
{
    (void)close(peer_out);
    peer_out = -1;
}

START_TEST(whole_messages)
{
    peer_write("\x02\0\0\0hi\x05\0\0\0hello\x03\0\0", 18);
    RUN_UNTIL(n_messages == 2);
    ck_assert_str_eq(last, "hello");
    peer_write("\0bye", 4);
    RUN_UNTIL(n_messages == 3);
    ck_assert_str_eq(last, "bye");
}
END_TEST

START_TEST(one_byte_at_a_time)
{
    static const char frame[] = "\x05\0\0\0hello";
    size_t i;

    for (i = 0; i < sizeof(frame) - 1; i++) {
        ck_assert_uint_eq(n_messages, 0);
        peer_write(frame + i, 1);
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    RUN_UNTIL(n_messages == 1);
    ck_assert_str_eq(last, "hello");
}
END_TEST

START_TEST(end_of_file)
{
    peer_write("\x02\0\0\0hi", 6);
    peer_close();
    RUN_UNTIL(n_ends == 1);
    ck_assert_uint_eq(n_messages, 1);
    ck_assert_int_eq(end.code, 0);
}
END_TEST

START_TEST(end_inside_a_message)
{
    peer_write("\x02\0\0\0h", 5);
    peer_close();
    RUN_UNTIL(n_ends == 1);
    ck_assert_int_eq(end.code, UV_EOF);
}
END_TEST

START_TEST(too_long_a_message)
{
    peer_write("\x02\0\0\0hi\xff\xff\xff\xff\xdd", 11);
    RUN_UNTIL(n_ends == 1);
    ck_assert_uint_eq(n_messages, 1);
    ck_assert_int_eq(end.code, ERR_LIMIT);
    ck_assert_int_eq(chan_send(&chan, (const uint8_t *)"\0", 1, NULL), ERR_STATE);
}
END_TEST

/* The pipe grows, so that the peer is woken once. */
START_TEST(the_pipe_grows_with_the_frames)
{
    const size_t most = 2 * CHAN_PIPE_BYTES;
    uint8_t *sent = malloc(most), *got = malloc(most);
    const int before = fcntl(peer_in, F_GETPIPE_SZ);

    for (size_t i = 0; i < most; i++)
        sent[i] = (uint8_t)(i * 7 + i / 251);
    ck_assert_int_eq(chan_send(&chan, sent, (size_t)before, NULL), 0);
    ck_assert_int_eq(fcntl(peer_in, F_GETPIPE_SZ), before);
    ck_assert_int_eq(read(peer_in, got, most), before);
    ck_assert_int_eq(chan_send(&chan, sent, 70000, NULL), 0);
    ck_assert_uint_eq(chan.queued_bytes, 0);
    ck_assert_int_ge(fcntl(peer_in, F_GETPIPE_SZ), 70000);
    ck_assert_int_eq(read(peer_in, got, most), 70000);
    ck_assert_mem_eq(got, sent, 70000);
    ck_assert_int_eq(chan_send(&chan, sent, most, NULL), 0);
    ck_assert_uint_eq(chan.queued_bytes, most - CHAN_PIPE_BYTES);
    ck_assert_int_eq(fcntl(peer_in, F_GETPIPE_SZ), CHAN_PIPE_BYTES);
    free(sent);
    free(got);
}
END_TEST

/* A frame larger than a pipe's buffer: the rest is queued, and the frame arrives
 * intact. */
START_TEST(large_writes_are_queued)
{
    const size_t len = 3 << 20;
    uint8_t *sent = malloc(len), *got = malloc(len);
    size_t i, n = 0;
    ssize_t r;

    for (i = 0; i < len; i++)
        sent[i] = (uint8_t)(i * 7 + i / 251);
    ck_assert_int_eq(chan_send(&chan, sent, len / 2, NULL), 0);
    ck_assert_int_eq(chan_send(&chan, sent + len / 2, len - len / 2, NULL), 0);
    ck_assert_int_eq(fcntl(peer_in, F_SETFL, O_NONBLOCK), 0);
    while (n < len) {
        ck_assert(!timed_out);
        r = read(peer_in, got + n, len - n);
        n += r > 0 ? (size_t)r : 0;
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_mem_eq(got, sent, len);
    ck_assert_uint_eq(chan.queued_bytes, 0);
    free(sent);
    free(got);
}
END_TEST

START_TEST(queue_is_bounded)
{
    const size_t len = 32 << 20;
    uint8_t *data = calloc(1, len);
    int r = 0, i;

    for (i = 0; i < 16 && r == 0; i++)
        r = chan_send(&chan, data, len, NULL);
    ck_assert_int_eq(r, ERR_LIMIT);
    ck_assert_uint_le(chan.queued_bytes, CHAN_MAX_QUEUED_BYTES);
    free(data);
}
END_TEST

START_TEST(peer_gone)
{
    (void)close(peer_in);
    peer_in = -1;
    ck_assert_int_eq(chan_send(&chan, (const uint8_t *)"\1\0\0\0x", 5, NULL), UV_EPIPE);
    ck_assert_int_eq(n_ends, 0);
}
END_TEST

/* A queued write that fails calls on_end once. */
START_TEST(peer_gone_with_queue)
{
    const size_t len = 1 << 20;
    uint8_t *data = calloc(1, len);

    ck_assert_int_eq(chan_send(&chan, data, len, NULL), 0);
    (void)close(peer_in);
    peer_in = -1;
    RUN_UNTIL(n_ends == 1);
    ck_assert_int_eq(end.code, UV_EPIPE);
    ck_assert_uint_eq(chan.queued_bytes, 0);
    free(data);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("chan");
    TCase *tc = tcase_create("chan");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, whole_messages);
    tcase_add_test(tc, one_byte_at_a_time);
    tcase_add_test(tc, end_of_file);
    tcase_add_test(tc, end_inside_a_message);
    tcase_add_test(tc, too_long_a_message);
    tcase_add_test(tc, the_pipe_grows_with_the_frames);
    tcase_add_test(tc, large_writes_are_queued);
    tcase_add_test(tc, queue_is_bounded);
    tcase_add_test(tc, peer_gone);
    tcase_add_test(tc, peer_gone_with_queue);
    suite_add_tcase(s, tc);
    return s;
}

FORKING_TEST_MAIN(make_suite)
