/* report_html.h - `brood report --html`: the page of `brood web` (supervisor/page) in one file,
 * with the facts of some runs, or of a study, in it. The file loads nothing.
 *
 * Facts    {"version", "names", "studies", "runs": [line of a list, ...], "views": {run: view},
 *          "answers": {method: {run or study: what the server answers}}, "groups", "tasks"}, of
 *          one moment (page/net.js). Answers of a run: config, record, checkpoints; curves as in
 *          thin_curves.h; episode. Of a study: study, and files: [[name, text], ...].
 * Episode  {"step", "length", "return", "is_cut", "pictures": [{"alt", "type", "base64"}, ...],
 *          "left_out"}, of the newest checkpoint, played greedily, of at most 400 steps; or {"why"}
 *          there is none. return null: of several teams; left_out: a picture was too large.
 * Groups   {"metric", "list": [of report_put_group, with "steps", "means", "lows", "highs"]}, or
 *          {"why"} there are no curves.
 * Tasks    what report_tasks_put puts; null without --tasks.
 * Without a script, the table of `brood report` is seen, and the picture of its --svg.
 * Repeats  the same runs give the same bytes, once they are over: the file does not say when
 *          it was made.
 */
#ifndef SUPERVISOR_CLI_REPORT_HTML_H
#define SUPERVISOR_CLI_REPORT_HTML_H

#include "supervisor/cli/report.h"
#include "supervisor/cli/report_tasks.h"
#include "supervisor/study/study_report.h"

enum report_play {
    REPORT_PLAY_WORLDS, /* only brood's own worlds */
    REPORT_PLAY_ALWAYS, /* also external ones: executes what the configuration names */
    REPORT_PLAY_NEVER,
};

/* paths: the directories of n runs. r: their curves, which are thinned; or NULL and `why` there
 * are none. tasks: NULL without --tasks. Of runs that differ only in their seed, the first one's episode is played. */
void report_html_runs(char *const *paths, size_t n, struct report *r,
                      const struct err *why, const struct report_tasks *tasks,
                      enum report_play play, FILE *f);
/* dir: the study's folder. */
void report_html_study(const struct study_report *r, const char *dir, FILE *f);

#endif
