/* bench_round.c - what an act round costs: three agents as shipped (simple_spread,
 * networks 64-64) through agent_table, against three bare processes that take and give as
 * many bytes over bare pipes, for one copy of the environment and for 32. Everything on
 * one core; blocks of rounds of either kind alternate; medians.
 *
 * An agent computes, an echo does not: what three acts cost in one process, without any
 * message, and what their matrix products alone cost, is measured too, and so is the time
 * the agents and the supervisor were on the core.
 *
 *     bench_round [copies]
 */
#include "agent/session/plan.h"
#include "common/err/check.h"
#include "common/msg/protocol.h"
#include "common/rng/rng.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/run/agent_specs.h"
#include "tests/support/team.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
    AGENTS = 3,
    MAX_COPIES = 32,
    MOVES = 5,
    OBS = 18,
    MAX_GEMMS = 3,
    BLOCKS = 20,
    ROUNDS = 500
};

static const char config_text[] =
    "env: {id: simple_spread, copies: %zu, params: {agents: 3}}\n"
    "defaults: {actor: {hidden: [64, 64]}, critic: {hidden: [64, 64]}}\n";

struct bench {
    size_t copies;
    uv_loop_t loop;
    struct run_config config;
    struct vec_env *env;
    struct agent_specs specs;
    struct agent_table *table;
    int is_ready;
    uint64_t step;
    size_t n_waiting, n_rounds; /* of this block */
    uint64_t begun_at;
    double us[BLOCKS * ROUNDS];
    size_t n_us;
};

static struct bench bench;

static void on_response(void *ctx, size_t agent, const struct msg *response);

/* As the driver packs it. */
static void pack_act(struct msg_out *o, size_t agent)
{
    struct tensor obs = tensor_const_view(DT_FLOAT, SHAPE((int64_t)bench.copies, OBS),
                                          vec_env_obs(bench.env, agent));

    msg_map(o, 3);
    msg_key(o, "mode");
    msg_u64(o, ACT_EXPLORE);
    msg_key(o, "step");
    msg_u64(o, bench.step);
    msg_key(o, "obs");
    msg_tensor(o, &obs);
}

static void begin_round(void)
{
    bench.begun_at = uv_hrtime();
    bench.n_waiting = AGENTS;
    bench.step += bench.copies;
    for (size_t i = 0; i < AGENTS; i++) {
        pack_act(agent_request_begin(bench.table, i, "act", 0), i);
        CHECK(agent_request_send(bench.table, i, on_response, NULL, NULL) == 0);
    }
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    struct tensor actions = TENSOR_NONE;

    CHECK(msg_get_tensor(&response->body, "actions", &actions, NULL) == 0 &&
          tensor_elements(&actions) == (int64_t)bench.copies * MOVES);
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
    rollout_pack_configure(&bench.config, vec_env_spec(bench.env), agent, restored, NULL,
                           o);
}

static void make_world(void)
{
    const struct config_options options = {.env_names = env_agent_names};
    char text[256];

    (void)snprintf(text, sizeof(text), config_text, bench.copies);
    CHECK(run_config_parse(&bench.config, text, strlen(text), "bench", &options, NULL) ==
          0);
    CHECK(vec_env_new(&bench.env, &bench.config.env, 1, ENV_DRAWS_TRAINING, 0, NULL) ==
          0);
    vec_env_reset(bench.env);
}

static void start_agents(void)
{
    const struct agent_callbacks cb = {
        .on_ready = on_ready, .on_failed = on_failed, .on_stopped = on_stopped};
    char exe[512];
    int fd;

    (void)snprintf(exe, sizeof(exe), "%s/agent/brood-agent", getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0, "%s", exe);
    agent_specs_init(&bench.specs, &bench.config, vec_env_spec(bench.env), 0, NULL,
                     pack_configure);
    CHECK(agent_table_new(&bench.table, &bench.loop, fd, -1, bench.specs.spec,
                          bench.specs.n, &cb, NULL) == 0);
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
    agent_specs_done(&bench.specs);
}

/* The bare side */

static int bare_to[AGENTS], bare_from[AGENTS];
static uint8_t bare_bytes[8192];
static size_t n_request, n_response; /* bytes of a frame */

static void measure_frames(void)
{
    static const float actions[MAX_COPIES * MOVES];
    struct tensor t =
        tensor_const_view(DT_FLOAT, SHAPE((int64_t)bench.copies, MOVES), actions);
    const uint8_t *frame;
    struct msg_out o;

    msg_out_init(&o);
    msg_begin_request(&o, 1000, "act");
    pack_act(&o, 0);
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
    uint64_t begin = uv_hrtime();

    for (size_t i = 0; i < AGENTS; i++)
        CHECK(write(bare_to[i], bare_bytes, n_request) == (ssize_t)n_request);
    for (size_t i = 0; i < AGENTS; i++)
        read_all(bare_from[i], bare_bytes, n_response);
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

/* What computes, without processes and messages */

/* The products of the acts since `listing` was set; the linker sends the algorithm's
 * calls of session_run here. */
static struct gemm gemms[AGENTS * MAX_GEMMS];
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
    static float actions[MAX_COPIES * MOVES];
    static uint64_t counter[MAX_COPIES], first[MAX_COPIES];
    uint64_t begin = uv_hrtime();

    bench.step += bench.copies;
    for (size_t e = 0; e < bench.copies; e++)
        counter[e] = bench.step + e;
    for (size_t i = 0; i < AGENTS; i++) {
        const struct member *m = &t->members[i];
        const struct act_args args = {.n_copies = bench.copies,
                                      .obs = vec_env_obs(bench.env, i),
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
}

static double products_us(void)
{
    static _Alignas(64) float out[MAX_COPIES * 64];
    uint64_t begin = uv_hrtime();

    for (size_t i = 0; i < n_gemms; i++)
        gemm_rows(&gemms[i], 0, gemms[i].m, out, gemms[i].ldc);
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

        agent_table_info(bench.table, i, &info);
        CHECK(clock_getcpuclockid(info.pid, &clock) == 0);
        sum += cpu_us(clock);
    }
    return sum;
}

static void stop_bare(void)
{
    for (size_t i = 0; i < AGENTS; i++) {
        (void)close(bare_to[i]); /* the echo reads end of file, and goes */
        (void)close(bare_from[i]);
    }
}

struct figures {
    double round, bare, acts, products; /* medians of a round */
    double agents, supervisor;          /* on the core, means */
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
        (void)uv_run(&bench.loop, UV_RUN_DEFAULT);
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

    bench.copies = copies;
    bench.is_ready = 0;
    make_world();
    measure_frames();
    start_agents();
    start_bare();
    f = measure(team);
    stop_bare();
    stop_agents();
    team_free(team);
    vec_env_free(bench.env);
    run_config_done(&bench.config);
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
    (void)uv_loop_init(&bench.loop);
    CHECK(copies >= 0 && copies <= MAX_COPIES);
    bench_copies(copies > 0 ? (size_t)copies : 1);
    if (copies == 0)
        bench_copies(MAX_COPIES);
    return 0;
}
