/* sinks.h - writers of metrics rows: progress.csv and TensorBoard event files.
 *
 * Each row is written and flushed as a whole, so that a reader sees complete rows only.
 */
#ifndef SUPERVISOR_METRICS_SINKS_H
#define SUPERVISOR_METRICS_SINKS_H

#include "common/err/err.h"
#include "supervisor/metrics/metrics.h"

#include <stddef.h>
#include <stdint.h>

/* progress.csv: env_steps, episodes, then columns of metrics.h. Numbers are the shortest
 * decimals that read back equal; NaN is an empty cell.
 *
 * Columns  the fixed ones first. A series that is none of them gets a column behind all others
 *          with the first row in which it has a value: the file is replaced, in one step, by
 *          one with the column, which is empty in the rows before. So a file has the same
 *          bytes however often its run was resumed.
 *          A resumed file keeps the columns that it has. If it lacks one of a declared scalar,
 *          or an older build began the run (metrics_is_older), it gets none of scalars:
 *          what has no column goes to the event files alone. A run resumed with --anyway may
 *          ask for other metrics of the environment; these get columns. */
struct csv_sink; /* opaque */
int csv_sink_open(struct csv_sink **ret, const char *path, const struct metrics *m,
                  struct err *err);
/* Continues the file of an interrupted run: rows past env_steps are cut off. Creates the
 * file if it is missing. ERR_FORMAT: the file lacks a column that every run has, or has one
 * that is none of this run's. */
int csv_sink_resume(struct csv_sink **ret, const char *path, const struct metrics *m,
                    uint64_t env_steps, struct err *err);
/* Whether csv_sink_resume could continue the file, which it leaves as it is. */
int csv_sink_check(const char *path, const struct metrics *m, struct err *err);
/* A row of an env_steps that was written already is left out. After an error, as of a full
 * disk, the row can be written again. */
int csv_sink_write(struct csv_sink *s, const struct metrics_row *row, struct err *err);
void csv_sink_close(struct csv_sink *s); /* NULL is fine */

/* TensorBoard event file: TFRecord framing, Event protos (tensorflow/core/util
 * event.proto, summary.proto). wall_time: seconds since 1970. */
struct event_sink; /* opaque */
/* Creates dir/events.out.tfevents.<%010d seconds>.<host>; writes the version record. */
int event_sink_open(struct event_sink **ret, const char *dir, double wall_time,
                    const char *host, struct err *err);
/* Cuts events past env_steps and a damaged end off every event file in dir, then
 * continues the newest of them. Creates one if there is none. */
int event_sink_resume(struct event_sink **ret, const char *dir, uint64_t env_steps,
                      double wall_time, const char *host, struct err *err);
/* Whether event_sink_resume could continue the files, which it leaves as they are. */
int event_sink_check(const char *dir, struct err *err);
/* Writes the run's graph (a serialized GraphDef) at step 0. Call it before any row. */
int event_sink_write_graph(struct event_sink *s, const void *graph_def, size_t len,
                           double wall_time, struct err *err);
/* Whether the file contains a graph (after resuming: still contains one). */
int event_sink_has_graph(const struct event_sink *s);
/* Writes one event, with a simple_value for every value that is not NaN. */
int event_sink_write(struct event_sink *s, const struct metrics_row *row,
                     double wall_time, struct err *err);
/* Writes one event with an animated GIF, whose size is in pixels. */
struct event_image {
    const void *data;
    size_t len;
    unsigned width, height;
};
int event_sink_write_image(struct event_sink *s, uint64_t step, const char *tag,
                           const struct event_image *image, double wall_time,
                           struct err *err);
/* Writes one event with the histograms of tensors; one without a finite element has none. */
struct event_tensor {
    const char *tag;
    const float *data;
    size_t n;
};
int event_sink_write_histograms(struct event_sink *s, uint64_t step,
                                const struct event_tensor *tensors, size_t n,
                                double wall_time, struct err *err);
void event_sink_close(struct event_sink *s);

/* A folder of event files that is made when something is written to it, at most once for
 * each step, in the order of the steps. One thread at a time. */
struct event_folder; /* opaque */
/* Both are copied. */
struct event_folder *event_folder_new(const char *dir, const char *host);
/* Continues the folder of an interrupted run, if it is there: event_sink_resume. */
int event_folder_resume(struct event_folder *f, uint64_t step, double wall_time,
                        struct err *err);
/* *ret NULL: this step, or a later one, is written already. Otherwise the sink that takes it;
 * it belongs to the folder. */
int event_folder_begin(struct event_folder *f, uint64_t step, double wall_time,
                       struct event_sink **ret, struct err *err);
void event_folder_free(struct event_folder *f); /* NULL is fine */

#endif
