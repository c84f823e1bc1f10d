/* restore.h - sends agents the values of a checkpoint in `restore` requests.
 *
 * Used by players.c, by a new run that begins with another run's weights, and for frozen
 * agents that are programs. Variables are matched by name; one that the checkpoint lacks keeps
 * its initial value.
 */
#ifndef SUPERVISOR_BEGIN_RESTORE_H
#define SUPERVISOR_BEGIN_RESTORE_H

#include "common/err/err.h"
#include "supervisor/proc/agent_table.h"
#include "supervisor/save/checkpoint_read.h"

struct restore; /* opaque */

/* Sets *ret to the values of a process of the table, borrowed until the answers have come; NULL:
 * it gets none. */
typedef int (*restore_values_fn)(void *ctx, size_t agent, const char *name,
                                 const struct checkpoint_values **ret, struct err *err);

/* Sends the agents their values (resized: as in protocol.h); calls on_done when all have
 * responded. Every agent must be ready, with no request outstanding. *ret is set also on
 * failure. */
int restore_start(struct restore **ret, struct agent_table *agents,
                  restore_values_fn values_of, int resized, void (*on_done)(void *ctx),
                  void *ctx, struct err *err);
void restore_free(
    struct restore *r); /* NULL is fine; not while requests are outstanding */

#endif
