/* attr_proto.h - converts attributes, shapes and tensors between messages and the graph's
 * form.
 *
 * What the graph cannot represent (functions, tensors of unknown types, more dimensions
 * than SHAPE_MAX_RANK) becomes an attribute of kind ATTR_OPAQUE with the bytes of its
 * message.
 * Errors   ERR_FORMAT (an inconsistent message), ERR_LIMIT (a constant larger than the
 *          rest of the budget).
 */
#ifndef AGENT_SAVER_ATTR_PROTO_H
#define AGENT_SAVER_ATTR_PROTO_H

#include "agent/graph/graph.h"
#include "agent/saver/message.h"

/* `empty_list`: the kind of a list without elements. The caller sets ret->name. */
int attr_from_proto(struct arena *a, const Tf__AttrValue *v, enum attr_kind empty_list,
                    size_t *budget_bytes, struct attr *ret, struct err *err);
Tf__AttrValue *attr_to_proto(struct arena *a, const struct attr *attr);

#endif
