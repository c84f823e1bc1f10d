/* bench_checkpoint.c - how much a due checkpoint delays training: the time from the last
 * answer to `learn` to the next request, at boundaries with and without a checkpoint, in
 * one run of three real agents with the networks of configs/simple_spread.yaml. Medians.
 * A checkpoint that had to wait for the previous one to be written is not counted.
 */
#include "common/err/check.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "supervisor/env/env.h"
#include "supervisor/run/training.h"
#include "supervisor/save/run_saver.h"
#include "tests/bench/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_AGENTS = 8, MAX_TIMES = 10000 };

static const char config_text[] =
    "run: {name: bench, env_steps: 160000}\n"
    "env: {id: simple_spread, copies: 32}\n"
    "experience: {capacity: 1000000, batch_size: 64, warmup: 64, update_every: 32}\n"
    "checkpoint: {every_env_steps: 1600}\n"
    "evaluation: {every_env_steps: 0}\n"
    "log: {every_env_steps: 1000000}\n";

static struct {
    const char *method; /* of the request under construction */
    struct {
        agent_response_fn fn;
        void *ctx;
        int is_learn;
    } asked[MAX_AGENTS];
    uint64_t answered_ns; /* of the last answer; 0: it was no `learn` */
    int checkpoints;      /* begun since the last answer */
    int waited;           /* since then, a checkpoint had to wait for the one before */
    size_t n_waited;
    double us[2][MAX_TIMES]; /* without a checkpoint, with one */
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
int __real_run_saver_begin(struct run_saver *s, const struct save_point *p,
                           struct err *err);
int __wrap_run_saver_begin(struct run_saver *s, const struct save_point *p,
                           struct err *err);

int __real_run_saver_is_busy(const struct run_saver *c);
int __wrap_run_saver_is_busy(const struct run_saver *c);

int __wrap_run_saver_is_busy(const struct run_saver *c)
{
    int busy = __real_run_saver_is_busy(c);

    bench.waited |= busy;
    return busy;
}

/* At the first request after an answer, all time since the answer belongs to the
 * boundary. */
struct msg_out *__wrap_agent_request_begin(struct agent_table *t, size_t agent,
                                           const char *method, int writes)
{
    int with = bench.checkpoints > 0;

    bench.n_waited += bench.waited != 0;
    if (bench.answered_ns != 0 && strcmp(method, "act") == 0 && !bench.waited &&
        bench.n[with] < MAX_TIMES)
        bench.us[with][bench.n[with]++] = (double)(uv_hrtime() - bench.answered_ns) / 1e3;
    bench.answered_ns = 0;
    bench.waited = 0;
    bench.method = method;
    return __real_agent_request_begin(t, agent, method, writes);
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    (void)ctx;
    bench.answered_ns = bench.asked[agent].is_learn ? uv_hrtime() : 0;
    bench.checkpoints = 0;
    bench.asked[agent].fn(bench.asked[agent].ctx, agent, response);
}

int __wrap_agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                              void *ctx, struct err *err)
{
    CHECK(agent < MAX_AGENTS);
    bench.asked[agent].fn = fn;
    bench.asked[agent].ctx = ctx;
    bench.asked[agent].is_learn = strcmp(bench.method, "learn") == 0;
    return __real_agent_request_send(t, agent, on_response, ctx, err);
}

int __wrap_run_saver_begin(struct run_saver *s, const struct save_point *p,
                           struct err *err)
{
    bench.checkpoints++;
    return __real_run_saver_begin(s, p, err);
}

static void train(const char *runs)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct binaries binaries = {.build_id = "bench"};
    struct run_config config;
    struct training_args args = {.config = &config, .binaries = &binaries};
    struct training_result result;
    struct err err = {0};

    (void)snprintf(binaries.agent, sizeof(binaries.agent), "%s/agent/brood-agent",
                   getenv("BROOD_BUILD_DIR"));
    CHECK(run_config_parse(&config, config_text, strlen(config_text), "bench", &options,
                           &err) == 0,
          "%s", err.msg);
    CHECK(run_dir_create(&args.dir, runs, "bench", "bench", 0, 0700, &err) == 0, "%s",
          err.msg);
    CHECK(training_run(&args, &result, &err) == 0, "%s", err.msg);
    run_dir_free(args.dir);
    run_config_done(&config);
}

int main(void)
{
    char runs[] = "/tmp/brood-bench-XXXXXX";
    double without, with;

    log_init("bench", LOG_LEVEL_ERROR, STDERR_FILENO);
    CHECK(mkdtemp(runs) != NULL);
    train(runs);
    CHECK(tree_remove(runs, NULL) == 0);
    without = median(bench.us[0], bench.n[0]);
    with = median(bench.us[1], bench.n[1]);
    (void)printf("last learn answer to next request: %.1f us, with a checkpoint %.1f us "
                 "(%zu of them, %zu more waited): %.1f us more\n",
                 without, with, bench.n[1], bench.n_waited, with - without);
    return 0;
}
