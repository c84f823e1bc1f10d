/* lists.h - the tensor lists and optionals of one run. Private to agent/flow.
 *
 * A list is a value, as in TensorFlow 2: an operation that changes one returns another list,
 * and the first stays as it was. A tensor of DT_VARIANT is a scalar of 8 bytes, the list's
 * number in this run; plans pass it on as any number. Lists share their elements: pushing to
 * the newest list and popping cost the same however long it is, setting an element copies a
 * pointer for each. An optional is a list of the values that it has, perhaps of several types.
 *
 * Elements   copies of what was pushed. One that was never set reads as zeros, if its shape is
 *            known from the list, the operation or the list's other elements.
 * Lifetime   to the end of the run; those made in a loop, to the end of the iteration, unless a
 *            variable of the loop has them (lists_sweep).
 * Bounds     all lists of a run together hold at most CONTAINERS_MAX_BYTES; lists in lists, at
 *            most LISTS_MAX_DEPTH deep.
 * Errors     ERR_ARG, ERR_DTYPE, ERR_SHAPE, ERR_STATE, ERR_UNSUPPORTED, ERR_LIMIT and ERR_NOMEM:
 *            the operation's name, then TensorFlow's message where it has one.
 * Source     tensorflow/core/kernels/{list_kernels.cc,list_kernels.h,optional_ops_util.cc}
 */
#ifndef AGENT_FLOW_LISTS_H
#define AGENT_FLOW_LISTS_H

#include "agent/flow/containers.h"

enum { LISTS_MAX_DEPTH = 16 };

struct list;

struct lists {
    int n, cap;
    struct list **items; /* by number - 1; NULL: free */
    int n_free, cap_free;
    int *free; /* numbers that can be used again */
    size_t bytes;
};

void lists_done(struct lists *l);
/* Whether lists_run runs operations of this type with these types. */
int lists_has(const struct operation *op);
/* Runs one of the operations with its inputs; ret: its outputs, which the caller frees. */
int lists_run(struct lists *l, const struct operation *op, const struct contained *in,
              struct contained *ret, struct err *err);

/* Frees the lists with numbers above `from` that none of the n values names, directly or in
 * other lists. */
void lists_sweep(struct lists *l, int from, const struct contained *values, int n);

#endif
