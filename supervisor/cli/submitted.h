/* submitted.h - runs that `brood submit` has given to Slurm.
 *
 *     runs/.jobs/<run>/  job.sh  config.yaml  job  job-<id>.out
 *
 * A run that waits in the queue has no directory of its own yet. `job` holds the id of its
 * newest job ("12", of an array "12_3"); config.yaml is what it begins with.
 */
#ifndef SUPERVISOR_CLI_SUBMITTED_H
#define SUPERVISOR_CLI_SUBMITTED_H

#include "common/err/err.h"
#include "supervisor/metrics/json.h"
#include "supervisor/node/slurm.h"

struct submitted {
    char id[64];
    char state[SLURM_STATE_BYTES], reason[SLURM_REASON_BYTES]; /* slurm_look */
};

/* "<runs_dir>/.jobs"; free(). */
char *submitted_jobs(const char *runs_dir);
/* "<runs_dir>/.jobs/<run>"; free(). */
char *submitted_folder(const char *runs_dir, const char *run);
/* The same for the run in that directory; NULL: there is no such directory. */
char *submitted_folder_of(const char *path);
/* Removes such a folder, if it exists. */
int submitted_remove(const char *folder, struct err *err);
/* Finds the job of a run, and asks Slurm about it. 0: the run was not submitted. */
int submitted_find(struct submitted *ret, const char *runs_dir, const char *run);
/* The same for the run in that directory. */
int submitted_find_of(struct submitted *ret, const char *path);
/* Whether the job waits, runs, or is just ending. */
int submitted_is_live(const struct submitted *s);
/* Whether it may wait or run, for all we know: Slurm did not answer. */
int submitted_is_unknown(const struct submitted *s);
/* Adds "job": {"id", "state", "reason"} to an open object. */
void submitted_json(const struct submitted *s, struct json *j);
/* Stores the id of the run's job. */
int submitted_write(const char *runs_dir, const char *run, const char *id,
                    struct err *err);

#endif
