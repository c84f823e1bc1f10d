/* bench_share.c - an optimiser step that three agents share through a ps process, on two
 * cores, against the same step in one process: iql on simple_spread, where three agents
 * of B rows each, or one of 3 B rows, make a step of one network. Real runs: driver,
 * processes, log and messages are those of `brood run`. Prints the shortest update of
 * each; then the bytes of a shared step, in messages and in the group's memory.
 *
 * With fewer than two cores it prints a message and measures nothing.
 *
 *     bench_share [BATCH...]
 */
#include "common/err/check.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/store/share_ring.h"
#include "supervisor/chan/chan.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent.h"
#include "supervisor/run/training.h"
#include "tests/bench/cores.h"
#include "tests/bench/median.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGENTS = 3, CORES = 2, UPDATES = 300, WARMUP = 20, ROUNDS = 3 };

static const char config_text[] =
    "run: {name: bench, env_steps: %d}\n"
    "env: {id: simple_spread, copies: 32, params: {agents: %d}}\n"
    "experience: {batch_size: %d, warmup: %d, update_every: 32}\n"
    "defaults: {algorithm: iql, critic: {hidden: [128, 128]}%s}\n"
    "%s"
    "evaluation: {every_env_steps: 0}\n"
    "checkpoint: {every_env_steps: 0}\n"
    "log: {every_env_steps: 100000000}\n";
static const char others[] =
    "agents: {agent_1: {algorithm: random}, agent_2: {algorithm: random}}\n";

struct measured {
    double us;                          /* the shortest update */
    double message_bytes, shared_bytes; /* of an update */
};

static struct {
    size_t n_updates;
    uint64_t began_bytes, bytes; /* of messages sent and received */
    double us[UPDATES], update_bytes[UPDATES];
    double shared_bytes;
} bench;

void __real_metrics_add_update(struct metrics *m, uint64_t duration_ns);
void __wrap_metrics_add_update(struct metrics *m, uint64_t duration_ns);
void __real_rollout_draw(struct rollout *r);
void __wrap_rollout_draw(struct rollout *r);
int __real_chan_send(struct chan *c, const uint8_t *frame, size_t len, struct err *err);
int __wrap_chan_send(struct chan *c, const uint8_t *frame, size_t len, struct err *err);
void __real_agent_handle_message(struct agent *a, const uint8_t *data, size_t len);
void __wrap_agent_handle_message(struct agent *a, const uint8_t *data, size_t len);
int __real_share_ring_init(struct share_ring *ret, uint64_t members, uint64_t elements,
                           struct err *err);
int __wrap_share_ring_init(struct share_ring *ret, uint64_t members, uint64_t elements,
                           struct err *err);

int __wrap_chan_send(struct chan *c, const uint8_t *frame, size_t len, struct err *err)
{
    bench.bytes += len;
    return __real_chan_send(c, frame, len, err);
}

void __wrap_agent_handle_message(struct agent *a, const uint8_t *data, size_t len)
{
    bench.bytes += len;
    __real_agent_handle_message(a, data, len);
}

/* In a step each member and the ps write one vector, and all are read: the gradients by
 * the ps, its values by every member. */
int __wrap_share_ring_init(struct share_ring *ret, uint64_t members, uint64_t elements,
                           struct err *err)
{
    bench.shared_bytes = (double)((3 * members + 1) * elements * sizeof(float));
    return __real_share_ring_init(ret, members, elements, err);
}

void __wrap_rollout_draw(struct rollout *r)
{
    bench.began_bytes = bench.bytes;
    __real_rollout_draw(r);
}

void __wrap_metrics_add_update(struct metrics *m, uint64_t duration_ns)
{
    const size_t n = bench.n_updates++;

    __real_metrics_add_update(m, duration_ns);
    if (n < WARMUP || n - WARMUP >= UPDATES)
        return;
    bench.us[n - WARMUP] = (double)duration_ns / 1e3;
    bench.update_bytes[n - WARMUP] = (double)(bench.bytes - bench.began_bytes);
}

static void train(int batch, int shared, struct measured *ret)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct binaries binaries = {.build_id = "bench"};
    struct run_config config;
    struct training_args args = {.config = &config, .binaries = &binaries};
    struct training_result result;
    char runs[] = "/tmp/brood-bench-XXXXXX", text[sizeof(config_text) + 128];
    const int rows = shared ? batch : AGENTS * batch;
    struct err err = {0};

    CHECK(mkdtemp(runs) != NULL);
    (void)snprintf(binaries.agent, sizeof(binaries.agent), "%s/agent/brood-agent",
                   getenv("BROOD_BUILD_DIR"));
    (void)snprintf(text, sizeof(text), config_text, rows + 32 * (WARMUP + UPDATES + 1),
                   AGENTS, rows, rows, shared ? ", share: team" : "",
                   shared ? "" : others);
    CHECK(run_config_parse(&config, text, strlen(text), "bench", &options, &err) == 0,
          "%s", err.msg);
    CHECK(run_dir_create(&args.dir, runs, "bench", "bench", 0, 0700, &err) == 0, "%s",
          err.msg);
    CHECK(training_run(&args, &result, &err) == 0, "%s", err.msg);
    run_dir_free(args.dir);
    run_config_done(&config);
    CHECK(tree_remove(runs, NULL) == 0);
    CHECK(bench.n_updates >= WARMUP + UPDATES, "%zu updates", bench.n_updates);
    ret->message_bytes = median(bench.update_bytes, UPDATES);
    ret->shared_bytes = bench.shared_bytes;
    (void)median(bench.us, UPDATES);
    ret->us = bench.us[0]; /* median() has sorted them */
}

/* Runs in a process of its own. Keeps the least of several measurements. */
static void measure(int batch, int shared, struct measured *least)
{
    struct measured m;
    int ends[2], status;
    pid_t pid;

    (void)fflush(stdout);
    CHECK(pipe(ends) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        train(batch, shared, &m);
        _exit(write(ends[1], &m, sizeof(m)) == sizeof(m) ? 0 : 1);
    }
    (void)close(ends[1]);
    CHECK(read(ends[0], &m, sizeof(m)) == sizeof(m));
    (void)close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    if (least->us == 0 || m.us < least->us)
        *least = m;
}

static void compare(int batch)
{
    struct measured shared = {0}, alone = {0};

    for (int i = 0; i < ROUNDS; i++) {
        measure(batch, 1, &shared);
        measure(batch, 0, &alone);
    }
    (void)printf(
        "%d x %5d rows: shared step %8.1f us, in one process %8.1f us, ratio "
        "%.2f (at most 0.8 above 1 ms); %.1f kB in messages, %.1f kB in memory\n",
        AGENTS, batch, shared.us, alone.us, shared.us / alone.us,
        shared.message_bytes / 1e3, shared.shared_bytes / 1e3);
}

int main(int argc, char **argv)
{
    log_init("bench", LOG_LEVEL_ERROR, STDERR_FILENO);
    if (cores_keep(CORES) < CORES) {
        (void)printf("a shared step on %d cores: there is only one here\n", CORES);
        return 0;
    }
    for (int i = 1; i < argc; i++)
        compare(atoi(argv[i]));
    for (int batch = 64; argc == 1 && batch <= 1024; batch *= 4)
        compare(batch);
    return 0;
}
