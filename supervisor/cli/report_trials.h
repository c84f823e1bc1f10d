/* report_trials.h - runs as trials of algorithms in tasks, one for each seed.
 *
 * Task       an environment: its id or, of a program, the last word of its command without folders.
 *            Where that command or env.params differ between the runs of one such name, the name
 *            goes on with them: "foraging {size: 8}".
 * Algorithm  the names of the agents' algorithms, "maddpg" or "maddpg+random".
 */
#ifndef SUPERVISOR_CLI_REPORT_TRIALS_H
#define SUPERVISOR_CLI_REPORT_TRIALS_H

#include "common/err/err.h"
#include "common/mem/arena.h"
#include "supervisor/cli/report_series.h"
#include "supervisor/metrics/json.h"

#include <stddef.h>
#include <stdint.h>

struct trial {
    const char *path;
    struct report_series series;
    const char *metric; /* the series' */
    const char *task, *algorithm;
    const char *command, *params; /* of its environment, as text; "": none */
    uint64_t seed;
};

struct trials {
    struct trial *list; /* by task, algorithm and seed */
    size_t n;
    struct arena arena; /* of the texts */
};

/* Reads n runs. metric NULL: for each task the team's return, as report_series_read takes it. Runs
 * that cannot be used are left out, and on_left_out, unless NULL, is called with the reason for
 * each; if that leaves none, the first reason is the error. ERR_ARG: two runs have one task,
 * algorithm and seed, or runs of a task have different metrics. */
int report_trials_read(struct trials *ret, char *const *paths, size_t n,
                       const char *metric,
                       void (*on_left_out)(void *ctx, const struct err *why), void *ctx,
                       struct err *err);
void report_trials_done(struct trials *t);

/* The runs' values in the format of the statistics package marl-eval (Gorsane et al. 2022,
 * "Towards a Standardised Performance Evaluation Protocol"): {"brood": {task: {algorithm:
 * {"seed_1": {"step_0": {"step_count", "return": [value]}, ..., "absolute_metrics": {"return":
 * [final]}}}}}}. */
void report_trials_put_marl_eval(const struct trials *t, struct json *j);

#endif
