/* run_view.h - a run as the page shows it, as JSON: its view, and its line in a list.
 *
 * The page's server pushes both (supervisor/web/web.h), and a report has both.
 */
#ifndef SUPERVISOR_FACTS_RUN_VIEW_H
#define SUPERVISOR_FACTS_RUN_VIEW_H

#include "common/config/run_config.h"
#include "supervisor/events/run_status.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/rundir/run_tags.h"

/* What a page compares with the view before, to ask again for what has changed. */
struct run_view_stamps {
    uint64_t rows, journal;       /* sizes; rows 0: there are none */
    uint64_t config, checkpoints; /* times of modification, in milliseconds since 1970 */
};

struct run_view {
    const char *name;
    const struct run_status *status;
    const struct run_tags *tags;
    struct run_view_stamps stamps;
    int is_live, is_denied; /* run_record.h */
};

/* {"push": "run", "run", "live", "denied", "rows", "journal", "config", "checkpoints", "status":
 * {of run_status_json, and the tags}}. */
void run_view_put(const struct run_view *v, struct json *j);

/* Samples of a run's return in a list. */
enum { RUN_SPARK = 64 };

/* The run in a list, into an object that is open: "run", "study", state and progress, "live",
 * "began", "agents", "restarts", "given_up", what it was set up with (run_setup_put), its tags,
 * "steps_per_second" of its newest row, and "spark": of the teams' mean return at most RUN_SPARK
 * samples, the first and the newest included; in training or, without any, in evaluations.
 * study NULL: of none; config NULL: it cannot be read; p: its course, NULL: there is none. */
void run_summary_put(const struct run_view *v, const char *study,
                     const struct run_config *config, const struct progress *p,
                     struct json *j);

#endif
