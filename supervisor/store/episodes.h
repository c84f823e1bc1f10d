/* episodes.h - which rows of the log's window form one episode of one copy.
 *
 * Rows     row n is of copy n % E (store.h); the rows of an episode lie E apart, from the one
 *          whose column `first` is 1.
 * Memory   8 bytes per episode of the window.
 * State    a function of the log and of which copies are between two episodes. So nothing
 *          is saved: a resumed run computes it again from the log (episodes_read).
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_STORE_EPISODES_H
#define SUPERVISOR_STORE_EPISODES_H

#include "common/err/err.h"
#include "supervisor/store/store.h"

#include <stddef.h>
#include <stdint.h>

struct episodes; /* opaque */

struct episodes *episodes_new(size_t copies);
void episodes_free(struct episodes *x);
/* Finds the episodes in the log's window; call it once, before the first episodes_add.
 * ended (E): 1 if the newest row of the copy is the last of its episode. ERR_CORRUPT,
 * -errno. */
int episodes_read(struct episodes *x, const struct store *s, const uint8_t *ended,
                  struct err *err);
/* Adds the E rows from `row` on, which have been appended to the log. first, ended
 * (E): 1 if the row is the first, or the last, of its episode. window_first: the
 * oldest row of the window from now on. */
void episodes_add(struct episodes *x, uint64_t row, const uint8_t *first,
                  const uint8_t *ended, uint64_t window_first);

/* How many episodes lie wholly in the window, from `first` to their end. */
uint64_t episodes_complete(const struct episodes *x);
/* Returns 1, and the first row of the episode, if the copy's newest row ended an
 * episode that lies wholly in the window; otherwise 0. */
int episodes_newest(const struct episodes *x, size_t copy, uint64_t *ret_first);
/* Fills ret_rows (length) with the rows of complete episode k from its first on, then
 * with ROW_NONE. Episodes are numbered copy by copy, within a copy from the oldest on. */
void episodes_rows(const struct episodes *x, uint64_t k, uint64_t *ret_rows,
                   size_t length);
/* Fills ret_rows (length) with `row` and the rows of the log that follow it in its
 * episode, then with ROW_NONE. */
void episodes_behind(const struct episodes *x, uint64_t row, uint64_t *ret_rows,
                     size_t length);

#endif
