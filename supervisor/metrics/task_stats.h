/* task_stats.h - statistics of an algorithm, and of a pair of them, over several tasks.
 *
 * Source   Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical
 *          Precipice: aggregates, performance profiles, the probability of improvement.
 * Scores   (T, R): those of R runs in each of T tasks, tasks slowest; comparable between tasks,
 *          1 being as good as one wants them.
 * Draws    stratified bootstrap: a resample draws R of the R scores of each task, with
 *          replacement, SEED_RESAMPLES times; keyed by the algorithm's name, so that an
 *          interval depends neither on the other algorithms nor on their order.
 */
#ifndef SUPERVISOR_METRICS_TASK_STATS_H
#define SUPERVISOR_METRICS_TASK_STATS_H

#include <stddef.h>

struct task_scores {
    const char *name; /* of the algorithm; differs from those of the others */
    size_t tasks;     /* T, at least 1 */
    size_t runs;      /* R, at least 1 */
    const double *score;
};

/* A statistic with its 95 % percentile interval; of one run in each task, that is NaN. */
struct estimate {
    double value, low, high;
};

enum task_stat {
    TASK_IQM,    /* the mean of all scores without the lowest and the highest quarter */
    TASK_MEDIAN, /* the median of the tasks' means */
    TASK_MEAN,   /* the mean of the tasks' means */
    TASK_GAP,    /* the optimality gap: the mean of 1 - score, above 1 taken for 1 */
    TASK_STATS
};
extern const char *const task_stat_names[TASK_STATS]; /* "iqm", ..., "optimality_gap" */

/* The points of a performance profile: which part of the scores is greater than tau. */
enum { TASK_TAUS = 101 };

struct task_stats {
    struct estimate stat[TASK_STATS];
    struct estimate profile[TASK_TAUS];
};

/* tau: (TASK_TAUS), in order. */
void task_stats_of(struct task_stats *ret, const struct task_scores *s,
                   const double *tau);
/* The probability that a run of x has a greater score than a run of y in the same task, equal
 * scores counting one half; the mean over tasks. Swapping x and y gives 1 minus it, and
 * minus its interval. Both have the same tasks, and may have different numbers of runs. */
struct estimate task_improvement(const struct task_scores *x,
                                 const struct task_scores *y);

#endif
