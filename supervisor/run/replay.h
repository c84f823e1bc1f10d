/* replay.h - plays a part of a run again, from one of its checkpoints, and shows a round of it.
 *
 * Private  nothing in the run's directory changes, and no named file is created: the rows
 *          go to an unnamed copy of the log (store_open_copy). The run may be live or over,
 *          however it ended.
 * Exact    changes since the checkpoint (settings, give-ups) are repeated at their steps,
 *          and the rows are compared with the run's log, as far as it has them.
 * Until    plays twice: the first replay searches for the value, the second one shows the
 *          update that the value comes from.
 */
#ifndef SUPERVISOR_RUN_REPLAY_H
#define SUPERVISOR_RUN_REPLAY_H

#include "common/store/layout.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/rollout/probe.h"
#include "supervisor/rundir/run_dir.h"

enum replay_relation {
    REPLAY_ABOVE,
    REPLAY_BELOW,
    REPLAY_AT_LEAST,
    REPLAY_AT_MOST,
    REPLAY_NONFINITE,
};

/* A condition on the single values whose means are in a column: for train/..., one value
 * per pass of an update; for rollout/... and eval/..., one per episode or evaluation. */
struct replay_condition {
    char column[128];
    enum replay_relation relation;
    double number;
};
/* "COLUMN > NUMBER" (<, >=, <=) or "COLUMN is nonfinite". ERR_ARG. */
int replay_condition_parse(struct replay_condition *ret, const char *text,
                           struct err *err);
int replay_condition_holds(const struct replay_condition *c, double value);

struct replay_args {     /* borrowed */
    struct run_dir *dir; /* need not be locked */
    const struct binaries *binaries;
    const struct keeper_link *keeper;
    config_env_names_fn env_names;
    const char *from; /* step of the checkpoint; NULL: replay_run chooses it */
    uint64_t to;      /* shows the round that reaches this step; or, */
    const struct replay_condition *until; /* if not NULL, the first value that meets it */
    const char *trace; /* file for a recording of that round; NULL: no recording */
    /* What to show there; replay_run sets step and update. With on_written there is no such
     * round: all are the same. */
    struct probe probe;
    void (*on_skipped)(void *ctx, const char *line); /* as for resume_open */
    /* Reports the step reached. total: where the replay ends at the latest. */
    void (*on_progress)(void *ctx, uint64_t from, uint64_t step, uint64_t total);
    /* Called after each round: 1 ends the replay there. May be NULL. */
    int (*is_over)(void *ctx);
    /* Called when a replay is over, with its log, open for reading. Arguments are
     * borrowed for the call. May be NULL. */
    void (*on_log)(void *ctx, const struct store_layout *layout, int fd);
    void *ctx;
};

struct replay_result {
    uint64_t from, to; /* the checkpoint's step, and the step reached */
    uint64_t compared; /* rows that were equal to the log's */
    uint64_t log_end;  /* rows that the log has in all */
    int found;         /* 1: a value met the condition: */
    double value;
    uint64_t update; /* number of the update, if has_update (columns train/...) */
    int has_update;
};

/* Without the run's log, only a replay from step 0 is possible; its rows are compared with nothing.
 * ERR_NOT_FOUND: no checkpoint before that point, no log, or no such tensor or process;
 * ERR_CONFIG: a step that the run has not reached, or other numerics; ERR_CORRUPT: the
 * replay diverges from the log, or a damaged checkpoint; ERR_INTERRUPTED; and the error with
 * which the run itself ended there. *ret is filled as far as the replay came. */
int replay_run(const struct replay_args *args, struct replay_result *ret,
               struct err *err);

#endif
