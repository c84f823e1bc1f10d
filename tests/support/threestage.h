/* threestage.h - a toy algorithm of three stages with a central process, to show that the
 * driver plays what is declared and knows no algorithm:
 *
 *     values(all) > mix(central, writes: gives back dL/dq per agent) > learn(all, writes)
 *
 * Agent i has one weight w_i and the value q_i = w_i * (its reward); the central process
 * has a scale s and the loss mean of (s * sum q_i - 1)^2 over the rows. Both descend it
 * by hand-written gradients. Linked into test_agent only.
 */
#ifndef TESTS_SUPPORT_THREESTAGE_H
#define TESTS_SUPPORT_THREESTAGE_H

#include "agent/algo/algo.h"

extern const struct algo_ops threestage_ops;

#endif
