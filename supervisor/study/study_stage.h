/* study_stage.h - the rung or round at which a study is, and the runs that take part in it.
 *
 * A run of the stage has a number, those of a trial side by side: seed i % n_seeds of the trial
 * trial[i / n_seeds].
 */
#ifndef SUPERVISOR_STUDY_STUDY_STAGE_H
#define SUPERVISOR_STUDY_STUDY_STAGE_H

#include "supervisor/study/lineage.h"
#include "supervisor/study/study_dir.h"

struct study_stage {
    const struct study *study; /* borrowed, as dir */
    const char *dir;           /* its folder */
    struct lineage lineage;    /* of pbt; otherwise all-zero */
    size_t rung;               /* or the round, from 0 */
    uint64_t until;   /* environment steps at its end; 0: at the end of its runs */
    size_t *trial, n; /* that take part */
};

/* Begins with all trials in the first rung or, of pbt, in the first round that is not over, or
 * else in the last one. Reads again what the folder knows of the rungs. *ret is all-zero
 * after an error: ERR_FORMAT, -errno. */
int study_stage_begin(struct study_stage *ret, struct study *s, const char *dir,
                      struct err *err);
void study_stage_done(struct study_stage *g); /* all-zero is fine */
/* The next rung, in which the best of the trials with these values take part. Returns 0, and
 * changes nothing, if this is the last one. */
int study_stage_next(struct study_stage *g, const double *value);
/* The round after the newest one of the lineage. */
void study_stage_next_round(struct study_stage *g);

size_t study_stage_n_runs(const struct study_stage *g);
struct study_run_id study_stage_id(const struct study_stage *g, size_t run);
/* How far a run is on its way to the end of the stage: study_run_done. */
struct study_run study_stage_look(const struct study_stage *g, size_t run);
/* The mean over the seeds of trial[i] at the end of the stage; NaN: a seed has no value. */
double study_stage_value(const struct study_stage *g, size_t i);

#endif
