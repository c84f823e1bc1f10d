/* parting_internal.h - what parting.c, which searches in what two runs kept, shares with replays.c,
 * which narrows that down.
 */
#ifndef SUPERVISOR_DIFF_PARTING_INTERNAL_H
#define SUPERVISOR_DIFF_PARTING_INTERNAL_H

#include "supervisor/diff/parting.h"
#include "supervisor/diff/values.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/store/store.h"

enum { HERE, THERE }; /* the runs */

/* ---- the variables of a checkpoint: snapshot.c ---- */

struct snapshot {
    struct checkpoint_state state;
    struct checkpoint_block *block; /* [n] in the order of the run's processes */
    size_t n;
};

/* Release with snapshot_done, after success only. */
int snapshot_load(struct snapshot *ret, struct run_dir *dir, uint64_t step,
                  struct err *err);
void snapshot_done(struct snapshot *s); /* all-zero is fine */
/* The index of a process; n: it is not there. */
size_t snapshot_find(const struct snapshot *s, const char *agent);

/* ---- what is found: found.c ---- */

/* Replaces what was found before; what does not concern it stays. */
void parting_found(struct parting *p, enum parting_kind kind, uint64_t step,
                   const char *agent, const char *name);
/* Of the process that was found: the tensor of the table. */
void parting_found_values(struct parting *p, const struct block_table *t,
                          const struct values_part *v);
/* copies: the rows of a round. */
void parting_found_row(struct parting *p, uint64_t copies,
                       const struct store_difference *d);

/* ---- replays: replays.c ---- */

/* Whether an error ends the search; after others, it goes on with what it has. */
static inline int parting_ends_by(int code)
{
    return code == ERR_NOMEM || code == ERR_INTERRUPTED;
}

/* Replays both runs between two steps, the first of an equal checkpoint. What was found already
 * stays if the replays do not differ, or if it is from before them. Errors: parting_ends_by. */
int replays_narrow(const struct parting_args *args, uint64_t from, uint64_t to,
                   struct parting *p, struct err *err);

#endif
