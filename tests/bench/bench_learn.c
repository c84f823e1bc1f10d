/* One agent's whole learning, stages `critic` and `learn`, with the shipped simple_spread
 * (three agents, observations of 18, five moves, 64-64 networks): gathering rows,
 * targets, critic, policy, both target networks. Compared with OpenBLAS's time for the
 * same matrix products alone (yardstick.h), measured alternately; medians.
 *
 *     bench_learn [rounds [batch [section]]]    section: of an agent with these stages, as
 *                                               "{algorithm: matd3}"; batch 0: several
 */
#include "agent/session/session_internal.h"
#include "common/err/check.h"
#include "common/rng/rng.h"
#include "tests/bench/breakdown.h"
#include "tests/bench/median.h"
#include "tests/bench/yardstick.h"
#include "tests/support/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N_ROWS     100000
#define MAX_BATCH  1024
#define MAX_GEMMS  64
#define MAX_ROUNDS 100000

/* The products of the runs since the last reset, listed by the wrapper below. */
static struct dense gemms[MAX_GEMMS];
static size_t n_gemms;
static int listing;

/* The linker sends the algorithm's calls of session_run here. */
int __real_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);
int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);
int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err)
{
    int r = __real_session_run(s, args, ret, err);

    if (listing)
        n_gemms += session_gemms(s, args, gemms + n_gemms, MAX_GEMMS - n_gemms);
    return r;
}

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void learn(struct team *t, uint64_t update, const uint64_t *rows, int64_t batch)
{
    struct stage_result res;
    struct err err;

    CHECK(team_stage(t, 0, "critic", update, rows, 1, batch, NULL, &res, &err) == 0, "%s",
          err.msg);
    CHECK(team_stage(t, 0, "learn", update, rows, 1, batch, NULL, &res, &err) == 0, "%s",
          err.msg);
}

static void list_products(struct team *t, const uint64_t *rows, int64_t batch)
{
    n_gemms = 0;
    listing = 1;
    learn(t, 0, rows, batch);
    listing = 0;
    yardstick_prepare(gemms, n_gemms);
}

/* Each round gets fresh rows, as in a run. */
static void break_down(struct team *t, int64_t batch, size_t rounds)
{
    uint64_t rows[MAX_BATCH];

    for (size_t r = 0; r < rounds; r++) {
        rng_below(rng_key_make(2, "bench", "rows"), r, 0, N_ROWS, rows, (size_t)batch);
        breakdown_begin();
        learn(t, 1 + r, rows, batch);
        breakdown_round();
    }
    breakdown_end();
}

static void measure(struct team *t, int64_t batch, size_t rounds)
{
    static double stage[MAX_ROUNDS], alone[MAX_ROUNDS];
    uint64_t rows[MAX_BATCH];
    double s, a, peak;

    for (size_t r = 0; r < rounds; r++) {
        double t0, t1;

        rng_below(rng_key_make(1, "bench", "rows"), r, 0, N_ROWS, rows, (size_t)batch);
        if (r == 0) /* makes everyone's proposals and the plans */
            team_update(t, r, rows, 1, batch, NULL);
        if (r == 0)
            list_products(t, rows, batch);
        t0 = now_us();
        learn(t, 1 + r, rows, batch);
        stage[r] = now_us() - t0;
        t1 = now_us();
        yardstick_run(gemms, n_gemms);
        alone[r] = now_us() - t1;
    }
    s = median(stage, rounds);
    a = median(alone, rounds);
    peak = yardstick_flop(gemms, n_gemms) / yardstick_peak() * 1e6;
    (void)printf("batch %4lld: learn %7.1f us, its %zu products alone %7.1f us, ratio "
                 "%.2f; at the core's peak %7.1f us, ratio %.2f\n",
                 (long long)batch, s, n_gemms, a, s / a, peak, s / peak);
    break_down(t, batch, rounds);
}

int main(int argc, char **argv)
{
    const struct team_args args = team_spread(argc > 3 ? argv[3] : "{}", N_ROWS);
    const int rounds = argc > 1 ? atoi(argv[1]) : 300;
    const int only = argc > 2 ? atoi(argv[2]) : 0;
    struct team *t = team_new(&args);

    CHECK(rounds > 0 && rounds <= MAX_ROUNDS);
    for (int64_t batch = 64; batch <= MAX_BATCH; batch *= 4)
        if (only == 0 || batch == only)
            measure(t, batch, (size_t)rounds);
    team_free(t);
    return 0;
}
