/* block_image.h - what run.state keeps of an agent's block: where its variables lie, and
 * the bytes that belong to no saved one. With the agent's TensorFlow files it is whole.
 *
 * Format   u64 bytes of the block, u32 number of variables; by name, of each: u32 length
 *          and name, u32 dtype, u32 rank, u64 dims, u64 offset, u32 saved; then all other
 *          bytes of the block, in their order.
 */
#ifndef SUPERVISOR_SAVE_BLOCK_IMAGE_H
#define SUPERVISOR_SAVE_BLOCK_IMAGE_H

#include "common/wire/cursor.h"
#include "supervisor/save/block_table.h"

struct block_image {
    struct block_table table;
    size_t block_bytes;
    const uint8_t *rest; /* borrowed from what was parsed */
};

/* ERR_PROTOCOL: saved variables overlap. */
int block_image_put(struct wbuf *b, const struct block_table *table, const void *block,
                    size_t block_bytes, struct err *err);

/* ERR_FORMAT. */
int block_image_parse(struct block_image *ret, const void *data, size_t len,
                      struct err *err);
void block_image_done(struct block_image *i);
/* Copies the bytes of no saved variable to their places in block (block_bytes). */
void block_image_fill(const struct block_image *i, void *block);
/* Do the variables of this table lie in the same places? */
int block_image_fits(const struct block_image *i, const struct block_table *table,
                     size_t block_bytes);

#endif
