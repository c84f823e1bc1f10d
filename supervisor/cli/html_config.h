/* html_config.h - the configurations of the runs of a page: what they change from the
 * defaults, side by side, and each as a whole.
 *
 * Default  what a file that gives only the environment, its agents and their algorithms would
 *          get in this build; derived values (experience.warmup) are derived from that
 *          file's own.
 */
#ifndef SUPERVISOR_CLI_HTML_CONFIG_H
#define SUPERVISOR_CLI_HTML_CONFIG_H

#include "supervisor/cli/html_run.h"

/* A table with a row for each key that a run changes, and a column for each run. */
void html_config_put(const struct html_run *runs, size_t n, FILE *f);

#endif
