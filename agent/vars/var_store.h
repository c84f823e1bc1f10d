/* var_store.h - one block of memory for the values of a graph's variables, and one more for
 * each device whose memory is given.
 *
 *     struct var_header, 64 bytes
 *     a byte per variable: 1 if it is initialised
 *     each variable's value, 64-byte aligned, in order of creation; strings as a slab
 *     (common/tensor/string_slab.h)
 *
 * So a snapshot is one copy, a comparison is one memcmp, and another process can read a
 * block in shared memory. The layout depends only on the names, dtypes and shapes of the
 * block's variables; its hash is in the header. Padding is zero.
 */
#ifndef AGENT_VARS_VAR_STORE_H
#define AGENT_VARS_VAR_STORE_H

#include "agent/graph/graph.h"

#define VAR_MAGIC   0x53524156u /* "VARS" */
#define VAR_VERSION 1u

struct var_header {
    uint32_t magic;
    uint32_t version;
    uint64_t layout_hash;
    uint64_t n_variables;
    uint64_t size_bytes; /* of the whole block */
    uint64_t reserved[4];
};
_Static_assert(sizeof(struct var_header) == 64, "the values that follow stay aligned");

struct var_store;

/* Memory that holds the variables placed on one device, such as those of a parameter
 * server, whose workers map the memory, too. It is laid out once, with the first
 * variables. */
struct device_memory {
    const char *device; /* "/job:ps/task:0"; includes "/job:ps/task:0/device:CPU:0" */
    void *block;        /* 64-byte aligned; outlives the store */
    size_t capacity;    /* bytes */
    /* 1: keep the contents, which another store laid out for the same variables. 0: lay
     * the memory out, with no variable initialised. */
    int holds_state;
};
#define VAR_STORE_MAX_DEVICES 16

/* own: the block of all variables that are on none of the devices; its `device` is NULL. If
 * its `block` is NULL, the store allocates it. devices[n_devices]: borrowed strings. The
 * first var_store_place checks that blocks with `holds_state` belong to this graph. */
int var_store_new(struct var_store **ret, struct graph *g,
                  const struct device_memory *own, const struct device_memory *devices,
                  size_t n_devices, struct err *err);
void var_store_free(struct var_store *s); /* NULL is fine */

/* Gives every variable of the graph a place in its block. The store's own block may move,
 * together with the values (var_store_moves counts). ERR_LIMIT: a given block is too
 * small, or a variable too large; ERR_STATE: a given block holds the state of another
 * graph, or a variable was added to a device after its memory was laid out; ERR_SHAPE: a
 * variable's shape is not known; ERR_UNSUPPORTED: a variable of handles; ERR_NOMEM. */
int var_store_place(struct var_store *s, struct err *err);
unsigned var_store_moves(const struct var_store *s);

/* The store's own block. */
void *var_store_block(struct var_store *s);
size_t var_store_bytes(const struct var_store *s);

/* How many variables have a place. */
int var_store_count(const struct var_store *s);
/* The number of the variable whose operation this is; -1 if it has no place yet. */
int var_store_find(const struct var_store *s, const struct operation *op);
const char *var_store_name(const struct var_store *s, int i);
struct tensor var_store_value(struct var_store *s,
                              int i); /* a view; of strings, the slab */
/* Bytes from the start of the variable's block to its value. */
size_t var_store_offset(const struct var_store *s, int i);
int var_store_initialized(struct var_store *s, int i);
void var_store_set_initialized(struct var_store *s, int i);
/* Whether variable i + 1 follows variable i in one block. */
int var_store_adjacent(const struct var_store *s, int i);
/* The flags of variables i, i + 1, ... that are adjacent. */
unsigned char *var_store_flags(struct var_store *s, int i);

#endif
