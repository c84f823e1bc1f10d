/* record.h - what a run did, from its directory, as JSON: when and how long, what was changed,
 * what died, how good it became, its configuration beside the defaults, its build.
 *
 *     {"began", "seconds", "open_seconds", "starts", "deaths", "failure",
 *      "changes": {"n", "first", "newest"}, "ends": the same,
 *      "environment", "agents", "algorithms", "seed",
 *      "results": [{"column", "last", "last_step", "best", "best_step"}, ...],
 *      "defaults": {"rows": [[key, value, default, is it changed], ...], "why"},
 *      "provenance": [[key, value], ...], "text"}
 *
 * Time       "seconds" are of the supervisors whose end is recorded; "open_seconds" of one
 *            without an end, up to its last line in the journal.
 * Events     as `run --json` prints them: "changes" are what users asked for, and starts after
 *            the first; "ends" are deaths, what followed from them, and failures. "n": how many
 *            there were.
 * Unknown    what is missing or damaged is null, or empty.
 * Executes   nothing.
 * Bounds     the first RECORD_FIRST and the newest RECORD_NEWEST events of a list; in the place of
 *            one of more than RECORD_EVENT_MAX bytes stands a message, at its time, that says so.
 * Threads    any.
 */
#ifndef SUPERVISOR_FACTS_RECORD_H
#define SUPERVISOR_FACTS_RECORD_H

#include "common/config/run_config.h"
#include "supervisor/metrics/json.h"
#include "supervisor/metrics/progress.h"

enum {
    RECORD_FIRST = 50,
    RECORD_NEWEST = 150,
    RECORD_EVENT_MAX = 4 << 10,
    RECORD_RESULTS = 24
};

/* path: of a run's directory. progress: all of it, for "results"; NULL: they are empty. keys: n
 * keys of which the values are wanted though they are the defaults. */
void record_put_all(const char *path, const struct progress *progress,
                    const char *const *keys, size_t n, struct json *j);
/* Without results and further keys, which a page can ask for at any time. Returns 0. */
int record_put(const char *path, struct json *j, struct err *err);

/* "environment", "algorithms" and "seed" of a configuration, into an object that is open. NULL:
 * it cannot be read, and they are null. */
void run_setup_put(const struct run_config *c, struct json *j);

/* The algorithms of a run's agents, each once, in the agents' order, with `between` between them:
 * "maddpg, ddpg". In the arena. */
const char *run_algorithm_names(const struct run_config *c, const char *between,
                                struct arena *arena);

#endif
