/* run_facts.h - the status of a run: a live run is asked over its socket, otherwise its
 * directory is read. */
#ifndef SUPERVISOR_CLI_RUN_FACTS_H
#define SUPERVISOR_CLI_RUN_FACTS_H

#include "common/config/run_config.h"
#include "supervisor/cli/submitted.h"
#include "supervisor/control/client.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/rundir/run_tags.h"

struct run_facts {
    struct run_status status; /* points into this struct */
    struct run_tags tags;
    int is_live; /* a supervisor holds the run's lock */
    const struct submitted
        *job; /* its job at Slurm; borrowed, set by the caller; or NULL */
    const struct progress
        *progress;      /* its newest rows; borrowed, set by the caller; or NULL */
    int is_denied;      /* no permission to find out (run_record.h) */
    struct arena arena; /* private */
};

/* path: a run's directory; timeout_ms: 0: no limit. A live run that does not answer in time, or
 * sends what is no answer, gets the status of its record, with the state "suspended" or "not
 * answering". A run of another user has what is left of patience_begin's time (patience.h). */
void run_facts_get(struct run_facts *ret, const char *path, int timeout_ms);
/* The newest rows of its progress.csv: progress_free. NULL: there are none, or they cannot be
 * read. */
struct progress *run_facts_progress(const char *path);
void run_facts_done(struct run_facts *f);
/* Prints the status, the tags and, of progress, the newest value of each column as one line of
 * JSON on stdout. */
void run_facts_print_json(const struct run_facts *f);

/* Lists the names of the run's agents, separated by commas, as many as fit; "" if none are
 * known. Returns ret. */
const char *run_agent_names(const char *path, char *ret, size_t size);

#endif
