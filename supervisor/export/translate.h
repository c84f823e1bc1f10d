/* translate.h - operations of TensorFlow 1, as the graphs of policies have them, to those of a
 * network: a row of the table in translate.c for each.
 *
 * Variables become parameters: "agent_0/p_func/fully_connected/weights" is
 * "fully_connected.weight", in PyTorch's layout.
 */
#ifndef SUPERVISOR_EXPORT_TRANSLATE_H
#define SUPERVISOR_EXPORT_TRANSLATE_H

#include "common/ckpt/bundle.h"
#include "common/ckpt/graph_def.h"
#include "supervisor/export/network.h"

struct translated {
    const char *tensor;      /* "x:0" */
    struct net_value *value; /* NULL: it is being translated */
};
struct translation {
    struct network *net;
    struct graph_def *graph;
    struct bundle_reader *values;
    const char *agent;
    struct translated *done; /* private from here on */
    size_t n_done, cap_done, depth;
};
void translation_done(struct translation *t);

/* The value that is fed into the tensor. */
void translation_feed(struct translation *t, const char *tensor, struct net_value *x);
/* The value of "x" or "x:1". A failure is the network's: ERR_UNSUPPORTED names the operation that
 * has no translation; ERR_FORMAT, ERR_NOT_FOUND, those of reading the checkpoint. */
struct net_value *translate(struct translation *t, const char *tensor);

#endif
