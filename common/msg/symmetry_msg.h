/* symmetry_msg.h - a group of symmetries of an environment, and its form in `configure`.
 *
 * An element of the group turns the observations and actions of all agents, and changes no
 * reward: an environment in the turned state, given the turned actions, goes to the turned
 * next state. The group is a product of independent factors, of two kinds:
 *
 *     generators  the group of signed permutations that they generate (flips of axes)
 *     orders      all orders of a number of items (interchangeable landmarks)
 *
 * and acts on runs: consecutive blocks of equal width in an agent's observation or action. A
 * generator has a signed permutation for each kind of block, by which it turns the inside of
 * every block of a run; an order rearranges the blocks of a run, one for each item. A
 * factor with runs of several agents turns them all in the same way; one with runs of a
 * single agent changes only that agent's view.
 *
 * Codes    of a signed permutation: out[i] = in[code] where code >= 0, else -in[~code].
 * Message  an array of factors, each a map: `items`, or `widths` (one per kind of block) and
 *          `generators` (arrays of the codes of all kinds, one kind after the other); and
 *          `runs`, arrays [agent, part, first, count, width, kind]. Agents are numbered
 *          as in `agents`; part: 0 observation, 1 action.
 * Limits   SYMMETRY_MAX_...; of the elements that generators give, see agent/algo/symmetry.h.
 * Errors   ERR_PROTOCOL: malformed. ERR_LIMIT: larger than those limits.
 */
#ifndef COMMON_MSG_SYMMETRY_MSG_H
#define COMMON_MSG_SYMMETRY_MSG_H

#include "common/mem/arena.h"
#include "common/msg/msg.h"

enum {
    SYMMETRY_MAX_FACTORS = 4096,
    SYMMETRY_MAX_RUNS = 1 << 16,  /* of all factors */
    SYMMETRY_MAX_ITEMS = 1024,    /* of a factor, and elements of its generators */
    SYMMETRY_MAX_NUMBERS = 4096,  /* draws per element; a factor: items - 1, or 1 */
    SYMMETRY_MAX_GENERATORS = 16, /* of a factor */
    SYMMETRY_MAX_KINDS = 8,
    SYMMETRY_MAX_WIDTH = 64, /* of a block that generators turn */
};

enum symmetry_part { SYMMETRY_OBS, SYMMETRY_ACTION, SYMMETRY_PARTS };

struct symmetry_run {
    uint32_t agent;
    uint32_t part;  /* enum symmetry_part */
    uint32_t first; /* element of the observation or action */
    uint32_t count; /* blocks; orders: equal to items */
    uint32_t width; /* elements of a block */
    uint32_t kind;  /* of the blocks; generators only */
};

struct symmetry_factor {
    uint32_t items; /* 0: generators */
    uint32_t n_kinds, n_generators;
    const uint32_t *widths; /* [n_kinds] */
    const int32_t *codes;   /* (n_generators, sum of widths) */
    struct symmetry_run *runs;
    size_t n_runs;
};

struct symmetry_group { /* all-zero: no factors */
    struct symmetry_factor *factors;
    size_t n_factors;
};

/* For building a group, all of which is in the arena. Both return the factor's index.
 * Factors without effect (fewer than 2 items) may be added. */
size_t symmetry_add_orders(struct symmetry_group *g, struct arena *arena, uint32_t items);
/* widths, codes: borrowed, must outlive the group. */
size_t symmetry_add_generators(struct symmetry_group *g, struct arena *arena,
                               uint32_t n_kinds, const uint32_t *widths,
                               uint32_t n_generators, const int32_t *codes);
/* Adds a run to a factor, or extends the factor's last run if it continues that one. */
void symmetry_add_run(struct symmetry_group *g, struct arena *arena, size_t factor,
                      const struct symmetry_run *run);

void msg_symmetry(struct msg_out *o, const struct symmetry_group *g);
/* Checks everything that does not depend on the agents' spaces; copies into the arena. */
int msg_to_symmetry(const msgpack_object *list, struct symmetry_group *ret,
                    struct arena *arena, struct err *err);

#endif
