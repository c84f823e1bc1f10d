/* matrix_game.h - games that are a table of payoffs, played again and again.
 *
 * Two or more agents choose an action each, at once; the table gives every agent its
 * reward. Nothing ends the game but env.max_steps. Observation: with `observe_last` each
 * agent's last action as a one-hot vector, all of them joined (zeros in the first step),
 * else one number, 1.
 *   climbing           the best joint action stands beside the worst (Claus & Boutilier
 *   penalty            1998); penalty: two optima, and k for missing each other
 *   prisoners_dilemma  cooperate 0, defect 1; temptation 5, reward 3, punishment 1,
 *                      sucker 0 (Axelrod 1984)
 *   stag_hunt          stag 0, hare 1; 4 each together, 2 each for two hares, 3 for a
 * hare while the other waits for a stag with 1 matrix_game        payoffs: {all: TABLE}
 * or one TABLE for each agent, by name; a table is lists within lists, the first agent's
 * action outermost
 */
#ifndef SUPERVISOR_ENV_MATRIX_GAME_H
#define SUPERVISOR_ENV_MATRIX_GAME_H

#include "common/config/schema.h"

/* How a row of the registry comes by its table: YAML as in `payoffs`. A `k` in it is the
 * parameter of that name. */
struct matrix_game {
    const char *payoffs; /* NULL: from the parameters */
};

extern const struct matrix_game matrix_game_climbing, matrix_game_penalty,
    matrix_game_prisoners_dilemma, matrix_game_stag_hunt, matrix_game_any;
extern const struct schema matrix_game_params, matrix_game_penalty_params,
    matrix_game_any_params;

#endif
