/* layout.h - the experience log: one sparse file of rows, and the layout of a row.
 *
 * File     header of STORE_HEADER_BYTES (struct store_header, then the columns as
 *          struct store_column, then zeros), then row n at STORE_HEADER_BYTES +
 *          n * row_bytes, where it stays. One row is one joint step of one copy; rows are
 *          in the order (time, copy).
 * Writer   the supervisor alone, with pwrite; agents map it read-only.
 * Columns  per agent  "<agent>/obs" (O) f32, or u8 where the environment's are bytes,
 *                     "<agent>/action" (U) f32 as executed, "<agent>/reward" f32,
 *                     "<agent>/next_obs" (O) as obs,
 *                     "<agent>/terminated" f32 (0 or 1), "<agent>/alive" f32 (0 or 1);
 *          masked     where an agent's one-hot actions are masked "<agent>/allowed" (U) u8,
 *                     "<agent>/next_allowed" (U) u8 (0 or 1: it may be chosen);
 *          joint      "truncated" f32, "first" f32 (0 or 1);
 *          algorithms "<agent>/<column>" (X) f32.
 * Order    by column, then by agent: obs of all agents, then action of all agents,
 *          next_obs, reward, terminated, alive, allowed, next_allowed, so that the inputs
 *          of a joint critic are contiguous. Readers find columns by name.
 * Values   at the end of an episode, next_obs is its final observation, not the first of
 *          the next episode. allowed is the mask at obs, with which action was chosen;
 *          next_allowed is the mask at next_obs. terminated and truncated are never
 *          merged. Padding between columns is 0.
 * Offsets  all are multiples of the element size; row_bytes is a multiple of 8.
 */
#ifndef COMMON_STORE_LAYOUT_H
#define COMMON_STORE_LAYOUT_H

#include "common/err/err.h"
#include "common/tensor/dtype.h"

#include <stdint.h>

#define STORE_MAGIC           UINT64_C(0x31676f6c64726f62) /* "bordlog1", in the file */
#define STORE_VERSION         1u
#define STORE_HEADER_BYTES    (1u << 20)
#define STORE_COLUMN_NAME_MAX 112
#define STORE_MAX_COLUMNS     8000
#define STORE_MAX_ROW_BYTES   (1u << 28)

struct store_column {
    char name[STORE_COLUMN_NAME_MAX];
    uint32_t dtype;    /* enum dtype */
    uint32_t elements; /* per row */
    uint64_t offset;   /* bytes from the start of a row */
};

struct store_header {
    uint64_t magic;
    uint32_t version;
    uint32_t n_columns;
    uint64_t row_bytes;
    uint64_t layout_hash; /* of all columns: names, types, offsets */
};

_Static_assert(sizeof(struct store_column) == 128, "file format");
_Static_assert(sizeof(struct store_header) == 32, "file format");

struct store_layout {
    uint32_t n_columns;
    uint64_t row_bytes;
    struct store_column *columns; /* owned */
};

/* An all-zero struct is an empty layout.
 * Adds a column at the end; returns its index. ERR_ARG (name, no elements), ERR_DTYPE,
 * ERR_EXISTS, ERR_LIMIT. */
int store_layout_add(struct store_layout *l, const char *name, enum dtype dtype,
                     uint32_t elements, struct err *err);
/* Index, or ERR_NOT_FOUND. `agent` may be NULL for joint columns. */
int store_layout_find(const struct store_layout *l, const char *agent, const char *name);
uint64_t store_layout_hash(const struct store_layout *l);
/* Convert between layout and header (STORE_HEADER_BYTES). Decoding checks everything:
 * ERR_FORMAT. */
void store_layout_encode(const struct store_layout *l, void *ret_header);
int store_layout_decode(const void *header, struct store_layout *ret, struct err *err);
void store_layout_done(struct store_layout *l);

#endif
