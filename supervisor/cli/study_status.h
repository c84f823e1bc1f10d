/* study_status.h - how far a study is, found from its files (study_dir.h): for `brood status`
 * and `brood attach`, also while another process sweeps it. */
#ifndef SUPERVISOR_CLI_STUDY_STATUS_H
#define SUPERVISOR_CLI_STUDY_STATUS_H

#include "supervisor/cli/cli.h"

/* `brood status` and `brood attach` of the study in that folder; the exit code. */
int study_status_print(const struct cli *cli, const char *path);
int study_status_attach(const struct cli *cli, const char *path);

#endif
