/* evaluation_rules.h - what a configuration wants to follow from evaluations: run.stop_when and
 * checkpoint.keep_best. What does follow decides supervisor/rollout/verdict.h.
 *
 * Changes  a live run keeps its rules. One that is resumed or forked may have others, which hold
 *          for its evaluations from there on.
 */
#ifndef COMMON_CONFIG_EVALUATION_RULES_H
#define COMMON_CONFIG_EVALUATION_RULES_H

#include "common/config/run_config.h"
#include "common/config/yaml_tree.h"

/* Replaces checkpoint.keep_best: METRIC by {metric: METRIC}. */
void evaluation_rules_expand(struct yaml_node *root, struct arena *tree);
/* Checks the rules where their tables do not suffice. root: the file, or the values to assign.
 * ERR_CONFIG. */
int evaluation_rules_check(const struct run_config *c, const struct yaml_node *root,
                           struct err *err);
/* Gives c the rules of `from`. */
void evaluation_rules_take(struct run_config *c, const struct run_config *from);
/* Calls fn with the metric of each rule and the path of its key. Stops when fn returns a value
 * below 0, and returns it. */
int evaluation_rules_each(const struct run_config *c,
                          int (*fn)(void *ctx, const char *metric, const char *path,
                                    struct err *err),
                          void *ctx, struct err *err);

#endif
