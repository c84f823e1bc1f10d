/* study_stand.h - where a study stands now, found from its files (study_dir.h): for `brood status`
 * and `brood attach`, also while another process sweeps it. */
#ifndef SUPERVISOR_CLI_STUDY_STAND_H
#define SUPERVISOR_CLI_STUDY_STAND_H

#include "supervisor/cli/cli.h"
#include "supervisor/cli/study_view.h"

struct study_stand {
    struct study study;
    struct lineage lineage;  /* of pbt; otherwise all-zero */
    const char *path, *name; /* the study's folder, borrowed; its last part */
    int is_live;             /* a `brood sweep` works on it */
    int is_over;             /* all its runs have come to the end, or failed */
    struct study_stage stage;
    size_t rung; /* or the round, from 0 */
    size_t *trial, n;
};

/* Must stay where it is until study_stand_done. ERR_CONFIG, ERR_FORMAT, -errno: *ret is all-zero. */
int study_stand_read(struct study_stand *ret, const char *path, struct err *err);
/* Reads again how far it is; the errors as above. */
int study_stand_refresh(struct study_stand *p, struct err *err);
void study_stand_done(struct study_stand *p);

/* `brood status` and `brood attach` of the study in that folder; the exit code. */
int study_stand_print(const struct cli *cli, const char *path);
int study_stand_attach(const struct cli *cli, const char *path);

#endif
