/* saved_model.h - SavedModels: the MetaGraphs in a saved_model.pb, and what a MetaGraph says of its
 * inputs and outputs.
 *
 * File       SavedModel {1: version, 2: MetaGraphDef...}. Each MetaGraphDef is named by a set
 *            of tags, such as {"serve"}; the variables of all are in one checkpoint,
 *            `variables/variables` in the same directory (ckpt_find.h).
 * Signature  a set of inputs and of outputs: tensors of the graph by keys of their own.
 * Errors     ERR_FORMAT, ERR_NOT_FOUND (no such tags, no such graph), ERR_LIMIT, -errno.
 * Source     tensorflow/core/protobuf/{saved_model,meta_graph}.proto,
 *            tensorflow/cc/saved_model/loader.cc
 */
#ifndef COMMON_CKPT_SAVED_MODEL_H
#define COMMON_CKPT_SAVED_MODEL_H

#include "common/mem/arena.h"
#include "common/wire/cursor.h"

/* Appends the MetaGraphDef of a checkpoint to b: its `.meta` file, one of its SavedModel, or one
 * with nothing but the graph of a GraphDef.
 * tags: "serve,gpu", in any order: that of a SavedModel with these tags and no others; NULL:
 * the only one, or that of the tag "serve". max: bytes that a file may have. */
int ckpt_read_graph(struct wbuf *b, const char *prefix, const char *tags, size_t max,
                    struct err *err);

/* Finds the MetaGraphDef of these tags in the bytes of a saved_model.pb. */
int saved_model_find(struct cursor model, const char *tags, struct cursor *ret,
                     struct err *err);

struct signature_tensor {
    const char *key, *tensor; /* "images", "x:0" */
};
struct signature {
    const char *name, *method; /* "serving_default", "tensorflow/serving/predict" */
    struct signature_tensor *inputs, *outputs;
    size_t n_inputs, n_outputs;
};
struct signatures {
    struct signature *at; /* by name */
    size_t n;
};
/* Reads the signatures of a MetaGraphDef into the arena; each list is sorted by keys. Tensors
 * that have no name of their own (sparse ones) are left out. ERR_FORMAT. */
int signatures_read(struct signatures *ret, struct arena *a, const void *metagraph,
                    size_t len_bytes, struct err *err);
/* NULL if there is none of that name. */
const struct signature *signatures_find(const struct signatures *s, const char *name);

#endif
