/* block_table.h - where an agent's variables lie in its block, as it said itself.
 *
 * The table comes from another process: places outside the block, unknown types and bad
 * names are ERR_PROTOCOL.
 */
#ifndef SUPERVISOR_SAVE_BLOCK_TABLE_H
#define SUPERVISOR_SAVE_BLOCK_TABLE_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"

#include <stddef.h>
#include <stdint.h>

struct block_variable {
    char *name;
    enum dtype dtype;
    struct shape shape;
    uint64_t offset; /* bytes from the start of the block */
    int saved;       /* collection "variables" */
};

struct block_table {
    size_t n;
    struct block_variable *variables; /* in the order of their names */
};

/* description: the answer to configure. */
int block_table_parse(struct block_table *ret, const msgpack_object *description,
                      size_t block_bytes, struct err *err);
void block_table_done(struct block_table *t);

#endif
