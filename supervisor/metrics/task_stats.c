#include "supervisor/metrics/task_stats.h"

#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "supervisor/metrics/seed_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const task_stat_names[TASK_STATS] = {[TASK_IQM] = "iqm",
                                                 [TASK_MEDIAN] = "median",
                                                 [TASK_MEAN] = "mean",
                                                 [TASK_GAP] = "optimality_gap"};

enum { MEASURES = TASK_STATS + TASK_TAUS }; /* the statistics, then the profile */

static double mean_of(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* One resample of the scores; u: room for the draws of one task. */
static void resample(const struct task_scores *s, size_t r, double *u, double *ret)
{
    const struct rng_key key = rng_key_make(0, s->name, "tasks");

    for (size_t t = 0; t < s->tasks; t++) {
        rng_uniform_f64(key, r, t * s->runs, u, s->runs);
        for (size_t i = 0; i < s->runs; i++)
            ret[t * s->runs + i] =
                s->score[t * s->runs + (size_t)(u[i] * (double)s->runs)];
    }
}

/* Measures scores (tasks, runs), which it sorts. means: room for the tasks'. */
static void measure(double *score, size_t tasks, size_t runs, const double *tau,
                    double *means, double ret[MEASURES])
{
    const size_t n = tasks * runs, quarter = n / 4;
    double gap = 0;

    for (size_t t = 0; t < tasks; t++)
        means[t] = mean_of(score + t * runs, runs);
    qsort(means, tasks, sizeof(*means), seed_stats_order);
    ret[TASK_MEDIAN] = (means[(tasks - 1) / 2] + means[tasks / 2]) / 2;
    ret[TASK_MEAN] = mean_of(means, tasks);
    qsort(score, n, sizeof(*score), seed_stats_order);
    ret[TASK_IQM] = mean_of(score + quarter, n - 2 * quarter);
    for (size_t i = 0; i < n; i++)
        gap += 1 - fmin(score[i], 1);
    ret[TASK_GAP] = gap / (double)n;
    for (size_t k = 0, below = 0; k < TASK_TAUS; k++) {
        while (below < n && score[below] <= tau[k])
            below++;
        ret[TASK_STATS + k] = (double)(n - below) / (double)n;
    }
}

static struct estimate *estimate_at(struct task_stats *s, size_t measure)
{
    return measure < TASK_STATS ? &s->stat[measure] : &s->profile[measure - TASK_STATS];
}

void task_stats_of(struct task_stats *ret, const struct task_scores *s, const double *tau)
{
    const size_t n = s->tasks * s->runs;
    double *score = xcalloc(n, sizeof(*score)), *u = xcalloc(s->runs, sizeof(*u));
    double *means = xcalloc(s->tasks, sizeof(*means));
    double *drawn = xcalloc((size_t)MEASURES * SEED_RESAMPLES, sizeof(*drawn));
    double of[MEASURES];

    memcpy(score, s->score, n * sizeof(*score));
    measure(score, s->tasks, s->runs, tau, means, of);
    for (size_t m = 0; m < MEASURES; m++)
        *estimate_at(ret, m) = (struct estimate){of[m], (double)NAN, (double)NAN};
    for (size_t r = 0; r < SEED_RESAMPLES && s->runs > 1; r++) {
        resample(s, r, u, score);
        measure(score, s->tasks, s->runs, tau, means, of);
        for (size_t m = 0; m < MEASURES; m++)
            drawn[m * SEED_RESAMPLES + r] = of[m];
    }
    for (size_t m = 0; m < MEASURES && s->runs > 1; m++)
        seed_stats_interval(drawn + m * SEED_RESAMPLES, &estimate_at(ret, m)->low,
                            &estimate_at(ret, m)->high);
    free(drawn);
    free(means);
    free(u);
    free(score);
}

/* The part of the pairs of a score of x and one of y in the same task whose first is greater. Equal
 * ones are one half: counted in halves. */
static double part_greater(const double *x, size_t n_x, const double *y, size_t n_y,
                           size_t tasks)
{
    size_t halves = 0;

    for (size_t t = 0; t < tasks; t++)
        for (size_t i = 0; i < n_x; i++)
            for (size_t k = 0; k < n_y; k++) {
                const double a = x[t * n_x + i], b = y[t * n_y + k];

                halves += a > b ? 2 : a == b;
            }
    return (double)halves / (double)(2 * tasks * n_x * n_y);
}

struct estimate task_improvement(const struct task_scores *x, const struct task_scores *y)
{
    const size_t runs = x->runs > y->runs ? x->runs : y->runs;
    double *of_x = xcalloc(x->tasks * x->runs, sizeof(double));
    double *of_y = xcalloc(y->tasks * y->runs, sizeof(double));
    double *u = xcalloc(runs, sizeof(double));
    double *drawn = xcalloc(SEED_RESAMPLES, sizeof(double));
    struct estimate e = {part_greater(x->score, x->runs, y->score, y->runs, x->tasks),
                         (double)NAN, (double)NAN};

    for (size_t r = 0; r < SEED_RESAMPLES && runs > 1; r++) {
        resample(x, r, u, of_x);
        resample(y, r, u, of_y);
        drawn[r] = part_greater(of_x, x->runs, of_y, y->runs, x->tasks);
    }
    if (runs > 1)
        seed_stats_interval(drawn, &e.low, &e.high);
    free(drawn);
    free(u);
    free(of_y);
    free(of_x);
    return e;
}
