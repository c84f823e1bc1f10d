/* metrics.h - accumulates a run's measurements and closes them into rows of means.
 *
 * Names    rollout/return/<agent>, rollout/team_return/<team>, rollout/episode_length,
 *          rollout/metric/<metric of the environment>; eval/... the same;
 *          train/<agent>/<scalar>; time/env_steps_per_second, time/round_us,
 *          time/learn_ms. x is environment steps.
 * Values   means since the last row; NaN if no value was added. Returns are per episode,
 *          undiscounted; a team's return is the mean over its agents.
 * Order    rollout, eval, train (the standard scalars of each agent in turn), time; then
 *          the environment's metrics, then the scalars that each process declares, in
 *          turn: these are the fixed columns of progress.csv, from its first row on. Other
 *          scalars follow, grouped by process, from the first time that one comes
 *          (sinks.h).
 * Clock    the caller passes nanoseconds of a monotonic clock; only time/... uses them.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_METRICS_METRICS_H
#define SUPERVISOR_METRICS_METRICS_H

#include "common/config/algorithms.h"
#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>

/* Scalars per process that are neither standard nor declared; further names are dropped. */
#define METRICS_MAX_SCALARS 32

struct metrics; /* opaque */

struct metrics_row {
    uint64_t env_steps;
    uint64_t episodes; /* finished since the start of the run */
    size_t n;
    size_t n_fixed;           /* the first n_fixed are columns from the first row on */
    const char *const *names; /* [n] */
    const double *values;     /* [n] NaN: no value since the last row */
};

/* names, teams: [n_agents], copied. central: whether there is a central process, whose
 * scalars become train/central/... */
struct metrics *metrics_new(const char *const *names, const char *const *teams,
                            size_t n_agents, int central, uint64_t now_ns);
/* Adds a process with the next index, whose scalars become train/<name>/... Call it
 * before the first scalar is added. */
void metrics_add_process(struct metrics *m, const char *name);
/* Adds the columns of the environment's metrics (env.metrics), copied; before
 * metrics_declare. */
void metrics_declare_env(struct metrics *m, const char *const *names, size_t n);
/* Adds the columns of the scalars that the algorithm of a process declares, up to a NULL name
 * (NULL: none), as far as processes of that kind report them: `by`, bits of scalar_by. Call it
 * before the first scalar is added, for each process in the order of their indices. */
void metrics_declare(struct metrics *m, size_t process,
                     const struct algorithm_scalar *scalars, unsigned by);
void metrics_free(struct metrics *m);

/* The columns of progress.csv from its first row on. */
size_t metrics_fixed_count(const struct metrics *m);
/* How many columns a run has that an older build began: without metrics and declared scalars. */
size_t metrics_older_count(const struct metrics *m);
const char *metrics_name(const struct metrics *m, size_t i);
/* Whether the state that was loaded is that of a run which an older build began. Its
 * progress.csv keeps its columns. */
int metrics_is_older(const struct metrics *m);

/* Adds one finished episode. returns [A]; metrics: of each name of metrics_declare_env, NaN:
 * none (NULL: there are none). */
void metrics_add_episode(struct metrics *m, const double *returns, uint64_t length,
                         const double *metrics);
/* Adds one evaluation. returns [A], length, metrics: means over its episodes. */
void metrics_add_evaluation(struct metrics *m, const double *returns, double length,
                            const double *metrics);
/* The value of that column in the evaluation that was added last; NaN: it had none. To be asked
 * directly after metrics_add_evaluation: a row that is taken, and a state that is loaded, forget it. */
double metrics_evaluated(const struct metrics *m, const char *name);
/* Adds a scalar that an agent returned from a stage. agent: its index; n_agents for the
 * central process. name: len bytes, not NUL-terminated. A malformed name, or one beyond
 * METRICS_MAX_SCALARS, is ignored. */
void metrics_add_scalar(struct metrics *m, size_t agent, const char *name, size_t len,
                        double value);
/* Calls fn with every single value that is added to the column of this name, not with
 * means; the column need not exist yet. name is borrowed. */
void metrics_watch(struct metrics *m, const char *name,
                   void (*fn)(void *ctx, double value), void *ctx);
void metrics_add_round(struct metrics *m, uint64_t duration_ns);
void metrics_add_update(struct metrics *m, uint64_t duration_ns);

/* Closes the row and starts the next. ret points into m: valid until the next call. */
void metrics_take_row(struct metrics *m, uint64_t env_steps, uint64_t episodes,
                      uint64_t now_ns, struct metrics_row *ret);

/* The step at which the open row began: the step of the newest closed row. */
uint64_t metrics_row_began(const struct metrics *m);

/* Keeps a copy of the accumulators for metrics_state_save. */
void metrics_mark(struct metrics *m);
/* Saves the accumulators (marked: the copy that metrics_mark made) for run.state.
 * time/... is left out, so that equal runs save equal bytes. *ret is malloc'd.
 * metrics_state_load returns ERR_FORMAT if the bytes are malformed. */
void metrics_state_save(const struct metrics *m, int marked, uint8_t **ret,
                        size_t *ret_len);
int metrics_state_load(struct metrics *m, const uint8_t *data, size_t len,
                       struct err *err);

#endif
