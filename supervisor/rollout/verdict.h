/* verdict.h - what follows from a run's evaluations: whether they end it (run.stop_when), and which
 * is the best, so that its checkpoint is kept (checkpoint.keep_best). Pure.
 *
 * Value    of an evaluation: that of the metric in its row. NaN: it has none, as a metric of the
 *          environment that no episode had; it is neither beyond a limit nor a new best.
 * Best     of equal values the earlier one.
 * State    follows from the values alone, in their order. It is part of every checkpoint
 *          (SECTION_EVALUATIONS), so that a run which was killed and resumed decides as an
 *          undisturbed one. A resume or fork with another rule begins to count anew.
 */
#ifndef SUPERVISOR_ROLLOUT_VERDICT_H
#define SUPERVISOR_ROLLOUT_VERDICT_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "common/wire/cursor.h"

#include <stddef.h>
#include <stdint.h>

struct best_value { /* all-zero: none yet */
    int is_known;
    double value;
    uint64_t step;
};

/* Takes the value of the evaluation at that step. Returns 1 if it is a new best. */
int best_value_take(struct best_value *b, int is_min, double value, uint64_t step);

struct verdict { /* all-zero: before the first evaluation */
    /* Evaluations in a row that are beyond the limit or, without improvement, no new best. */
    uint64_t in_a_row;
    struct best_value best; /* without_improvement: so far */
    struct best_value kept; /* the one whose checkpoint is kept */
    /* The one before, which is kept if the checkpoint of `kept` cannot be written. Not saved. */
    struct best_value kept_before;
};

/* Takes the value of the rule's metric in the evaluation at that step. */
void verdict_take(struct verdict *v, const struct stop_when_config *rule, double value,
                  uint64_t step);
/* Whether the run ends with the newest evaluation. */
int verdict_ends(const struct verdict *v, const struct stop_when_config *rule);
/* Takes the value of the rule's metric in the evaluation at that step. Returns 1 if its checkpoint
 * is to be kept. */
int verdict_keep(struct verdict *v, const struct keep_best_config *rule, double value,
                 uint64_t step);
/* The checkpoint of that step could not be written: it is not the one that is kept. */
void verdict_keep_failed(struct verdict *v, uint64_t step);
/* The rule in words, "eval/team_return/agent above 475 for 3 evaluations"; free(). Rules that
 * differ have different words. */
char *stop_when_text(const struct stop_when_config *rule);

/* Appends the state for SECTION_EVALUATIONS; nothing if the configuration has no rule. */
void verdict_save(const struct verdict *v, const struct run_config *c, struct wbuf *b);
/* Sets the state of a run that has this configuration now. ERR_FORMAT. */
int verdict_load(struct verdict *ret, const struct run_config *c, const void *data,
                 size_t len, struct err *err);
/* What the state says of the checkpoint that is kept, whatever configuration there is now. Returns
 * 1, or 0: the run kept none. ERR_FORMAT. */
int verdict_load_kept(struct best_value *ret, const void *data, size_t len,
                      struct err *err);

#endif
