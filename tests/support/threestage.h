/* threestage.h - a toy algorithm of three stages with a central process, to test that the
 * driver runs whatever stages are declared and knows no algorithm:
 *
 *     values(all) > (mix(central, writes: returns dL/dq for each agent)
 *                    > learn(all, writes)) twice
 *
 * Agent i has one weight w_i and the value q_i = w_i * (its reward); the central process
 * has a scale s and the loss mean of (s * sum (i + 1) q_i - 1)^2 over the rows. Both
 * minimise it with hand-written gradients. Parameters start at 1 and are named
 * <agent>/parameter. Linked into test_agent only.
 */
#ifndef TESTS_SUPPORT_THREESTAGE_H
#define TESTS_SUPPORT_THREESTAGE_H

#include "agent/algo/algo.h"

#define THREESTAGE_RATE    0.001f
#define THREESTAGE_REPEATS 2

extern const struct algo_ops threestage_ops;

#endif
