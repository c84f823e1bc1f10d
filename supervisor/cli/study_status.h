/* study_status.h - how far a study is, found from its files (study_dir.h): for `brood status`,
 * `brood attach` and `brood runs`, also while another process sweeps it. */
#ifndef SUPERVISOR_CLI_STUDY_STATUS_H
#define SUPERVISOR_CLI_STUDY_STATUS_H

#include "supervisor/cli/cli.h"
#include "supervisor/study/study_report.h"

/* `brood status` and `brood attach` of the study in that folder; the exit code. */
int study_status_print(const struct cli *cli, const char *path);
int study_status_attach(const struct cli *cli, const char *path);

/* What a list of studies shows of one. */
struct study_summary {
    const char *name;
    const char *state; /* "running", "stopped", "done", "unreadable" */
    /* The trials, and how many of them go no further: they have come to the end, have failed or,
     * with asha, are left behind at a rung that is over. */
    size_t n_trials, n_done;
    struct study_report *report; /* NULL: unreadable */
    struct study_status *status; /* private */
};
/* path: the study's folder, borrowed. Reads how far all of its runs are. */
void study_summary_read(struct study_summary *ret, const char *path);
void study_summary_done(struct study_summary *s);

#endif
