/* checkpointer.h - writes a run's checkpoints in the background, one at a time.
 *
 * Begin    copies the blocks at a round boundary: all that training waits for.
 * Write    on a thread of libuv's pool, which only touches files: checkpoint_commit, then
 *          old rows go back to the disk.
 * Log      a checkpoint is committed only if every row that updates can have drawn since
 *          the one before it still is as it was appended. So damage that stays in the file
 *          reaches no committed checkpoint: neither its weights nor its window.
 * Loss     whoever calls begin at each due boundary, waiting there while one is being
 *          written, has never computed more than an interval since the newest committed
 *          one; or, while one is being written (.tmp-<step>), since that one, which is an
 *          interval after the newest.
 * End      a loop with a checkpoint being written stays alive: uv_run returns after it.
 * Threads  loop thread, but for the writing.
 */
#ifndef SUPERVISOR_SAVE_RUN_SAVER_H
#define SUPERVISOR_SAVE_RUN_SAVER_H

#include "supervisor/save/checkpoint_write.h"

#include <uv.h>

struct checkpointer; /* opaque */

struct checkpointer_args { /* all borrowed until checkpointer_free */
    uv_loop_t *loop;
    const char *dir; /* the run's checkpoints/ */
    struct store *store;
    struct checkpoint_retention keep;
    /* From the loop, when one is over; why: NULL if it is committed; ERR_CORRUPT: the
     * experience log is damaged, and no later one can be committed, either. */
    void (*on_written)(void *ctx, uint64_t step, const struct err *why);
    /* The same of checkpointer_look; why: NULL if the log is sound. */
    void (*on_looked)(void *ctx, const struct err *why);
    void *ctx;
};

struct checkpointer *checkpointer_new(const struct checkpointer_args *args);
void checkpointer_free(struct checkpointer *c); /* not busy; NULL is fine */

/* The next ones go to another directory, each with a copy of the experience log at the
 * path log, for a run that is to go on from there. Borrowed, as args are. */
void checkpointer_move(struct checkpointer *c, const char *dir, const char *log);
/* Whether the newest that was begun went there. */
int checkpointer_is_moved(const struct checkpointer *c);
/* What was written last, once more: names and descriptions are borrowed as by
 * checkpointer_begin. 0: nothing was ever written, or something is now. */
int checkpointer_again(struct checkpointer *c);
/* Looks at the log without writing a checkpoint, as soon as none is being written; busy
 * meanwhile. */
void checkpointer_look(struct checkpointer *c);

/* One is being written. */
int checkpointer_is_busy(const struct checkpointer *c);
/* Begins one, when none is being written. Names and descriptions of the agents are
 * borrowed until it is over, blocks and sections for the call. ERR_NOMEM. */
int checkpointer_begin(struct checkpointer *c, uint64_t step,
                       const struct checkpoint_agent *agents, size_t n_agents,
                       const struct checkpoint_section *sections, size_t n_sections,
                       struct err *err);

#endif
