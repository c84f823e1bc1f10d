/* rware.h - the multi-robot warehouse: robots bring requested shelves to a goal and put them back.
 *
 * Source   Papoudakis et al. 2021 (Benchmarking multi-agent deep reinforcement learning algorithms
 *          in cooperative tasks), section 4.4; dynamics, rewards, observations, and with a
 *          reference_seed all draws, are those of the Python package rware 2.0.0: an episode with
 *          seed s is the package's after reset(seed=s).
 * Floor    cells (x, y), y downwards: shelves in blocks two wide and column_height high, corridors
 *          between them, two goals in the middle of the last row; or `layout`, one line a row,
 *          x a shelf's place, . a corridor, g a goal.
 * Actions  0 none, 1 forward, 2 turn left, 3 turn right, 4 lift a shelf or put it down; then, for
 *          each of message_bits, a bit to send. A robot that carries a shelf cannot enter a cell in
 *          which a shelf stands; one that carries none can. Who moves when several want the same cell:
 *          rware_moves.h. A shelf is put down only off the corridors.
 * Rewards  a requested shelf on a goal: `individual` gives its robot 1, `global` gives all 1,
 *          `two_stage` gives its robot 0.5, and 0.5 once the shelf is put down. Another
 *          shelf, drawn from those not requested, is then requested instead.
 * Ends     truncated by env.max_steps (the package's own limit, 500, ends episodes as terminated);
 *          terminated after max_inactivity steps without a delivery, if that is not 0.
 * Observe  x, y, carries a shelf, direction (one-hot: up, down, left, right), is in a corridor;
 *          then for each of the (2 sensor_range + 1)^2 cells around the robot, row by row: a robot
 *          is there, its direction (one-hot; up where no robot is), its message, a shelf
 *          is there, it is requested. Cells beyond the walls are empty.
 */
#ifndef SUPERVISOR_ENV_RWARE_H
#define SUPERVISOR_ENV_RWARE_H

#include "common/config/schema.h"

extern const struct schema rware_params;

#endif
