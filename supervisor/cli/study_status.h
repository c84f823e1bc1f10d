/* study_status.h - how far a study is, found from its files (study_dir.h): for `brood status`
 * and `brood attach`, also while another process sweeps it. */
#ifndef SUPERVISOR_CLI_STUDY_STATUS_H
#define SUPERVISOR_CLI_STUDY_STATUS_H

#include "supervisor/cli/cli.h"
#include "supervisor/cli/study_view.h"

struct study_status {
    struct study study;
    struct lineage lineage;  /* of pbt; otherwise all-zero */
    const char *path, *name; /* the study's folder, borrowed; its last part */
    int is_live;             /* a `brood sweep` works on it */
    int is_over;             /* all its runs have come to the end, or failed */
    struct study_stage stage;
    size_t rung; /* or the round, from 0 */
    size_t *trial, n;
};

/* *ret must stay where it is until study_status_done. After an error (ERR_CONFIG, ERR_FORMAT,
 * -errno) it is all-zero. */
int study_status_read(struct study_status *ret, const char *path, struct err *err);
/* Reads again how far it is; the errors as above. */
int study_status_refresh(struct study_status *p, struct err *err);
void study_status_done(struct study_status *p);

/* `brood status` and `brood attach` of the study in that folder; the exit code. */
int study_status_print(const struct cli *cli, const char *path);
int study_status_attach(const struct cli *cli, const char *path);

#endif
