/* sparse.h - what the operations of sparse tensors share: their inputs, the order of elements.
 *
 * A sparse tensor is the indices (n, rank) of elements, their values (n) and the shape (rank) of the
 * dense tensor, which has zeros elsewhere. An index out of bounds is an error in every kernel. "In
 * order" is row by row; of equal indices the first one stays first.
 */
#ifndef AGENT_OPS_SPARSE_H
#define AGENT_OPS_SPARSE_H

#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

/* Inputs of a kernel, checked. */
struct sparse {
    const struct tensor *indices, *values;
    int64_t n;
    struct shape dense;
};

static inline int64_t sparse_index(const struct sparse *s, int64_t i, int d)
{
    return tensor_int(s->indices, i * s->dense.rank + d);
}

/* The place of element i among those of the dense tensor. */
static inline int64_t sparse_place(const struct sparse *s, int64_t i)
{
    int64_t at = 0;

    for (int d = 0; d < s->dense.rank; d++)
        at = at * s->dense.dim[d] + sparse_index(s, i, d);
    return at;
}

/* Reads inputs `indices`, `values` and `shape`; values -1: there are none. ERR_ARG, ERR_LIMIT. */
int sparse_read(const struct kernel_args *a, int indices, int values, int shape,
                struct sparse *ret);
/* Merges what is known of the number of elements and of dimensions; -1: not known. values -1:
 * there are none. ERR_SHAPE. */
int sparse_sizes(const struct shape_args *args, int indices, int values, int shape,
                 int64_t *ret_n, int64_t *ret_rank);

/* An element and where it stood. */
struct placed {
    const int64_t *index; /* [rank] */
    const char *value;
    int64_t from;
    int rank;
};

/* Room for n elements. NULL: no memory, which is in the error. free(). */
struct placed *placed_new(const struct kernel_args *a, int64_t n);
/* Element i of a tensor of int64 indices. */
struct placed placed_at(const struct sparse *s, int64_t i);
void placed_sort(struct placed *elements, int64_t n);
/* The elements in order; as placed_new(). */
struct placed *placed_in_order(const struct kernel_args *a, const struct sparse *s);
void placed_put(const struct placed *e, const struct tensor *indices,
                const struct tensor *values, int64_t to);

/* Adds element j of x to element i of y. */
void sparse_add(const struct tensor *y, int64_t i, const struct tensor *x, int64_t j);

#endif
