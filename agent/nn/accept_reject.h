/* accept_reject.h - an optimiser without gradients: perturb, evaluate, keep or go back.
 *
 * Every iteration adds normal noise of the given deviation to all trainable variables and
 * evaluates the loss once; if it is lower than the best so far the change stays,
 * otherwise the variables get their bytes back (session/memory.h). Nothing is added to
 * the graph. The draw of iteration t is a pure function of the key, the variable's name
 * and t.
 *
 * Source   (1+1) evolution strategy with a fixed step (Rechenberg 1973); the noise from a
 *          shared table (Salimans et al. 2017, Evolution Strategies as a Scalable
 *          Alternative to Reinforcement Learning).
 */
#ifndef AGENT_NN_ACCEPT_REJECT_H
#define AGENT_NN_ACCEPT_REJECT_H

#include "agent/session/session.h"

struct accept_reject;

/* loss: a float32 scalar. The trainable variables are those of the graph now; ERR_ARG:
 * there are none, ERR_DTYPE: one is not float32. */
int accept_reject_new(struct accept_reject **ret, struct session *s, struct output loss,
                      double stddev, struct rng_key key, struct err *err);
void accept_reject_free(struct accept_reject *a); /* NULL is fine */

/* One iteration with these feeds. The first call evaluates the loss as it is, too; so
 * does accept_reject_reset's next one, for when other data are fed. *ret_loss is the best
 * loss, that of the variables as they are now; the result is 1 (kept), 0 (went back) or
 * an error, after which the variables are as before. A loss that is not a number is worse
 * than any other. */
int accept_reject_step(struct accept_reject *a, const struct feed *feeds, size_t n_feeds,
                       float *ret_loss, struct err *err);
void accept_reject_reset(struct accept_reject *a);

#endif
