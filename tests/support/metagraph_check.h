/* metagraph_check.h - would TensorFlow's import_meta_graph accept this file?
 *
 * Checks a MetaGraphDef against the rules of TensorFlow's importer, without building a
 * graph: names are valid and unique; every op is defined; inputs exist, data before
 * control, in the number and of the types that the definition requires, references from
 * references; every attribute without default is present, none is unknown, each has its
 * type; `_class` names, collections and SaverDef name existing nodes; trainable variables
 * are byte-equal to their element of "variables".
 */
#ifndef TESTS_SUPPORT_METAGRAPH_CHECK_H
#define TESTS_SUPPORT_METAGRAPH_CHECK_H

#include "common/err/err.h"

#include <stddef.h>

/* Returns 0, or describes the first fault in one line. Ops are defined by the file
 * `registry` (another MetaGraphDef, as some TensorFlow wrote it; NULL: none), else by the
 * op table, else by the file's own list. */
int metagraph_check(const void *data, size_t len_bytes, const void *registry,
                    size_t registry_bytes, struct err *err);

#endif
