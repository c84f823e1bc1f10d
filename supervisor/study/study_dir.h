/* study_dir.h - the folder of a study, and how far its runs are.
 *
 *     runs/<study>/  study.yaml  base.yaml  study.lock  1-s1/  1-s2/  2-s1/ ...
 *
 * study.yaml and base.yaml are what the study began with; each trial is an ordinary run of
 * base.yaml, <number>-s<seed>, numbered from 1. How far a study is follows from its runs; with
 * asha there is rungs.csv, too (rungs.h), with pbt rounds.csv (lineage.h), and runs that began
 * as forks after round R are <number>-r<R>-s<seed>.
 */
#ifndef SUPERVISOR_STUDY_STUDY_DIR_H
#define SUPERVISOR_STUDY_STUDY_DIR_H

#include "supervisor/study/study.h"

struct study_dir; /* opaque; holds the lock */

/* Creates runs_dir/name for the study, or opens it to go on: then `s` may have more
 * trials or seeds (study_check_same). Only one process can have it open. ERR_CONFIG
 * (study_check_same), ERR_EXISTS: there is a run of that name; ERR_STATE: another process
 * works on the study; -errno. */
int study_dir_open(struct study_dir **ret, const char *runs_dir, const char *name,
                   const struct study *s, struct err *err);
void study_dir_close(struct study_dir *d); /* NULL is fine */
const char *study_dir_path(const struct study_dir *d);
/* Whether a folder is a study's. */
int study_dir_is_one(const char *path);
/* Whether a process has the study open. 0 also for a folder that is not a study's. */
int study_dir_is_locked(const char *path);
/* Reads the study as a sweep last began it; free with study_done. -EXDEV: see beneath_hold. */
int study_dir_read(struct study *ret, const char *path, struct err *err);
/* Reads again which rungs are over. */
int study_dir_look(struct study *s, const char *path, struct err *err);
/* The folder of the study of that name below runs_dir, or with that path unless a run below
 * runs_dir has that name; without a slash at its end. NULL: there is none. free(). */
char *study_dir_find(const char *runs_dir, const char *name);
/* The paths of all studies below runs_dir, in the order of their names: *ret_n of them,
 * run_dir_list_free(). A folder that is missing, or cannot be read, has none. */
void study_dir_list(const char *runs_dir, char ***ret, size_t *ret_n);
/* Removes a study with all its runs, one after the other; what was begun, another call finishes.
 * *ret_runs: how many there were. Removes nothing after ERR_ARG: the path or that of one of its
 * runs is a link, or no sweep has begun the study there, so that other things may be in the
 * folder; ERR_STATE: a sweep works on the study, or one of its runs is live. (Both also come of a
 * run that appears meanwhile.) */
int study_dir_remove(const char *path, size_t *ret_runs, struct err *err);

enum study_run_state {
    STUDY_RUN_NEW,     /* it must begin, or begin again: there is no checkpoint */
    STUDY_RUN_PARTIAL, /* it can be resumed */
    STUDY_RUN_LIVE,    /* a supervisor holds its lock, or only its owner may know */
    STUDY_RUN_REACHED,
    STUDY_RUN_FAILED,
};

struct study_run {
    char *path; /* owned */
    enum study_run_state state;
    double value; /* NaN: it has none that is finite */
    uint64_t steps;
    int has_checkpoint;
    char *failure; /* owned; STUDY_RUN_FAILED: "1-s1 at step 100: ..."; otherwise NULL */
    uint64_t reached; /* step of the row of metrics at which it stopped; 0: not yet */
};

/* Which run of a study it is. */
struct study_run_id {
    size_t trial, seed; /* from 0 */
    size_t birth;       /* the number of the round after which it began as a fork, or 0 */
};

/* The path of a trial's run; free(). */
char *study_run_path(const struct study *s, const char *dir,
                     const struct study_run_id *id);
/* Looks how far a run is on its way to step `until` (0: to its end), and what its value
 * is there. A run stops at the first boundary at or after that step, and writes a row of
 * metrics. One that has a value at a rung that is over has reached that rung, even if it is
 * live. */
void study_run_look(struct study_run *ret, const struct study *s, const char *dir,
                    const struct study_run_id *id, uint64_t until);
void study_run_done(struct study_run *run);

#endif
