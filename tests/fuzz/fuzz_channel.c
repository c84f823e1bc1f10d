/* Arbitrary bytes from a peer of the supervisor's listening socket. The first byte of the
 * input selects whether they arrive before or after the handshake. The channel ends or
 * waits for more, and delivers no message made of bytes that the key did not seal. */
#include "common/err/check.h"
#include "supervisor/net/secure_channel.h"
#include "tests/fuzz/fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

static struct channel_secret secret;
static int n_ready, n_ended;

static void on_ready(void *ctx, struct channel *c)
{
    n_ready++;
}

static void on_message(void *ctx, struct channel *c, const uint8_t *data, size_t len)
{
    CHECK(0, "a message of %zu bytes that nobody sealed", len);
}

static void on_end(void *ctx, struct channel *c, const struct err *why)
{
    n_ended++;
}

static const struct channel_secret *find(void *ctx, const uint8_t id[CHANNEL_ID_BYTES],
                                         void **ret_ctx, struct err *why)
{
    return &secret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct channel_options o = {.encrypt = size > 1 && data[1] & 1,
                                      .max_bytes = 4096};
    const struct channel_callbacks cb = {on_ready, on_message, on_end, NULL};
    struct channel *node = NULL, *supervisor = NULL;
    uv_loop_t loop;
    int pair[2], wire;

    if (size < 2)
        return 0;
    n_ready = n_ended = 0;
    CHECK(uv_loop_init(&loop) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    wire = dup(pair[1]);
    CHECK(channel_accept(&supervisor, &loop, pair[0], find, NULL, &o, &cb, NULL) == 0);
    if (data[0] & 1) {
        CHECK(channel_open(&node, &loop, pair[1], &secret, &o, &cb, NULL) == 0);
        while (n_ready < 2)
            CHECK(uv_run(&loop, UV_RUN_ONCE) != 0);
    } else {
        (void)close(pair[1]);
    }
    (void)send(wire, data + 2, size - 2, MSG_NOSIGNAL);
    for (int i = 0; i < 8 && n_ended == 0; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    channel_close(node);
    channel_close(supervisor);
    (void)close(wire);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    return 0;
}
