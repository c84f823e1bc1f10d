/* index.h - places in a tensor that a tensor of indices names, shared by the ops that read them
 * (index.c) and that write them (scatter.c).
 *
 * A row of indices has K numbers, which are for the first K dimensions of x. They name a piece:
 * the elements of x that have these indices. */
#ifndef AGENT_OPS_INDEX_H
#define AGENT_OPS_INDEX_H

#include "agent/ops/kernel.h"

/* The number of the piece of x that a row of indices, with k numbers, names; -1: an index is
 * out of range, and a->err says which. */
int64_t piece_at(const struct kernel_args *a, const struct tensor *indices, int k,
                 int64_t row, const struct shape *x);

/* The shape of all named pieces: that of indices without their last dimension, which is K, then
 * that of x without its first K dimensions. ERR_SHAPE. */
int indexed_shape(const struct shape_args *args, const struct shape *indices,
                  const struct shape *x, struct shape *ret);

/* The shape of x as a value, of the type of like, named as TensorFlow names it. */
struct output shape_as(struct graph *g, struct output x, struct output like);

#endif
