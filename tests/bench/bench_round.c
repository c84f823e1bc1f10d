/* bench_round.c - what supervision costs: a round of requests to three agents through
 * agent_table, against the same bytes echoed by three bare processes over bare pipes.
 * Everything on one core; blocks of rounds of either kind alternate; medians.
 *
 * The agents are tests/support/fake_agent.c, which parse and pack their messages and
 * compute nothing. The payload is an act round's: 32 copies of 18 observations.
 */
#include "common/err/check.h"
#include "supervisor/proc/agent_table.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define AGENTS        3
#define PAYLOAD_BYTES (32 * 18 * 4)
/* The message around the payload: frame, envelope, key and bin header. */
#define FRAME_BYTES   (PAYLOAD_BYTES + 32)
#define BLOCKS        20
#define ROUNDS        500 /* of a block */

struct bench {
    uv_loop_t loop;
    struct agent_table *table;
    uint8_t payload[PAYLOAD_BYTES];
    int is_ready;
    size_t n_waiting, n_rounds; /* of this block */
    uint64_t begun_at;
    double us[BLOCKS * ROUNDS];
    size_t n_us;
};

static struct bench bench;

static void on_response(void *ctx, size_t agent, const struct msg *response);

static void begin_round(void)
{
    struct msg_out *o;
    size_t i;

    bench.begun_at = uv_hrtime();
    bench.n_waiting = AGENTS;
    for (i = 0; i < AGENTS; i++) {
        o = agent_request_begin(bench.table, i, "echo", 0);
        msg_map(o, 1);
        msg_key(o, "payload");
        msg_bin(o, bench.payload, sizeof(bench.payload));
        CHECK(agent_request_send(bench.table, i, on_response, NULL, NULL) == 0);
    }
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    const void *payload = NULL;
    size_t len = 0;

    CHECK(msg_get_bin(&response->body, "payload", &payload, &len, NULL) == 0 &&
          len == PAYLOAD_BYTES);
    if (--bench.n_waiting > 0)
        return;
    bench.us[bench.n_us++] = (double)(uv_hrtime() - bench.begun_at) / 1e3;
    if (--bench.n_rounds > 0)
        begin_round();
    else
        uv_stop(&bench.loop);
}

static void on_ready(void *ctx)
{
    bench.is_ready = 1;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    CHECK(0, "%s", report->msg);
}

static void on_stopped(void *ctx)
{
    bench.table = NULL;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    msg_map(o, 1);
    msg_key(o, "restored");
    msg_bool(o, restored);
}

static void start_agents(void)
{
    static const char *const names[AGENTS] = {"echo-0", "echo-1", "echo-2"};
    const struct agent_callbacks cb = {
        .on_ready = on_ready, .on_failed = on_failed, .on_stopped = on_stopped};
    struct agent_spec specs[AGENTS];
    char exe[512];
    size_t i;
    int fd;

    (void)snprintf(exe, sizeof(exe), "%s/tests/supervisor/fake_agent",
                   getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "%s", exe);
    for (i = 0; i < AGENTS; i++)
        specs[i] =
            (struct agent_spec){.name = names[i], .pack_configure = pack_configure};
    CHECK(agent_table_new(&bench.table, &bench.loop, fd, -1, specs, AGENTS, &cb, NULL) ==
          0);
    (void)close(fd);
    CHECK(agent_table_start(bench.table, NULL) == 0);
    while (!bench.is_ready)
        (void)uv_run(&bench.loop, UV_RUN_ONCE);
}

static void stop_agents(void)
{
    struct agent_table *t = bench.table;

    agent_table_stop(t, 5000);
    (void)uv_run(&bench.loop, UV_RUN_DEFAULT);
    CHECK(bench.table == NULL);
    agent_table_free(t);
}

/* The bare side */

static int bare_to[AGENTS], bare_from[AGENTS];

static void read_all(int fd, uint8_t *data, size_t len)
{
    ssize_t n;

    for (; len > 0; data += n, len -= (size_t)n) {
        n = read(fd, data, len);
        if (n <= 0)
            _exit(0);
    }
}

static _Noreturn void be_echo(int in, int out)
{
    uint8_t data[FRAME_BYTES];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        read_all(in, data, sizeof(data));
        CHECK(write(out, data, sizeof(data)) == (ssize_t)sizeof(data));
    }
}

static void start_bare(void)
{
    int to[2], from[2];
    size_t i;

    for (i = 0; i < AGENTS; i++) {
        CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
        if (fork() == 0)
            be_echo(to[0], from[1]);
        bare_to[i] = to[1];
        bare_from[i] = from[0];
    }
}

static double bare_round_us(void)
{
    static uint8_t data[FRAME_BYTES];
    uint64_t begin = uv_hrtime();
    size_t i;

    for (i = 0; i < AGENTS; i++)
        CHECK(write(bare_to[i], data, sizeof(data)) == (ssize_t)sizeof(data));
    for (i = 0; i < AGENTS; i++)
        read_all(bare_from[i], data, sizeof(data));
    return (double)(uv_hrtime() - begin) / 1e3;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), compare);
    return v[n / 2];
}

int main(void)
{
    static double bare_us[BLOCKS * ROUNDS];
    size_t block, i, n_bare = 0;
    double ours, bare;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
    (void)uv_loop_init(&bench.loop);
    start_agents();
    start_bare();
    for (block = 0; block < BLOCKS; block++) {
        for (i = 0; i < ROUNDS; i++)
            bare_us[n_bare++] = bare_round_us();
        bench.n_rounds = ROUNDS;
        begin_round();
        (void)uv_run(&bench.loop, UV_RUN_DEFAULT);
    }
    stop_agents();
    ours = median(bench.us, bench.n_us);
    bare = median(bare_us, n_bare);
    printf("act round, %d agents, %d bytes each way, one core: %.1f us, bare pipes "
           "%.1f us, ratio %.2f (goal: at most 2)\n",
           AGENTS, FRAME_BYTES, ours, bare, ours / bare);
    return 0;
}
