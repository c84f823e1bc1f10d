/* watcher.h - somebody who watches a run: the live view or lines on stderr, and with
 * --json one object per event on stdout.
 *
 * Events   start, then those that run_event.c marks as printed, each with time, event and
 *          env_steps (processes, rows of metrics, changes, checkpoints, ...), and at the
 *          end done, stopped, cut_off or failed.
 * Owns     itself; what it is given is borrowed for its life.
 */
#ifndef SUPERVISOR_CLI_WATCHER_H
#define SUPERVISOR_CLI_WATCHER_H

#include "supervisor/run/training.h"

#include <stddef.h>
#include <stdint.h>

struct watcher; /* opaque */

struct watcher_args {
    const char *command; /* "run", "resume" */
    int json, quiet;
    int is_detached; /* only `start` is said, and messages until watcher_mute */
    const char *run, *path;
    uint64_t seed;
    uint64_t total_steps, total_episodes; /* the one that is no end: 0 */
    const uint64_t *from; /* step of the checkpoint it goes on from; NULL: none */
    int differs;          /* what it goes on with is not what it had */
    size_t n_agents;
};

struct watcher *watcher_new(const struct watcher_args *args);
void watcher_free(struct watcher *w);

/* For a run of which nothing is left to do: both events. */
void watcher_say_done(const struct watcher_args *args,
                      const struct training_result *result);

/* To be handed to training_run. */
struct training_observer watcher_observer(struct watcher *w);
/* Nobody is there any more: from here on only the last words of a failure. */
void watcher_mute(struct watcher *w);
/* The last words; failure: NULL unless the run failed. */
void watcher_end(struct watcher *w, const struct training_result *result,
                 const struct err *failure, const char *path);

#endif
