/* bench_update.c - how well learners share the cores: an update (propose and learn) of
 * the three agents of configs/simple_spread.yaml together, against one agent's alone, on
 * two cores. One real run: driver, processes and log are those of `brood run`. In every
 * other block of updates the requests of the stages go out as the driver sends them. In
 * the blocks between, this program holds them back so that one agent computes at a time;
 * a third of such an update is the time of one agent alone. Medians.
 *
 * On two cores, three uninterrupted stages take the time of 2 stages; the ideal is 1.5.
 * With fewer than two cores it prints a message and measures nothing.
 *
 *     bench_update [batch size]
 */
#include "common/err/check.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "supervisor/env/env.h"
#include "supervisor/run/training.h"
#include "tests/bench/cores.h"
#include "tests/bench/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGENTS = 3, CORES = 2, BLOCK = 20, WARMUP = 40, UPDATES = 1200 };

static const char config_text[] =
    "run: {name: bench, env_steps: %d}\n"
    "env: {id: simple_spread, copies: 32, params: {agents: %d}}\n"
    "experience: {batch_size: %d, warmup: %d, update_every: 32}\n"
    "defaults: {actor: {hidden: [64, 64]}, critic: {hidden: [64, 64]}}\n"
    "evaluation: {every_env_steps: 0}\n"
    "checkpoint: {every_env_steps: 0}\n"
    "log: {every_env_steps: 1000000}\n";

struct asked { /* a request of an agent, and whether it is still held back */
    struct agent_table *table;
    agent_response_fn fn;
    void *ctx;
    int is_stage, is_learn, is_held;
};

static struct {
    const char *method; /* of the request under construction */
    struct asked asked[AGENTS];
    int is_alone;     /* in this update, one agent computes at a time */
    int is_under_way; /* an update is under way */
    int n_out;        /* stage requests that agents are working on */
    size_t n_learned; /* answers to `learn` in this update */
    size_t n_updates;
    uint64_t begun_ns;
    double us[2][UPDATES]; /* all agents together; one at a time */
    size_t n[2];
} bench;

struct msg_out *__real_agent_request_begin(struct agent_table *t, size_t agent,
                                           const char *method, int writes);
struct msg_out *__wrap_agent_request_begin(struct agent_table *t, size_t agent,
                                           const char *method, int writes);
int __real_agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                              void *ctx, struct err *err);
int __wrap_agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                              void *ctx, struct err *err);

struct msg_out *__wrap_agent_request_begin(struct agent_table *t, size_t agent,
                                           const char *method, int writes)
{
    bench.method = method;
    return __real_agent_request_begin(t, agent, method, writes);
}

static void begin_update(void)
{
    bench.n_updates++;
    bench.n_learned = 0;
    bench.is_under_way = 1;
    bench.is_alone = bench.n_updates / BLOCK % 2 == 1;
    bench.begun_ns = uv_hrtime();
}

static void end_update(void)
{
    const double us = (double)(uv_hrtime() - bench.begun_ns) / 1e3;

    bench.is_under_way = 0;
    if (bench.n_updates > WARMUP && bench.n[bench.is_alone] < UPDATES)
        bench.us[bench.is_alone][bench.n[bench.is_alone]++] = us;
}

static void on_response(void *ctx, size_t agent, const struct msg *response);

static void send_held(void)
{
    for (size_t a = 0; a < AGENTS && bench.n_out == 0; a++) {
        struct asked *q = &bench.asked[a];

        if (!q->is_held)
            continue;
        q->is_held = 0;
        bench.n_out++;
        CHECK(__real_agent_request_send(q->table, a, on_response, NULL, NULL) == 0);
    }
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    const struct asked q = bench.asked[agent];

    if (q.is_stage) {
        bench.n_out--;
        bench.n_learned += q.is_learn;
        if (bench.n_learned == AGENTS)
            end_update();
        else if (bench.is_alone)
            send_held();
    }
    q.fn(q.ctx, agent, response);
}

int __wrap_agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                              void *ctx, struct err *err)
{
    const int is_learn = strcmp(bench.method, "learn") == 0;
    const int is_stage = is_learn || strcmp(bench.method, "propose") == 0 ||
                         strcmp(bench.method, "critic") == 0;
    struct asked *q = &bench.asked[agent];

    CHECK(agent < AGENTS);
    *q = (struct asked){
        .table = t, .fn = fn, .ctx = ctx, .is_stage = is_stage, .is_learn = is_learn};
    if (is_stage && !bench.is_under_way)
        begin_update();
    if (is_stage && bench.is_alone && bench.n_out > 0) {
        q->is_held = 1;
        return 0;
    }
    bench.n_out += is_stage;
    return __real_agent_request_send(t, agent, on_response, NULL, err);
}

static void train(const char *runs, int batch)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct binaries binaries = {.build_id = "bench"};
    struct run_config config;
    struct training_args args = {.config = &config, .binaries = &binaries};
    struct training_result result;
    struct err err = {0};
    char text[sizeof(config_text) + 64];

    (void)snprintf(binaries.agent, sizeof(binaries.agent), "%s/agent/brood-agent",
                   getenv("BROOD_BUILD_DIR"));
    (void)snprintf(text, sizeof(text), config_text, batch + 32 * UPDATES, AGENTS, batch,
                   batch);
    CHECK(run_config_parse(&config, text, strlen(text), "bench", &options, &err) == 0,
          "%s", err.msg);
    CHECK(run_dir_create(&args.dir, runs, "bench", "bench", 0, 0700, &err) == 0, "%s",
          err.msg);
    CHECK(training_run(&args, &result, &err) == 0, "%s", err.msg);
    run_dir_free(args.dir);
    run_config_done(&config);
}

int main(int argc, char **argv)
{
    const int batch = argc > 1 ? atoi(argv[1]) : 1024;
    char runs[] = "/tmp/brood-bench-XXXXXX";
    double together, alone;

    CHECK(batch > 0);
    log_init("bench", LOG_LEVEL_ERROR, STDERR_FILENO);
    if (cores_keep(CORES) < CORES) {
        (void)printf("update of %d learners on %d cores: there is only one here\n",
                     AGENTS, CORES);
        return 0;
    }
    CHECK(mkdtemp(runs) != NULL);
    train(runs, batch);
    CHECK(tree_remove(runs, NULL) == 0);
    together = median(bench.us[0], bench.n[0]);
    alone = median(bench.us[1], bench.n[1]) / AGENTS;
    (void)printf("update at batch %d, %d learners on %d cores: %.1f us together, %.1f us "
                 "one alone, ratio %.2f (goal: at most 1.65)\n",
                 batch, AGENTS, CORES, together, alone, together / alone);
    return 0;
}
