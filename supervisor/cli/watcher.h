/* watcher.h - shows a run's progress while it trains: the live view or lines on stderr, and
 * with --json one object per event on stdout.
 *
 * Events   start, then those that run_event.c marks as printed, each with time, event and
 *          env_steps (processes, rows of metrics, changes, checkpoints, ...), and at the
 *          end done, stopped, cut_off or failed.
 * Owns     only itself; the strings of watcher_args are borrowed for its lifetime.
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
    int is_detached; /* print only `start`, and messages until watcher_mute */
    const char *run, *path;
    uint64_t seed;
    uint64_t total_steps, total_episodes; /* the run's length; 0: not limited by this */
    const uint64_t *from; /* step of the checkpoint it resumes from; NULL: a new run */
    int differs;          /* resumed with another configuration or other numerics */
    size_t n_agents;
    const struct keeper_link *keeper;
};

struct watcher *watcher_new(const struct watcher_args *args);
void watcher_free(struct watcher *w);

/* Reports a run that has nothing left to do: prints the events start and done. */
void watcher_print_done(const struct watcher_args *args,
                        const struct training_result *result);

/* The callbacks to pass to training_run. */
struct training_observer watcher_observer(struct watcher *w);
/* Stops all output, because the terminal was released; a failure is still reported at the
 * end. */
void watcher_mute(struct watcher *w);
/* Prints how the run ended; failure: NULL unless the run failed. path: where it is. */
void watcher_end(struct watcher *w, const struct training_result *result,
                 const struct err *failure, const char *path);

#endif
