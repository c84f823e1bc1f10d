/* attr_proto.h - attributes, shapes and tensors: messages to the graph's form and back.
 *
 * What the graph has no form for (functions, tensors of unknown types, more dimensions
 * than SHAPE_MAX_RANK) becomes an attribute of kind ATTR_OPAQUE, the bytes of its
 * message. Errors   ERR_FORMAT (a message that contradicts itself), ERR_LIMIT (a constant
 * that is larger than what is left of the budget).
 */
#ifndef AGENT_SAVER_ATTR_PROTO_H
#define AGENT_SAVER_ATTR_PROTO_H

#include "agent/graph/graph.h"
#include "agent/saver/message.h"

/* 0, or -1 for what `struct shape` cannot hold. */
int shape_from_proto(const Tf__TensorShapeProto *p, struct shape *ret);
Tf__TensorShapeProto *shape_to_proto(struct arena *a, const struct shape *s);

/* A few values can stand for many, so *budget_bytes bounds what all tensors take. */
int tensor_from_proto(struct arena *a, const Tf__TensorProto *p, size_t *budget_bytes,
                      struct tensor *ret, struct err *err);
/* As TensorFlow 1 writes it: one value stands alone, also for a floating tensor that is
 * filled with it; otherwise the bytes. */
Tf__TensorProto *tensor_to_proto(struct arena *a, const struct tensor *t);

/* `empty_list`: the kind of a list without elements. ret->name is the caller's to set. */
int attr_from_proto(struct arena *a, const Tf__AttrValue *v, enum attr_kind empty_list,
                    size_t *budget_bytes, struct attr *ret, struct err *err);
Tf__AttrValue *attr_to_proto(struct arena *a, const struct attr *attr);

#endif
