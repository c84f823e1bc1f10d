/* row_writer.h - turns one step of all copies into E rows of the experience log.
 *
 * Two calls per step, because the step overwrites the environment's observations and
 * masks: row_writer_before stores those that the agents acted on, row_writer_after the
 * rest.
 */
#ifndef SUPERVISOR_ROLLOUT_ROW_WRITER_H
#define SUPERVISOR_ROLLOUT_ROW_WRITER_H

#include "supervisor/env/env.h"
#include "supervisor/rollout/acting.h"
#include "supervisor/rollout/description.h"
#include "supervisor/store/store.h"

#include <stddef.h>
#include <stdint.h>

struct row_writer; /* opaque */

/* The columns of the log for these agents; release with store_layout_done. Without an
 * environment (none) no row is ever written: then the agents have no columns. */
int row_writer_layout(struct store_layout *ret, const struct env_spec *spec,
                      const struct description *descriptions, struct err *err);
/* layout: from row_writer_layout. All arguments are borrowed. */
struct row_writer *row_writer_new(const struct store_layout *layout,
                                  const struct env_spec *spec,
                                  const struct description *descriptions, size_t copies);
void row_writer_free(struct row_writer *w);

/* rows (E, row_bytes) */
void row_writer_before(const struct row_writer *w, const struct vec_env *env,
                       uint8_t *rows);
void row_writer_after(const struct row_writer *w, const struct env_step *step,
                      const struct acting *acting, uint8_t *rows);

#endif
