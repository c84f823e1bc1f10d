/* rware_moves.h - which robots of a warehouse move when all of them want to at once.
 *
 * Each robot stands in a cell of its own and wants one cell: another, or its own. Together they
 * are a graph with one edge a robot. Robots that drive in a circle of three or more all move; of
 * two that want to change places, and of all behind a robot that stays or behind a circle, none
 * does; of the trees that end in a free cell, the robots of the longest path move.
 * Source   rware 2.0.0, Warehouse.step, with networkx 3.6: of equally long paths that meet in a
 *          cell, the one moves whose last cell comes first in the component's graph. That is the
 *          order in which the robots' cells and wishes were added, or, if the component has less
 *          than half of all cells, that of a set of Python (pair_set.h).
 */
#ifndef SUPERVISOR_ENV_RWARE_MOVES_H
#define SUPERVISOR_ENV_RWARE_MOVES_H

#include <stddef.h>
#include <stdint.h>

enum { RWARE_MAX_AGENTS = 32 };

struct rware_wish {
    int32_t x, y;       /* where the robot is */
    int32_t to_x, to_y; /* where it wants to be */
    int32_t blocker;    /* the robot in that cell: itself if it stays; -1: none */
};

/* Sets ret[i] to whether robot i gets its wish; n <= RWARE_MAX_AGENTS. */
void rware_resolve(const struct rware_wish *wish, size_t n, uint8_t *ret);

#endif
