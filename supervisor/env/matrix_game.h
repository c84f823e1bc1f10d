/* matrix_game.h - repeated matrix games: a table of payoffs gives the rewards.
 *
 * In each step two or more agents choose an action simultaneously, and the table gives
 * each its reward. Only env.max_steps ends the game. Observation: with `observe_last`,
 * all agents' last actions as one-hot vectors, concatenated (zeros in the first step);
 * otherwise one number, 1.
 *   climbing           the best joint action is beside the worst (Claus & Boutilier 1998)
 *   penalty            two optima, and payoff k if the agents miss each other (ibid.)
 *   prisoners_dilemma  cooperate 0, defect 1; temptation 5, reward 3, punishment 1,
 *                      sucker 0 (Axelrod 1984)
 *   stag_hunt          stag 0, hare 1; both stag: 4 each; both hare: 2 each; otherwise 3
 *                      for the hare, 1 for the stag
 *   matrix_game        payoffs: {all: TABLE}, or one TABLE for each agent, by name; a
 *                      table is nested lists, the first agent's action outermost
 */
#ifndef SUPERVISOR_ENV_MATRIX_GAME_H
#define SUPERVISOR_ENV_MATRIX_GAME_H

#include "common/config/schema.h"

/* The table of a registered game, as YAML like the parameter `payoffs`. A `k` in it
 * stands for the parameter k. */
struct matrix_game {
    const char *payoffs; /* NULL: the parameter `payoffs` */
};

extern const struct matrix_game matrix_game_climbing, matrix_game_penalty,
    matrix_game_prisoners_dilemma, matrix_game_stag_hunt, matrix_game_any;
extern const struct schema matrix_game_params, matrix_game_penalty_params,
    matrix_game_any_params;

#endif
