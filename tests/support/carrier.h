/* carrier.h - a toy algorithm whose policy is a GRU cell and a layer of scores, to test
 * that an agent's carry is sent with its actions and comes back with the next `act`. It
 * learns nothing and has no stages. Linked into carrier_agent, and into the test that
 * compares it with the same algorithm in its own process.
 */
#ifndef TESTS_SUPPORT_CARRIER_H
#define TESTS_SUPPORT_CARRIER_H

#include "agent/algo/algo.h"

#define CARRIER_UNITS 6 /* H */

extern const struct algo_ops carrier_ops;

#endif
