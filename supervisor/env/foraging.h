/* foraging.h - level-based foraging: players on a grid collect food that may take several
 * of them.
 *
 * Source   Albrecht & Ramamoorthy 2013; the rules as in Christianos et al. 2020 (Shared
 *          Experience Actor-Critic) and Papoudakis et al. 2021. With a reference_seed, an
 *          episode is that of the Python package lbforaging 2.0.0 whose environment is
 *          made anew and reset with that seed. (One that is reset again keeps players off
 *          the places that they had before, which the seed does not say.)
 * Grid     size x size cells, or rows x columns; food never lies on the border nor beside
 *          other food. Players have levels min_level .. max_level, food min_food_level ..
 *          max_food_level, or up to the sum of the three lowest player levels; with
 *          `cooperate` always the highest. `food_levels: old` is the rule of the package
 *          before November 2023, which Papoudakis et al. 2021 used: food stays below that
 *          sum.
 * Actions  0 none, 1 north, 2 south, 3 west, 4 east, 5 load. A move onto food, off the
 *          grid, or to where another player goes or stays, is none.
 * Load     the players beside a food who load it together get it if their levels sum to
 *          its own: each receives level x food level, with normalize_reward
 *          divided by the sum of the loaders' levels and of all food of the episode (so that
 *          an episode's rewards sum to 1). If their levels do not suffice, each pays `penalty`.
 * Ends     terminated when all food is collected; truncated by env.max_steps.
 * Observe  (row, column, level) of each food in sight, in row order, then of each player,
 *          the observer first; (-1, -1, 0) for food and players out of sight. Positions
 *          are relative to the corner of the area in sight. Without observe_levels the
 *          players' levels are left out. With `grid` instead three layers of the
 *          (2 sight + 1)^2 cells around the player, row by row: the levels of players (1
 *          without observe_levels), those of food, and 1 where a player could go.
 */
#ifndef SUPERVISOR_ENV_FORAGING_H
#define SUPERVISOR_ENV_FORAGING_H

#include "common/config/schema.h"

extern const struct schema foraging_params;

#endif
