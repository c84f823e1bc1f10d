/* pair_set.h - a set of coordinate pairs that is iterated in the order of CPython's set.
 *
 * A package written in Python may depend on that order without saying so: rware does, where two
 * robots want the same cell (rware_moves.h). The order follows from the hashes of the pairs, the
 * size of the table, and what was added before.
 * Source   CPython 3.8 to 3.14: Objects/tupleobject.c (the hash of a tuple, xxHash's rounds) and
 *          Objects/setobject.c (open addressing, ten slots side by side before each jump).
 * Nothing is ever removed.
 */
#ifndef SUPERVISOR_ENV_PAIR_SET_H
#define SUPERVISOR_ENV_PAIR_SET_H

#include <stddef.h>
#include <stdint.h>

enum { PAIR_SET_MAX = 64, PAIR_SET_SLOTS = 256 };

struct pair_set { /* private */
    size_t mask, n;
    int16_t slot[PAIR_SET_SLOTS]; /* the number of the pair there; -1: none */
    uint64_t hash[PAIR_SET_SLOTS];
};

void pair_set_init(struct pair_set *s);
/* Adds the pair (x, y), both at least 0, under a number at least 0 that only it has. It must not
 * be there; at most PAIR_SET_MAX pairs. */
void pair_set_add(struct pair_set *s, int32_t x, int32_t y, int16_t number);
/* Writes the numbers of all pairs in their order; returns how many. */
size_t pair_set_list(const struct pair_set *s, int16_t ret[PAIR_SET_MAX]);

#endif
