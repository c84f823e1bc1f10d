/* overcooked.h - two cooks in a kitchen put ingredients into pots, soups into dishes, and serve.
 *
 * Source   Carroll et al. 2019 (On the utility of learning about humans for human-AI
 *          coordination); dynamics, rewards and observations are those of the Python package
 *          overcooked_ai 1.1.0 (OvercookedGridworld, lossless_state_encoding). Nothing is drawn.
 * Kitchen  cells (x, y), y downwards: X counter, O onions, T tomatoes, D dishes, P pot, S where
 *          soups are served, 1 and 2 the cooks' places; a name, or a text of one line a row.
 * Actions  0 north, 1 south, 2 east, 3 west, 4 stay, 5 interact with what is in front: take or
 *          put down, add an ingredient to a pot that does not cook, cook (with empty hands), take
 *          a ready soup (with a dish), serve one. All interact before any moves, the first cook
 *          first; cooks who want the same cell, or each other's, turn and stay.
 * Recipes  {ooo: {value: 20, time: 20, bonus: false}}: the soups that are ordered, by their
 *          ingredients, onions (o) before tomatoes (t); others are worth nothing and cook 20 steps.
 *          A bonus doubles the value.
 * Rewards  both cooks receive the value of each soup served; and a cook, for itself, `shaping`
 *          times 3 for an ingredient put into a pot, 3 for a useful dish (fewer dishes in hands,
 *          and none on counters, than pots with something in them that can become a soup), and 5
 *          for a soup taken from its pot.
 * Ends     truncated by env.max_steps.
 * Observe  an image of (width, height, 26): places of the cook itself and of the other, their
 *          directions (4 layers each, in the order of the actions), pots, counters, onions,
 *          tomatoes, dishes, serving places; onions and tomatoes in a pot that does not cook, those
 *          in soups, the steps that a soup has yet to cook, ready soups, dishes, onions and
 *          tomatoes, in hands, too; and 1 everywhere in the last 39 steps before `horizon`.
 */
#ifndef SUPERVISOR_ENV_OVERCOOKED_H
#define SUPERVISOR_ENV_OVERCOOKED_H

#include "common/config/schema.h"

extern const struct schema overcooked_params;

#endif
