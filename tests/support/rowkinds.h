/* rowkinds.h - a toy algorithm that learns from each kind of rows, to test that rows, and
 * the columns that agents add to them, are unchanged after deaths and resumes:
 *
 *     learn(all, writes)
 *
 * The configuration's algorithm selects the kind: maddpg transitions of 3 steps, ddpg
 * episodes of any length, iql the window. Each agent has one number, <agent>/parameter;
 * its columns are "log_prob" (1 number) and "trail" (2 numbers), functions of that number and
 * of the step. An update checks the guarantees of its kind of rows, and folds rewards, log_prob
 * and the first number of trail, and the positions of empty places, into the number. Linked into
 * rowkinds_agent only, which dies as fault_agent does.
 */
#ifndef TESTS_SUPPORT_ROWKINDS_H
#define TESTS_SUPPORT_ROWKINDS_H

#include "agent/algo/algo.h"

#define ROWKINDS_LENGTH 3

extern const struct algo_ops rowkinds_ops;

#endif
