/* containers.h - the tensor arrays and stacks of one run. Private to agent/flow.
 *
 * A container lives from the operation that creates it to the end of the run; its number is
 * the handle that graphs pass on as a resource. Elements are copies.
 *
 * Gradients  TensorArrayGradV3 finds or creates the array of the gradients of another
 *            array. It has the size of the other array and adds values written to the
 *            same element. An element that was never written reads as zeros, in the shape
 *            of the other array's element.
 * Bounds     all containers of a run together hold at most CONTAINERS_MAX_BYTES.
 * Errors     ERR_ARG, ERR_DTYPE, ERR_SHAPE, ERR_STATE, ERR_UNSUPPORTED, ERR_LIMIT and
 *            ERR_NOMEM: the operation's name, then TensorFlow's message where it has one.
 * Source     tensorflow/core/kernels/{tensor_array_ops.cc,tensor_array.h,stack.cc}
 */
#ifndef AGENT_FLOW_CONTAINERS_H
#define AGENT_FLOW_CONTAINERS_H

#include "agent/graph/graph.h"

#define CONTAINERS_MAX_BYTES ((size_t)2 << 30)

struct container;

struct containers {
    int n, cap;
    struct container **items;
    size_t bytes;
};

/* An input or an output of an operation. */
struct contained {
    struct tensor tensor;
    int handle; /* number of the container, of a resource */
    int is_dead;
    /* The tensor is the memory of this reference variable; containers copy it. */
    const struct operation *memory_of;
};

/* Sets the error, with the operation's name before it; returns its code. */
int contained_refuse(const struct operation *op, struct err *err, int code,
                     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Input i as an integer. ERR_SHAPE: it is no scalar. */
int contained_scalar(const struct operation *op, const struct contained *in, int i,
                     int64_t *ret, struct err *err);

void containers_done(struct containers *c);
/* Runs one of the operations with its inputs; ret: its outputs, which the caller frees. */
int containers_run(struct containers *c, const struct operation *op,
                   const struct contained *in, struct contained *ret, struct err *err);

#endif
