/* metagraph_check.h - would TensorFlow's import_meta_graph take this file?
 *
 * Checks a MetaGraphDef against the rules of TensorFlow's importer, without building a
 * graph: names valid and unique; every op defined; inputs there, data before control, as
 * many and of the types that the definition asks for, references from references; every
 * attribute without default present, none unknown, each of its kind; `_class` names,
 * collections and SaverDef name what exists; trainable variables byte-equal to their
 * element of "variables".
 */
#ifndef TESTS_SUPPORT_METAGRAPH_CHECK_H
#define TESTS_SUPPORT_METAGRAPH_CHECK_H

#include "common/err/err.h"

#include <stddef.h>

/* 0, or the first fault, in one line. Ops are defined by the file `registry` (another
 * MetaGraphDef, as it was written by some TensorFlow; NULL: none), else by the op table,
 * else by the file's own list. */
int metagraph_check(const void *data, size_t len_bytes, const void *registry,
                    size_t registry_bytes, struct err *err);

#endif
