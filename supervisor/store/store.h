/* store.h - the experience log of a run: its one writer.
 *
 * File     common/store/layout.h. Sparse: the file is created, and opened for the agents,
 *          before its columns are known; the header is written by store_describe.
 * Rows     numbered from 0 for ever, in the order (time, copy): the row of copy e in the
 *          round that began at environment step n is row n + e.
 * Window   the newest `capacity` rows: what updates draw from.
 * Disk     rows are written by pwrite alone, so that a full disk is an error that names
 *          the file, never a signal. store_forget gives old rows back to the disk.
 * Sums     a CRC-32C per block of rows (STORE_BLOCK_BYTES, at least one row), kept as
 *          rows are appended: what a checkpoint holds of the log, and what the file is
 *          compared with before each checkpoint and by a resume.
 * Owns     both descriptors and the row buffer.
 * Threads  loop thread only; but store_check, store_sync, store_copy and store_forget may
 *          run on one other thread meanwhile.
 */
#ifndef SUPERVISOR_STORE_STORE_H
#define SUPERVISOR_STORE_STORE_H

#include "common/err/err.h"
#include "common/rng/rng.h"
#include "common/store/layout.h"
#include "supervisor/env/env.h"

#include <stddef.h>
#include <stdint.h>

#define STORE_BLOCK_BYTES (64u << 10) /* of rows under one checksum, about */

struct store; /* opaque */

/* Creates path (replaces nothing: ERR_EXISTS). capacity: rows, at least 1. */
int store_create(struct store **ret, const char *path, uint64_t capacity,
                 struct err *err);
/* Opens the log of an interrupted run as a checkpoint knew it (store_state_save): every
 * row of its window is verified. Rows past its head stay in the file until store_cut.
 * ERR_NOT_FOUND, ERR_CORRUPT, ERR_FORMAT, ERR_LIMIT (a capacity that needs rows which the
 * checkpoint did not), -errno. */
int store_open(struct store **ret, const char *path, uint64_t capacity, const void *state,
               size_t len, struct err *err);
int store_cut(struct store *s, struct err *err);
void store_free(struct store *s); /* closes; the file stays */

/* A read-only descriptor of the file, for the agents; borrowed, open until store_free. */
int store_agent_fd(const struct store *s);

/* A column that an algorithm adds to every row: "<agent>/<name>", f32. */
struct store_extra {
    const char *agent;
    const char *name;
    uint32_t elements;
};

/* The layout of a run: the columns of layout.h for every agent of the environment (masks
 * where env_is_masked), then the joint ones, then the extra ones. Release with
 * store_layout_done. */
int store_layout_make(struct store_layout *ret, const struct env_spec *spec,
                      const struct store_extra *extra, size_t n_extra, struct err *err);

/* Writes the header; takes the layout's columns. Once, before the first row. A log that
 * was opened has a header: its columns must be the same (ERR_FORMAT). */
int store_describe(struct store *s, struct store_layout *layout, struct err *err);
const struct store_layout *store_layout(const struct store *s);

/* Room for n rows, (n, row_bytes), to be filled and then appended; bytes that no column has
 * are 0. One buffer, reused: valid until the next call with a larger n, which clears it. */
uint8_t *store_rows(struct store *s, size_t n);
/* Appends the first n rows of that buffer with one pwrite. */
int store_append(struct store *s, size_t n, struct err *err);

uint64_t store_head(const struct store *s);         /* rows ever appended */
uint64_t store_window_first(const struct store *s); /* oldest row of the window */
uint64_t store_window_rows(const struct store *s);
/* The oldest row of the window as it was, or will be, when the head is at `head`. */
uint64_t store_window_first_at(const struct store *s, uint64_t head);

/* n row numbers, uniformly with replacement from the window, which must not be empty:
 * draw (key, counter), elements 0 .. n-1. */
void store_draw(const struct store *s, struct rng_key key, uint64_t counter,
                uint64_t *ret_rows, size_t n);

/* Rows below `row` will not be read again: whole file blocks become holes, as far as no
 * checksum of a later row needs them. Filesystems without holes: no-op. */
int store_forget(struct store *s, uint64_t row, struct err *err);
/* fdatasync: all rows appended so far are on the disk. */
int store_sync(struct store *s, struct err *err);
/* The whole log as another file, holes left out, on the disk when it returns; whatever was
 * there is replaced. -errno. */
int store_copy(const struct store *s, const char *path, struct err *err);

/* Head and checksums of the window, for run.state; malloc'd. */
void store_state_save(const struct store *s, uint8_t **ret, size_t *ret_len);

/* The same from the block of `row` on, which store_forget must not have given back. */
void store_sums_save(const struct store *s, uint64_t row, uint8_t **ret, size_t *ret_len);
/* Reads the header and the rows under these checksums again: ERR_CORRUPT if they are not
 * what was appended (the message names file and rows), or cannot be read. A log that has
 * no columns yet is sound. */
int store_check(const struct store *s, const void *sums, size_t len, struct err *err);

#endif
