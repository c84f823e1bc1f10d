/* run_metrics.h - which columns of metrics a run will have, before it begins. */
#ifndef SUPERVISOR_BEGIN_RUN_METRICS_H
#define SUPERVISOR_BEGIN_RUN_METRICS_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/metrics.h"

/* The metrics that a run of this configuration in this environment collects: metrics_free.
 * ERR_CONFIG: agents cannot share (sharing.h). */
int run_metrics_new(struct metrics **ret, const struct run_config *config,
                    const struct env_spec *spec, struct err *err);
/* Checks that progress.csv has the column from its first row on. ERR_CONFIG, at that place, with
 * the most similar one. */
int run_metrics_check_column(const struct metrics *m, const char *column,
                             const struct err_place *at, struct err *err);
/* Checks that the metrics of the configuration's rules (evaluation_rules.h) are columns of this
 * run and, if it is new, that it is evaluated before its end: later that may have changed.
 * ERR_CONFIG with err->key. */
int run_metrics_check_rules(const struct metrics *m, const struct run_config *config,
                            int is_new, struct err *err);

#endif
