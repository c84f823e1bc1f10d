/* html_report.h - `brood report --html`: one page of runs, or of a study, that is a file by
 * itself (html_page.h).
 *
 * Runs     head, curves (bands over seeds), evaluations, configuration against the defaults;
 *          then of each run an episode, changes, deaths, checkpoints and the whole
 *          configuration. Of runs that differ only in their seed, the first one's episode.
 * Study    all trials with their intervals, the pictures of `--svg`, failures, and its files.
 * Repeats  the same runs give the same bytes, once they are over: the page does not say when
 *          it was made.
 */
#ifndef SUPERVISOR_CLI_HTML_REPORT_H
#define SUPERVISOR_CLI_HTML_REPORT_H

#include "supervisor/cli/html_run.h"
#include "supervisor/cli/report.h"
#include "supervisor/cli/study_report.h"

/* paths: the directories of n runs. r: their curves, or NULL and `why` there are none. */
void html_report_runs(char *const *paths, size_t n, const struct report *r,
                      const struct err *why, enum html_play play, FILE *f);
/* dir: the study's folder. */
void html_report_study(const struct study_report *r, const char *dir, FILE *f);

#endif
