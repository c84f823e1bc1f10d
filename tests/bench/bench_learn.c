/* One agent's whole learning, stages `critic` and `learn`, as simple_spread is shipped (three agents, observations
 * of 18, five moves, 64-64 networks): rows gathered, targets, critic, policy, both target
 * networks; against its own matrix products alone, replayed with the same operands and
 * chunks. Both in turn, medians.
 *
 *     bench_learn [rounds]
 */
#include "agent/session/plan.h"
#include "common/err/check.h"
#include "common/rng/rng.h"
#include "tests/bench/median.h"
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
static struct gemm gemms[MAX_GEMMS];
static size_t n_gemms;

/* The linker sends the algorithm's calls of session_run here. */
int __real_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);
int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err);
int __wrap_session_run(struct session *s, const struct run_args *args, struct tensor *ret,
                       struct err *err)
{
    int r = __real_session_run(s, args, ret, err);

    if (n_gemms < MAX_GEMMS)
        n_gemms += session_gemms(s, args, gemms + n_gemms, MAX_GEMMS - n_gemms);
    return r;
}

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void replay(float *c)
{
    for (size_t i = 0; i < n_gemms; i++) {
        const struct gemm *g = &gemms[i];
        const int64_t step = g->transpose_a ? g->m : GEMM_CHUNK;

        for (int64_t row = 0; row < g->m; row += step)
            gemm_rows(g, row, g->m - row < step ? g->m - row : step, c + row * g->ldc,
                      g->ldc);
    }
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

static void measure(struct team *t, int64_t batch, size_t rounds, float *out)
{
    static double stage[MAX_ROUNDS], alone[MAX_ROUNDS];
    uint64_t rows[MAX_BATCH];
    double s, a;

    for (size_t r = 0; r < rounds; r++) {
        double t0, t1;

        rng_below(rng_key_make(1, "bench", "rows"), r, 0, N_ROWS, rows, (size_t)batch);
        if (r == 0) /* proposals of everyone; plans are made */
            team_update(t, r, rows, 1, batch, NULL);
        n_gemms = MAX_GEMMS; /* not while the clock runs */
        t0 = now_us();
        learn(t, 1 + 2 * r, rows, batch);
        stage[r] = now_us() - t0;
        n_gemms = 0;
        learn(t, 2 + 2 * r, rows, batch);
        t1 = now_us();
        replay(out);
        alone[r] = now_us() - t1;
    }
    s = median(stage, rounds);
    a = median(alone, rounds);
    (void)printf("batch %4lld: learn %7.1f us, its %zu products alone %7.1f us, ratio "
                 "%.2f\n",
                 (long long)batch, s, n_gemms, a, s / a);
}

int main(int argc, char **argv)
{
    const struct team_args args = team_spread("{}", N_ROWS);
    const int rounds = argc > 1 ? atoi(argv[1]) : 300;
    float *out = aligned_alloc(64, MAX_BATCH * 128 * sizeof(float));
    struct team *t = team_new(&args);

    CHECK(out != NULL && rounds > 0 && rounds <= MAX_ROUNDS);
    memset(out, 0, MAX_BATCH * 128 * sizeof(float));
    for (int64_t batch = 64; batch <= MAX_BATCH; batch *= 4)
        measure(t, batch, (size_t)rounds, out);
    team_free(t);
    free(out);
    return 0;
}
