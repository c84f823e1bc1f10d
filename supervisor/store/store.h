/* store.h - the experience log of a run, written by the supervisor alone.
 *
 * File     common/store/layout.h. Sparse. The file is created, and opened for the agents,
 *          before its columns are known; store_describe writes the header.
 * Rows     numbered from 0 over the whole run, in the order (time, copy): the row of copy
 *          e in the round that began at environment step n is row n + e.
 * Window   the newest `capacity` rows: what updates draw from.
 * Disk     rows are written with pwrite, not through a mapping, so that a full disk is an
 *          error that names the file and not a SIGBUS. store_forget frees the disk space
 *          of old rows.
 * Sums     a CRC-32C per block of rows (STORE_BLOCK_BYTES, at least one row), updated as
 *          rows are appended. Checkpoints contain these sums; the file is compared with
 *          them before each checkpoint and when a run is resumed.
 * Owns     both descriptors and the row buffer.
 * Threads  loop thread only, except that store_check, store_sync, store_copy and
 *          store_forget may run on one other thread at the same time.
 */
#ifndef SUPERVISOR_STORE_STORE_H
#define SUPERVISOR_STORE_STORE_H

#include "common/err/err.h"
#include "common/rng/rng.h"
#include "common/store/layout.h"
#include "supervisor/env/env.h"

#include <stddef.h>
#include <stdint.h>

#define STORE_BLOCK_BYTES (64u << 10) /* of rows per checksum, approximately */

struct store; /* opaque */

/* Creates path; ERR_EXISTS if it exists. capacity: rows, at least 1. */
int store_create(struct store **ret, const char *path, uint64_t capacity,
                 struct err *err);
/* Opens the log of an interrupted run in the state of a checkpoint (store_state_save) and
 * verifies every row of the window. Rows past the checkpoint's head stay in the file
 * until store_cut. ERR_NOT_FOUND, ERR_CORRUPT, ERR_FORMAT, ERR_LIMIT (the capacity is
 * larger than the checkpoint's, and the rows that this needs have been forgotten),
 * -errno. */
int store_open(struct store **ret, const char *path, uint64_t capacity, const void *state,
               size_t len, struct err *err);
/* As store_open, but the log is only read; it may be live, or another user's. */
int store_open_read(struct store **ret, const char *path, uint64_t capacity,
                    const void *state, size_t len, struct err *err);
/* As store_open, but of a copy: an unnamed file next to the run's directory, or else in
 * memory, which vanishes with the last process that has it open. The log itself is only
 * read; it may be live, and missing if the state is that of the run's beginning. */
int store_open_copy(struct store **ret, const char *path, uint64_t capacity,
                    const void *state, size_t len, struct err *err);
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
 * where env_is_masked; obs and next_obs stacked if env.stack says so), then the joint ones,
 * then the extra ones. Release with store_layout_done. */
int store_layout_make(struct store_layout *ret, const struct env_spec *spec,
                      const struct store_extra *extra, size_t n_extra, struct err *err);

/* Writes the header and takes ownership of the layout's columns. Call it once, before the
 * first row. A log from store_open has a header already: its columns must be the same
 * (ERR_FORMAT), and the layout stays the caller's. */
int store_describe(struct store *s, struct store_layout *layout, struct err *err);
const struct store_layout *store_layout(const struct store *s);

/* A buffer of n rows, (n, row_bytes), for the caller to fill before store_append; padding
 * between columns is 0. The buffer is reused: a call with a larger n clears it and
 * invalidates the pointer. */
uint8_t *store_rows(struct store *s, size_t n);
/* Appends the first n rows of that buffer with one pwrite. */
int store_append(struct store *s, size_t n, struct err *err);

uint64_t store_head(const struct store *s);         /* rows ever appended */
uint64_t store_window_first(const struct store *s); /* oldest row of the window */
uint64_t store_window_rows(const struct store *s);
/* The oldest row that is read with the window's rows at the time when the log has `head` rows:
 * the oldest of them, or an earlier one where columns are stacked (layout.h). */
uint64_t store_needed_first_at(const struct store *s, uint64_t head);

/* Draws n row numbers uniformly with replacement from the window, which must not be
 * empty: elements 0 .. n-1 of draw (key, counter). */
void store_draw(const struct store *s, struct rng_key key, uint64_t counter,
                uint64_t *ret_rows, size_t n);

/* Frees the disk space of rows first .. end - 1, which will not be read again: whole file
 * blocks become holes, except those that the checksum of another row covers. Does nothing
 * on filesystems without holes. */
int store_forget(struct store *s, uint64_t first, uint64_t end, struct err *err);
/* fdatasync: on return, all rows appended so far are on the disk. ERR_CORRUPT: they may be
 * lost, also if a later call succeeds. */
int store_sync(struct store *s, struct err *err);
/* Copies rows first .. end - 1 of the log, perhaps with rows around them, to the same
 * places of another file, keeping holes, and syncs it; replaces an existing file.
 * -errno. */
#define STORE_ALL_ROWS UINT64_MAX /* as end */
int store_copy(const struct store *s, uint64_t first, uint64_t end, const char *path,
               struct err *err);

/* A value of a row as a number. */
double store_column_value(const struct store_column *c, const uint8_t *row, uint32_t i);
/* Compares those of the rows first .. end - 1 that another log of the same run, opened
 * for reading, still has; *ret_n: the number of rows found equal. ERR_CORRUPT names
 * the first row and column that differ. */
int store_compare(const struct store *s, int log, uint64_t first, uint64_t end,
                  uint64_t *ret_n, struct err *err);
/* Where two logs differ first. */
struct store_difference {
    uint64_t row;
    char column[STORE_COLUMN_NAME_MAX]; /* "": between columns */
    uint32_t element;
    double here, there;
};
/* Compares rows first .. end - 1 of two logs that are open for reading, those that both
 * still have. Returns 1 if one differs, the first of which is *ret; or 0. ERR_UNSUPPORTED: they
 * have different columns; ERR_FORMAT, -errno. */
int store_find_difference(struct store_difference *ret, int here, int there,
                          uint64_t first, uint64_t end, struct err *err);
/* The number of rows up to the end of a log that is open for reading. ERR_FORMAT, ... */
int store_log_end(int log, uint64_t *ret, struct err *err);

/* Saves the head and the checksums of the window, and of what is read with it, for run.state;
 * *ret is malloc'd. */
void store_state_save(const struct store *s, uint8_t **ret, size_t *ret_len);

/* store_state_save with the checksums from the block of `row` on, which store_forget must
 * not have freed. */
void store_sums_save(const struct store *s, uint64_t row, uint8_t **ret, size_t *ret_len);
/* Reads the header and the rows covered by these checksums again. ERR_CORRUPT if they
 * differ from what was appended (the message names file and rows) or cannot be read. A
 * log without columns passes. */
int store_check(const struct store *s, const void *sums, size_t len, struct err *err);

#endif
