/* rows.h - functions for algorithms that learn from single rows of the log.
 *
 * Shapes   G groups of B rows: one batch for all, or each agent its own (own_batches).
 */
#ifndef AGENT_ALGO_ROWS_H
#define AGENT_ALGO_ROWS_H

#include "agent/algo/algo.h"

/* Check that the request has rows of single steps, or of episodes, with G equal to 1 or
 * n_agents. ERR_ARG. */
int rows_check(const struct stage_args *args, size_t n_agents, struct err *err);
int rows_check_episodes(const struct stage_args *args, size_t n_agents, struct err *err);
/* Checks that the request has a window: one group of at least so many rows. */
int rows_check_window(const struct stage_args *args, int64_t minibatches,
                      struct err *err);
/* For algorithms that read each other's outputs: refuses a learner without symmetry beside one
 * with it, since what was computed for turned rows does not fit a network that sees them as
 * stored. own_team: only of those of its team that learn together. ERR_CONFIG. */
int rows_check_symmetry(const struct space *agents, size_t n_agents, size_t self,
                        int own_team, struct err *err);
/* The group that this agent learns from. */
int64_t rows_group(const struct stage_args *args, size_t self);

/* An output (P, B L, width) of an earlier stage of the update, or (P, B, L) if that is one number:
 * the part `part` of P; borrowed until the next look-up. ERR_PROTOCOL, ERR_SHAPE. */
int rows_input(const struct stage_args *args, const char *agent, const char *name,
               int64_t width, int64_t parts, int64_t part, const float **ret,
               struct err *err);

/* Columns of an agent in the log that say whether it is there. */
struct life_columns {
    int alive, terminated;
};

/* Sets the actions (n, width), proposed for the next observations of the rows, to 0 where the
 * agent is not there any more, as the log does with its actions: others' critics are
 * trained with these. alive, terminated: n floats each, which are set. */
void rows_leave_out_absent(const struct store_view *store,
                           const struct life_columns *columns, const uint64_t *rows,
                           size_t n, float *alive, float *terminated, int64_t width,
                           float *actions);

/* weight[i] = weights[i] (NULL: 1) alive[i]: an agent that has left has no part in its
 * own loss. weight may be alive. */
void rows_weights(float *weight, const float *weights, const float *alive, int64_t n);

/* weight (n) / max(1, their sum): sums with these weights are weighted means. Returns the
 * divisor, or 0 if all weights are 0: how much such a mean counts among others
 * (share.h). */
float rows_mean(float *weight, int64_t n);

/* y = reward + discount (1 - terminated) next; also reports the mean and the deviation of
 * y as scalars. */
void rows_targets(float *y, const float *reward, const float *terminated,
                  const float *next, float discount, int64_t n, struct stage_result *ret);

/* Returns |td| as the rows' priorities for later draws, 0 where the row's weight is 0: it is
 * no part of the loss. td is changed in place. */
void rows_priorities(float *td, const float *weight, int64_t n, struct stage_result *ret);

/* Reports the scalar td_error, the mean of |td| over the rows whose weight is not 0; nothing if
 * there are none, or if it is not finite: a number that is only shown ends no run. */
void rows_td_error(const float *td, const float *weight, int64_t n,
                   struct stage_result *ret);

/* Add to a stage's result. */
void stage_scalar(struct stage_result *ret, const char *name, double value);
/* stage_scalar of a number that is only shown: nothing is added if it is not finite. */
void stage_shown(struct stage_result *ret, const char *name, double value);
void stage_output(struct stage_result *ret, const char *name, struct tensor value);

#endif
