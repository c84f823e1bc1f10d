/* bundle_proto.h - the messages and keys inside a bundle's index (see bundle.h). Private.
 */
#ifndef COMMON_CKPT_BUNDLE_PROTO_H
#define COMMON_CKPT_BUNDLE_PROTO_H

#include "common/ckpt/bundle.h"
#include "common/mem/arena.h"
#include "common/wire/cursor.h"

enum {
    BUNDLE_MAX_SHARDS = 99999, /* file names have five digits */
    BUNDLE_MAX_SLICES = 4096,
};

/* The bytes of an element in a file; 0: of strings, and of types that no file has. */
size_t bundle_element_bytes(enum dtype dtype);

/* BundleHeaderProto. Reading returns the number of shards, or an error. */
void bundle_put_header(struct wbuf *b, uint32_t n_shards);
int bundle_parse_header(struct cursor c, struct err *err);

/* BundleEntryProto, without the name. Reading puts slices into the arena and refuses entries
 * that no writer makes: no dtype, more than SHAPE_MAX_RANK dimensions, a size that does not
 * match the shape, slices outside the shape. */
void bundle_put_entry(struct wbuf *b, const struct bundle_entry *e);
int bundle_parse_entry(struct cursor c, struct arena *a, struct bundle_entry *ret,
                       struct err *err);

/* TensorShapeProto; a TensorSliceProto of a tensor of that shape. Both are put as field
 * `field` of the message under way. */
void bundle_put_shape(struct wbuf *b, uint32_t field, const struct shape *s);
void bundle_put_slice(struct wbuf *b, uint32_t field, int rank,
                      const struct bundle_slice *s);
int bundle_parse_shape(struct cursor c, struct shape *ret, struct err *err);
int bundle_parse_slice(struct cursor c, const struct shape *whole,
                       struct bundle_slice *ret, struct err *err);

/* The key of a slice's entry: order-preserving bytes; the first is 0, which no name has. */
void bundle_put_slice_key(struct wbuf *b, const char *name, int rank,
                          const struct bundle_slice *slice);

/* The checksum covers the lengths of strings in fixed width, although they are stored as
 * varints. */
uint32_t bundle_crc_of_length(uint32_t crc, uint64_t len);

#endif
