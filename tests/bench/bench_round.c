/* bench_round.c - what an act round costs: three agents as shipped (simple_spread,
 * networks 64-64) through agent_table, against three bare processes that receive and send
 * as many bytes over bare pipes, for one copy of the environment and for 32. Everything
 * on one core; blocks of rounds of either kind alternate; medians.
 *
 * An agent computes, an echo does not. Therefore the benchmark also measures what three
 * acts cost in one process, without any message, what their matrix products alone cost,
 * and how much time the agents and the supervisor used the core.
 *
 *     bench_round [copies]
 */
#include "agent/session/session_internal.h"
#include "common/err/check.h"
#include "common/msg/protocol.h"
#include "common/rng/rng.h"
#include "tests/bench/median.h"
#include "tests/bench/spread_agents.h"
#include "tests/bench/yardstick.h"
#include "tests/support/team.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    AGENTS = SPREAD_AGENTS,
    MAX_COPIES = 32,
    MAX_GEMMS = 3,
    BLOCKS = 20,
    ROUNDS = 500
};

struct bench {
    struct spread_agents agents;
    uint64_t step;
    size_t n_waiting, n_rounds; /* of this block */
    uint64_t begun_at;
    double us[BLOCKS * ROUNDS];
    size_t n_us;
};

static struct bench bench;

static void on_response(void *ctx, size_t agent, const struct msg *response);

static void begin_round(void)
{
    bench.begun_at = uv_hrtime();
    bench.n_waiting = AGENTS;
    bench.step += bench.agents.copies;
    for (size_t i = 0; i < AGENTS; i++) {
        spread_pack_act(&bench.agents,
                        agent_request_begin(bench.agents.table, i, "act", 0), i,
                        bench.step);
        CHECK(agent_request_send(bench.agents.table, i, on_response, NULL, NULL) == 0);
    }
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    struct tensor actions = TENSOR_NONE;

    CHECK(msg_get_tensor(&response->body, "actions", &actions, NULL) == 0 &&
          tensor_elements(&actions) == (int64_t)bench.agents.copies * SPREAD_MOVES);
    if (--bench.n_waiting > 0)
        return;
    bench.us[bench.n_us++] = (double)(uv_hrtime() - bench.begun_at) / 1e3;
    if (--bench.n_rounds > 0)
        begin_round();
    else
        uv_stop(&bench.agents.loop);
}

/* The bare side */

static int bare_to[AGENTS], bare_from[AGENTS];
static uint8_t bare_bytes[8192];
static size_t n_request, n_response; /* bytes of a frame */

static void measure_frames(void)
{
    static const float actions[MAX_COPIES * SPREAD_MOVES];
    struct tensor t = tensor_const_view(
        DT_FLOAT, SHAPE((int64_t)bench.agents.copies, SPREAD_MOVES), actions);
    const uint8_t *frame;
    struct msg_out o;

    msg_out_init(&o);
    msg_begin_request(&o, 1000, "act");
    spread_pack_act(&bench.agents, &o, 0, bench.step);
    msg_end(&o, &frame, &n_request);
    msg_begin_response(&o, 1000);
    msg_map(&o, 1);
    msg_key(&o, "actions");
    msg_tensor(&o, &t);
    msg_end(&o, &frame, &n_response);
    msg_out_done(&o);
    CHECK(n_request <= sizeof(bare_bytes) && n_response <= sizeof(bare_bytes));
}

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
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        read_all(in, bare_bytes, n_request);
        CHECK(write(out, bare_bytes, n_response) == (ssize_t)n_response);
    }
}

static void start_bare(void)
{
    int to[2], from[2];
    size_t i;
    pid_t pid;

    for (i = 0; i < AGENTS; i++) {
        CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
        pid = fork();
        CHECK(pid >= 0);
        if (pid == 0)
            be_echo(to[0], from[1]);
        bare_to[i] = to[1];
        bare_from[i] = from[0];
    }
}

static double bare_round_us(void)
{
    uint64_t begin = uv_hrtime();

    for (size_t i = 0; i < AGENTS; i++)
        CHECK(write(bare_to[i], bare_bytes, n_request) == (ssize_t)n_request);
    for (size_t i = 0; i < AGENTS; i++)
        read_all(bare_from[i], bare_bytes, n_response);
    return (double)(uv_hrtime() - begin) / 1e3;
}

/* The agents' computation, without processes and messages */

/* The products of the acts since `listing` was set; the linker sends the algorithm's
 * calls of session_run here. */
static struct dense gemms[AGENTS * MAX_GEMMS];
static size_t n_gemms;
static int listing;

int __real_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);
int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);
int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err)
{
    int r = __real_session_run(s, args, ret, err);

    if (listing)
        n_gemms += session_gemms(s, args, gemms + n_gemms, MAX_GEMMS);
    return r;
}

static double act_us(struct team *t)
{
    static float actions[MAX_COPIES * SPREAD_MOVES];
    static uint64_t counter[MAX_COPIES], first[MAX_COPIES];
    uint64_t begin = uv_hrtime();

    bench.step += bench.agents.copies;
    for (size_t e = 0; e < bench.agents.copies; e++)
        counter[e] = bench.step + e;
    for (size_t i = 0; i < AGENTS; i++) {
        const struct member *m = &t->members[i];
        const struct act_args args = {.n_copies = bench.agents.copies,
                                      .obs = vec_env_obs(bench.agents.env, i),
                                      .key = rng_key_make(1, "agent", PURPOSE_ACT),
                                      .counter = counter,
                                      .draw_first = first};
        struct act_result result = {.actions = actions};

        CHECK(m->ops->act(m->algo, m->session, &args, &result, NULL) == 0);
    }
    return (double)(uv_hrtime() - begin) / 1e3;
}

static void list_products(struct team *t)
{
    listing = 1;
    n_gemms = 0;
    (void)act_us(t);
    listing = 0;
    CHECK(n_gemms == AGENTS * MAX_GEMMS, "%zu products", n_gemms);
    yardstick_prepare(gemms, n_gemms);
}

static double products_us(void)
{
    uint64_t begin = uv_hrtime();

    yardstick_run(gemms, n_gemms);
    return (double)(uv_hrtime() - begin) / 1e3;
}

static double cpu_us(clockid_t clock)
{
    struct timespec t;

    CHECK(clock_gettime(clock, &t) == 0);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double agents_cpu_us(void)
{
    double sum = 0;

    for (size_t i = 0; i < AGENTS; i++) {
        struct agent_info info;
        clockid_t clock;

        agent_table_info(bench.agents.table, i, &info);
        CHECK(clock_getcpuclockid(info.pid, &clock) == 0);
        sum += cpu_us(clock);
    }
    return sum;
}

static void stop_bare(void)
{
    for (size_t i = 0; i < AGENTS; i++) {
        (void)close(bare_to[i]); /* the echo reads end of file and exits */
        (void)close(bare_from[i]);
    }
}

struct figures {
    double round, bare, acts, products; /* medians, of a round */
    double agents, supervisor;          /* processor time, means */
};

static struct figures measure(struct team *team)
{
    static double bare[BLOCKS * ROUNDS], acts[BLOCKS * ROUNDS], products[BLOCKS * ROUNDS];
    struct figures f = {0};
    size_t n = 0;

    bench.n_us = 0;
    list_products(team);
    for (size_t block = 0; block < BLOCKS; block++) {
        for (size_t i = 0; i < ROUNDS; i++, n++) {
            bare[n] = bare_round_us();
            acts[n] = act_us(team);
            products[n] = products_us();
        }
        f.agents -= agents_cpu_us();
        f.supervisor -= cpu_us(CLOCK_PROCESS_CPUTIME_ID);
        bench.n_rounds = ROUNDS;
        begin_round();
        (void)uv_run(&bench.agents.loop, UV_RUN_DEFAULT);
        f.agents += agents_cpu_us();
        f.supervisor += cpu_us(CLOCK_PROCESS_CPUTIME_ID);
    }
    f.agents /= (double)n;
    f.supervisor /= (double)n;
    f.round = median(bench.us, bench.n_us);
    f.bare = median(bare, n);
    f.acts = median(acts, n);
    f.products = median(products, n);
    return f;
}

static void bench_copies(size_t copies)
{
    const struct team_args spread =
        team_spread("{actor: {hidden: [64, 64]}, critic: {hidden: [64, 64]}}", 1);
    struct team *team = team_new(&spread);
    struct figures f;

    spread_agents_start(&bench.agents, copies);
    measure_frames();
    start_bare();
    f = measure(team);
    stop_bare();
    spread_agents_stop(&bench.agents);
    team_free(team);
    printf("act round, %d agents, %zu copies, %zu bytes there and %zu back, one core: "
           "%.1f us, bare pipes %.1f us, ratio %.2f (goal: at most 2)\n",
           AGENTS, copies, n_request, n_response, f.round, f.bare, f.round / f.bare);
    printf("  %d acts without processes %.1f us (their matrix products alone %.1f us), "
           "the rest is %.2f times bare pipes; on the core: agents %.1f us, supervisor "
           "%.1f us\n",
           AGENTS, f.acts, f.products, (f.round - f.acts) / f.bare, f.agents,
           f.supervisor);
}

int main(int argc, char **argv)
{
    const int copies = argc > 1 ? atoi(argv[1]) : 0;
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
    CHECK(copies >= 0 && copies <= MAX_COPIES);
    bench_copies(copies > 0 ? (size_t)copies : 1);
    if (copies == 0)
        bench_copies(MAX_COPIES);
    return 0;
}
