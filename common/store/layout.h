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
 * Stacked  where agents see their last K observations at once (env.stack), the log keeps each
 *          of them once, as elsewhere. obs and next_obs then say how readers put them together
 *          (struct store_column). Of row n, the observations before obs are those of rows n - E,
 *          n - 2 E, ..., back to the episode's first row (`first` is 1), or to the log's; that
 *          row's obs stands for all that are missing. Those before next_obs begin with obs of
 *          row n itself. The order is oldest first.
 */
#ifndef COMMON_STORE_LAYOUT_H
#define COMMON_STORE_LAYOUT_H

#include "common/err/err.h"
#include "common/tensor/dtype.h"

#include <stdint.h>

#define STORE_MAGIC           UINT64_C(0x31676f6c64726f62) /* "bordlog1", in the file */
#define STORE_VERSION         1u
#define STORE_HEADER_BYTES    (1u << 20)
#define STORE_COLUMN_NAME_MAX 100
#define STORE_MAX_COLUMNS     8000
#define STORE_MAX_ROW_BYTES   (1u << 28)

struct store_column {
    char name[STORE_COLUMN_NAME_MAX];
    /* Only of stacked columns, else 0. Readers get K x elements: `together` elements of the
     * oldest observation, as many of the next one, ..., then the following ones of each. So
     * vectors (together = elements) stand one behind the other, and of pictures (together =
     * channels) the channels of a point are side by side. */
    uint32_t stack;    /* K */
    uint32_t back;     /* rows from a row to the one before of the same copy: E */
    uint32_t together; /* divides elements */
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

/* What readers get of a row: the elements of a column, K times as many of a stacked one. */
static inline uint32_t store_column_width(const struct store_column *c)
{
    return c->elements * (c->stack > 1 ? c->stack : 1);
}

/* An all-zero struct is an empty layout.
 * Adds a column at the end; returns its index. ERR_ARG (name, no elements), ERR_DTYPE,
 * ERR_EXISTS, ERR_LIMIT. */
int store_layout_add(struct store_layout *l, const char *name, enum dtype dtype,
                     uint32_t elements, struct err *err);
/* Stacks an "<agent>/obs" or "<agent>/next_obs". stack: 2 to ENV_MAX_STACK. */
void store_layout_stack(struct store_layout *l, int column, uint32_t stack, uint32_t back,
                        uint32_t together);
/* The column that a stacked one takes earlier observations from: "<agent>/obs". */
int store_layout_earlier(const struct store_layout *l, int column);
/* Index, or ERR_NOT_FOUND. `agent` may be NULL for joint columns. */
int store_layout_find(const struct store_layout *l, const char *agent, const char *name);
uint64_t store_layout_hash(const struct store_layout *l);
/* Convert between layout and header (STORE_HEADER_BYTES). Decoding checks everything:
 * ERR_FORMAT. */
void store_layout_encode(const struct store_layout *l, void *ret_header);
int store_layout_decode(const void *header, struct store_layout *ret, struct err *err);
void store_layout_done(struct store_layout *l);

#endif
