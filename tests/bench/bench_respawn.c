/* bench_respawn.c - the time from the SIGKILL of an agent to its next answer (another
 * process, configured, with its weights), against the bare time from uv_spawn to the
 * first message of the same executable. The time that a living agent takes to compute
 * this answer is not counted. Both sides in turn, medians.
 *
 *     bench_respawn [rounds]
 */
#include "common/err/check.h"
#include "common/io/signal_process.h"
#include "common/msg/protocol.h"
#include "tests/bench/median.h"
#include "tests/bench/spread_agents.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_ROUNDS = 2000 };

static struct spread_agents agents;
static uint64_t step;
static int answered;

static double us_since(uint64_t begin_ns)
{
    return (double)(uv_hrtime() - begin_ns) / 1e3;
}

/* ---- bare ---- */

static void on_process_exit(uv_process_t *p, int64_t status, int signum)
{
    uv_close((uv_handle_t *)p, NULL);
}

static uv_stdio_container_t inherit(int fd)
{
    return (uv_stdio_container_t){.flags = fd < 0 ? UV_IGNORE : UV_INHERIT_FD,
                                  .data.fd = fd};
}

/* The loop runs until the process is reaped and its handle closed. */
static double bare_us(uv_loop_t *loop, int exe_fd)
{
    char exe[64], parent[32], program[] = "brood-agent", command[] = "agent",
                              name[] = "agent_0", lc_all[] = "LC_ALL=C";
    char *args[] = {program, command, parent, name, NULL}, *env[] = {lc_all, NULL};
    int to[2], from[2];
    uint8_t hello[4096];
    uv_process_t process;
    uint64_t begin_ns;
    double us;

    (void)snprintf(exe, sizeof(exe), "/proc/self/fd/%d", exe_fd);
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    begin_ns = uv_hrtime();
    CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    uv_stdio_container_t fds[] = {inherit(-1), inherit(STDERR_FILENO), inherit(-1),
                                  inherit(to[0]), inherit(from[1])};
    const uv_process_options_t options = {.file = exe,
                                          .args = args,
                                          .env = env,
                                          .exit_cb = on_process_exit,
                                          .flags = UV_PROCESS_DETACHED,
                                          .stdio = fds,
                                          .stdio_count = sizeof(fds) / sizeof(fds[0])};
    CHECK(uv_spawn(loop, &process, &options) == 0);
    CHECK(read(from[0], hello, sizeof(hello)) > 0);
    us = us_since(begin_ns);
    CHECK(signal_process(process.pid, SIGKILL) == 0);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    for (int i = 0; i < 2; i++) {
        (void)close(to[i]);
        (void)close(from[i]);
    }
    return us;
}

/* ---- an agent that is killed ---- */

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    answered = 1;
}

static double act_us(size_t agent, int kill_it)
{
    struct agent_info info;
    uint64_t begin_ns;

    agent_table_info(agents.table, agent, &info);
    answered = 0;
    step += agents.copies;
    begin_ns = uv_hrtime();
    if (kill_it)
        CHECK(signal_process(info.pid, SIGKILL) == 0);
    spread_pack_act(&agents, agent_request_begin(agents.table, agent, "act", 0), agent,
                    step);
    CHECK(agent_request_send(agents.table, agent, on_response, NULL, NULL) == 0);
    while (!answered)
        (void)uv_run(&agents.loop, UV_RUN_ONCE);
    return us_since(begin_ns);
}

int main(int argc, char **argv)
{
    static double bare[MAX_ROUNDS], killed[MAX_ROUNDS], calm[MAX_ROUNDS];
    const int rounds = argc > 1 ? atoi(argv[1]) : 300;
    const int exe_fd = spread_agent_exe();
    uv_loop_t loop;
    double b, k, c;

    CHECK(rounds > 0 && rounds <= MAX_ROUNDS);
    CHECK(uv_loop_init(&loop) == 0);
    spread_agents_start(&agents, 1);
    for (int i = 0; i < rounds; i++) {
        const size_t agent = (size_t)i % SPREAD_AGENTS;

        bare[i] = bare_us(&loop, exe_fd);
        killed[i] = act_us(agent, 1);
        calm[i] = act_us(agent, 0);
    }
    spread_agents_stop(&agents);
    CHECK(uv_loop_close(&loop) == 0);
    (void)close(exe_fd);
    b = median(bare, (size_t)rounds);
    k = median(killed, (size_t)rounds);
    c = median(calm, (size_t)rounds);
    printf("kill to the next answer: %.0f us, of which its own %.0f us; uv_spawn to the "
           "first message: %.0f us; ratio %.2f (goal: at most 3)\n",
           k, c, b, (k - c) / b);
    return 0;
}
