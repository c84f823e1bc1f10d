/* string_slab.h - a tensor of strings in one piece of memory of fixed size, without pointers: as
 * variables of strings lie in an agent's block.
 *
 *     u32 length of each of the n strings; the strings, one after another; zeros
 *
 * A slab has room for STRING_SLAB_BYTES and STRING_SLAB_EACH bytes for each string, together.
 * All zeros are empty strings.
 */
#ifndef COMMON_TENSOR_STRING_SLAB_H
#define COMMON_TENSOR_STRING_SLAB_H

#include "common/tensor/tensor.h"

enum { STRING_SLAB_BYTES = 16384, STRING_SLAB_EACH = 64 };

/* The bytes of a value in a block: of a slab for strings, otherwise of the elements. Returns 0
 * if the size overflows; n elements. */
int block_value_bytes(enum dtype dtype, int64_t n, size_t *ret);

/* ERR_LIMIT: the strings are longer than a slab has room for; it is then unchanged. */
int string_slab_put(void *slab, const struct tensor *strings, struct err *err);
/* ret owns its strings. ERR_FORMAT: the lengths do not fit into the slab. */
int string_slab_get(const void *slab, const struct shape *shape, struct tensor *ret,
                    struct err *err);

#endif
