/* parting.h - where two runs part: the first step, process, stage and value that differ.
 *
 * Kept      first what both kept is compared: the rows of their logs, the variables of checkpoints
 *           of equal steps, of which bisection finds the first that differs, and, if a log is gone,
 *           the rows of progress.csv.
 * Replayed  from the last equal checkpoint to there, both runs are replayed (run/replay.h), one after
 *           the other. Checksums of the variables are compared after each stage that writes, and
 *           the rows as they are; what differs in the variables is found by a third replay, which
 *           ends there.
 * Log gone  both are replayed from step 0, where no rows are needed.
 * Order     a round's rows come before its updates, whose stages follow each other as they depend
 *           on each other (struct probe_turn).
 * Private   neither run's directory changes; both may be live.
 */
#ifndef SUPERVISOR_DIFF_PARTING_H
#define SUPERVISOR_DIFF_PARTING_H

#include "common/store/layout.h"
#include "supervisor/run/replay.h"

struct parting_args { /* borrowed */
    struct run_dir *dir[2];
    uint64_t copies[2]; /* of the environment: the rows of a round */
    uint64_t until;     /* what lies after this step is not compared */
    const struct binaries *binaries;
    const struct keeper_link *keeper;
    config_env_names_fn env_names;
    /* As for resume_open: a checkpoint cannot be read. */
    void (*on_skipped)(void *ctx, const char *line);
    /* A replay of run `which` is at that step. */
    void (*on_progress)(void *ctx, int which, uint64_t from, uint64_t step,
                        uint64_t total);
    void *ctx;
};

enum parting_kind {
    PARTING_NONE,       /* nothing that was compared differs */
    PARTING_ROW,        /* a value of the experience */
    PARTING_STAGE,      /* what a stage of an update made of a variable */
    PARTING_WHEN,       /* a stage came at another step: here, there */
    PARTING_CHECKPOINT, /* a variable in a checkpoint */
    PARTING_METRIC,     /* a value of progress.csv */
};

struct parting {
    enum parting_kind kind;
    int is_first; /* it was found by replays: nothing before it that was compared differs */
    uint64_t step; /* of the round's beginning, or of what is compared */
    uint64_t row;  /* PARTING_ROW */
    char *agent;   /* its process; NULL: a value of all, or a metric */
    char *stage;   /* PARTING_STAGE, PARTING_WHEN */
    uint64_t update, pass;
    char *name;         /* a column, a tensor, or a metric; PARTING_WHEN: NULL */
    uint64_t element;   /* of the column or tensor */
    double here, there; /* NaN: there is none */
    double largest;     /* distance in that tensor */
    size_t n_differing; /* tensors of that process */
    uint64_t equal;     /* the last step at which checkpoints are equal; */
    int has_equal;      /* 0: no step is known */
    /* Of each run, why it could not be replayed there; ERR_CORRUPT: it does not reproduce
     * itself. Code 0: neither. */
    struct err why[2];
    struct err incomparable; /* what cannot be compared; code 0: nothing */
};

/* ERR_INTERRUPTED, ERR_NOMEM, -errno, ...; *ret holds nothing then. That something cannot be
 * replayed or compared is no error: `why`, `incomparable`. */
int parting_find(const struct parting_args *args, struct parting *ret, struct err *err);
void parting_done(struct parting *p);

#endif
