/* run_record.h - where a run stands, by what it left in its directory: for a run that is
 * over, or that does not answer.
 *
 * Sources  lock (is it live), journal (how it ended, its agents), config.yaml (its
 *          length), metrics/progress.csv (how far it came), checkpoints/. Whatever of
 *          them is missing or damaged leaves its facts unknown.
 * State    by the newest supervisor's lines in the journal: its end; "killed" where that
 *          wrote none and is gone; "no permission" where the lock does not let us see
 *          whether it is gone.
 */
#ifndef SUPERVISOR_RUN_RUN_RECORD_H
#define SUPERVISOR_RUN_RUN_RECORD_H

#include "common/err/err.h"
#include "supervisor/events/run_status.h"

#define RUN_RECORD_AGENTS_MAX 16384

struct run_record {
    struct run_status status; /* points into the record */
    int is_live;              /* a supervisor holds it */
    int has_end;              /* the journal tells how it ended */
    int is_denied; /* it has no end, and its lock is not ours to read: it may live */

    char *name; /* private from here on */
    int gave_up;
    char numerics[32];
    struct arena arena; /* texts of the status */
    struct run_agent_status *agents;
    size_t n_agents, cap_agents, last_agent;
    char state[32];
    char session_began[32], newest_time[32];
};

/* path: a run's directory. */
void run_record_read(struct run_record *ret, const char *path);
void run_record_done(struct run_record *r);

/* Only when the run began, as the journal has it: "2026-01-31T12:00:00.123Z"; "": it is
 * not known. */
void run_record_began(const char *path, char ret[32]);
/* Only how it ended: enum run_exit, 128 + SIGKILL where nobody wrote it down (has_end 0);
 * -1: a supervisor holds it, or we may not see whether one does. */
int run_record_exit_code(const char *path, int *ret_has_end);

#endif
