/* metrics.h - what a run measures: accumulators, and rows of their means.
 *
 * Names    rollout/return/<agent>, rollout/team_return/<team>, rollout/episode_length;
 *          eval/... the same; train/<agent>/<scalar>; time/env_steps_per_second,
 *          time/round_us, time/learn_ms. x is environment steps.
 * Values   means since the last row; NaN where nothing was added. Returns are per
 *          episode, undiscounted; a team's is the mean over its agents.
 * Order    rollout, eval, train in cli.md's order for every agent, time: these are the
 *          fixed columns of progress.csv. Scalars of other names come after them, agent
 *          by agent, and go to the other sinks only.
 * Clock    nanoseconds of any monotonic clock, passed in; only time/... depends on it.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_METRICS_METRICS_H
#define SUPERVISOR_METRICS_METRICS_H

#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

#define METRICS_MAX_SCALARS 32 /* of one agent; further names are dropped */

struct metrics; /* opaque */

struct metrics_row {
    uint64_t env_steps;
    uint64_t episodes; /* finished since the start of the run */
    size_t n;
    size_t n_fixed;           /* the columns of progress.csv: the first n_fixed */
    const char *const *names; /* [n] */
    const double *values;     /* [n] NaN: nothing since the last row */
};

/* names, teams: of the agents, in order; copied. central: room for train/central/... */
struct metrics *metrics_new(const char *const *names, const char *const *teams,
                            size_t n_agents, int central, uint64_t now_ns);
void metrics_free(struct metrics *m);

/* The columns of progress.csv. */
size_t metrics_fixed_count(const struct metrics *m);
const char *metrics_name(const struct metrics *m, size_t i);

size_t metrics_team_count(const struct metrics *m);
const char *metrics_team_name(const struct metrics *m, size_t team);
/* The mean of each team's agents. returns [A] -> ret [teams] */
void metrics_team_means(const struct metrics *m, const double *returns, double *ret);

/* One finished episode. returns [A] */
void metrics_add_episode(struct metrics *m, const double *returns, uint64_t length);
/* One evaluation: means over its episodes. returns [A] */
void metrics_add_evaluation(struct metrics *m, const double *returns, double length);
/* A scalar of a stage. agent: index, n_agents for the central process. The name comes
 * from outside: len bytes, not terminated; a bad or surplus one is dropped. */
void metrics_add_scalar(struct metrics *m, size_t agent, const char *name, size_t len,
                        double value);
void metrics_add_round(struct metrics *m, uint64_t duration_ns);
void metrics_add_update(struct metrics *m, uint64_t duration_ns);

/* Closes the row and starts the next. ret points into m: valid until the next call. */
void metrics_take_row(struct metrics *m, uint64_t env_steps, uint64_t episodes,
                      uint64_t now_ns, struct metrics_row *ret);

/* Remembers the accumulators as they are now. */
void metrics_mark(struct metrics *m);
/* The accumulators (marked: as they were then) without those of time, for run.state:
 * equal runs, equal bytes. The text is malloc'd by save. load: ERR_FORMAT. */
void metrics_state_save(const struct metrics *m, int marked, uint8_t **ret,
                        size_t *ret_len);
int metrics_state_load(struct metrics *m, const uint8_t *data, size_t len,
                       struct err *err);

#endif
