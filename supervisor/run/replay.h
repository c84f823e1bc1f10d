/* replay.h - plays a part of a run again, from one of its checkpoints, and shows a round of it.
 *
 * Private  nothing of the run's directory changes, and no file with a name is made: the rows
 *          go to an unnamed copy of the log (store_open_copy). The run may be live or over,
 *          however it ended.
 * Exact    what the run accepted since the checkpoint (settings, give-ups) is repeated at its
 *          steps, and the rows are compared with the run's log, as far as that has them.
 * Until    two replays: the first one looks for the value, the second one shows the update
 *          that it comes from.
 */
#ifndef SUPERVISOR_RUN_REPLAY_H
#define SUPERVISOR_RUN_REPLAY_H

#include "common/store/layout.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/proc/keeper.h"
#include "supervisor/rollout/probe.h"
#include "supervisor/run/run_dir.h"

enum replay_relation {
    REPLAY_ABOVE,
    REPLAY_BELOW,
    REPLAY_AT_LEAST,
    REPLAY_AT_MOST,
    REPLAY_NONFINITE,
};

/* A condition on each value of which the column's means are made: of train/..., one per pass
 * of an update; of rollout/... and eval/..., one per episode or evaluation. */
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
    const char *from; /* step of the checkpoint; NULL: replay finds it */
    uint64_t to;      /* the round that reaches this step; or */
    const struct replay_condition *until; /* the first value for which it holds */
    const char *trace;  /* file for a recording of that round; NULL: none is made */
    struct probe probe; /* what to show there; step, update are set */
    void (*on_skipped)(void *ctx, const char *line); /* as for resume_open */
    /* A replay has played so far. total: where it ends at the latest. */
    void (*on_progress)(void *ctx, uint64_t from, uint64_t step, uint64_t total);
    /* The replay is over: its log, open for reading. Borrowed for the call; may be NULL. */
    void (*on_log)(void *ctx, const struct store_layout *layout, int fd);
    void *ctx;
};

struct replay_result {
    uint64_t from, to; /* steps: of the checkpoint, and reached */
    uint64_t compared; /* rows that were equal to the log's */
    uint64_t log_end;  /* rows that the log has in all */
    int found;         /* the condition holds: */
    double value;
    uint64_t update; /* number of the update; of train/... only */
    int has_update;
};

/* ERR_NOT_FOUND: no checkpoint before that point, no log, or no such tensor or process;
 * ERR_CONFIG: a step that the run has not come to, or other numerics; ERR_CORRUPT: the
 * replay diverges from the log, or a damaged checkpoint; ERR_INTERRUPTED; and the error with
 * which the run itself ended there. *ret is filled as far as it came. */
int replay_run(const struct replay_args *args, struct replay_result *ret,
               struct err *err);

#endif
