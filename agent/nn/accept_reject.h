/* accept_reject.h - an optimiser without gradients: perturb, evaluate, keep or go back.
 *
 *     accept_reject_begin(a, &run, losses, err)           for the data of run
 *     accept_reject_step(a, stddev, &loss, err)           as often as wanted
 *
 * Every step adds normal noise to all variables of a scope and evaluates the loss once;
 * if it is lower than the best so far the change stays, otherwise the variables get their
 * bytes back (session/memory.h). Nothing is added to the graph.
 *
 * Draws    a pure function of the key given to _new, the variable's name, the counter of
 *          the run and the number of the step since _begin. All evaluations between two
 *          calls of _begin have the run's own key and counter, so that a loss with
 *          draws of its own is always compared at the same draws.
 * Source   (1+1) evolution strategy with a fixed step (Rechenberg 1973); the noise from a
 *          shared table (Salimans et al. 2017, Evolution Strategies as a Scalable
 *          Alternative to Reinforcement Learning).
 */
#ifndef AGENT_NN_ACCEPT_REJECT_H
#define AGENT_NN_ACCEPT_REJECT_H

#include "agent/session/session.h"

struct accept_reject;

/* Takes the trainable variables that the graph has now and whose names begin with scope
 * (NULL: all). ERR_ARG: there are none, ERR_DTYPE: one is not float32. */
int accept_reject_new(struct accept_reject **ret, struct session *s, const char *scope,
                      struct rng_key key, struct err *err);
void accept_reject_free(struct accept_reject *a); /* NULL is fine */

/* Calls session_run with these arguments; fetch 0 is the loss, a float32 scalar with a
 * place in ret. The steps that follow must find a lower loss than this one; they evaluate
 * it with the same arguments, which stay borrowed. */
int accept_reject_begin(struct accept_reject *a, const struct run_args *run,
                        struct tensor *ret, struct err *err);

/* One iteration. *ret_loss is the best loss, that of the variables as they are now; the
 * result is 1 (kept), 0 (went back) or an error, after which the variables are as before.
 * A loss that is not a number is worse than any other. */
int accept_reject_step(struct accept_reject *a, float stddev, float *ret_loss,
                       struct err *err);

#endif
