/* foraging.h - level-based foraging: players on a grid collect food that may take several
 * of them.
 *
 * Source   Albrecht & Ramamoorthy 2013; the rules as in Christianos et al. 2020 (Shared
 *          Experience Actor-Critic) and Papoudakis et al. 2021.
 * Grid     size x size cells; food never lies on the border nor beside other food.
 *          Players have levels 1 .. max_level, food between 1 and the sum of the three
 *          lowest player levels; with `cooperate` always that sum.
 * Actions  0 none, 1 north, 2 south, 3 west, 4 east, 5 load. A move onto food, off the
 *          grid, or to where another player goes or stays, is none.
 * Load     the players beside a food who load it together get it if their levels sum to
 *          its own: each receives level x food level, normalised by the sum of the
 *          loaders' levels and of all food of the episode (so that an episode's rewards
 *          sum to 1). If their levels do not suffice, each pays `penalty`.
 * Ends     terminated when all food is collected; truncated by env.max_steps.
 * Observe  (row, column, level) of each food in sight, in row order, then of each player,
 *          the observer first; (-1, -1, 0) for food and players out of sight. Positions
 *          are relative to the corner of the area in sight.
 */
#ifndef SUPERVISOR_ENV_FORAGING_H
#define SUPERVISOR_ENV_FORAGING_H

#include "common/config/schema.h"

extern const struct schema foraging_params;

#endif
