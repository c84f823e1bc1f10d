/* process_counts.h - what has happened to each process of a run so far, counted from its events.
 *
 * Source   the journal alone, so that the counts of all supervisors of a run are one sum, which a
 *          resume continues: a live run reads what is there and adds its own events.
 * Lost     the time that deaths and slow answers cost: what a process had spent on the request
 *          that it died of, and from its end until the next one had taken its place. A slow
 *          answer, one that took more than half of respond_within, counts in full.
 * Names    environment processes and agents have different ones.
 */
#ifndef SUPERVISOR_EVENTS_PROCESS_COUNTS_H
#define SUPERVISOR_EVENTS_PROCESS_COUNTS_H

#include "supervisor/events/run_event.h"

#include <stddef.h>
#include <stdint.h>

#define PROCESS_COUNTS_MAX 16384 /* processes; others are not counted */

struct process_count {
    uint64_t restarts; /* processes in the place of former ones */
    uint64_t hangs;    /* ended for respond_within */
    uint64_t slow;     /* slow answers */
    uint64_t skipped;  /* of an environment: episodes that failed (env.on_failure) */
    double lost_s;
};

struct process_counts { /* all zero: nothing was counted */
    struct process_counted *list;
    size_t n, cap, last; /* private */
};

void process_counts_done(struct process_counts *c);
void process_counts_take(struct process_counts *c, const struct run_event *e);
/* A new supervisor begins: what the former ones had begun to wait for is over. */
void process_counts_begin(struct process_counts *c);
/* All zero for an unknown process. */
struct process_count process_counts_of(const struct process_counts *c,
                                       const char *process);
void process_count_add(struct process_count *to, const struct process_count *c);
/* The sum over all processes. */
struct process_count process_counts_all(const struct process_counts *c);
/* "28 restarts, 1 hang, 5 skipped episodes, 3.2 s lost"; "" if nothing has happened. Returns
 * ret. */
#define PROCESS_COUNT_TEXT_BYTES 160
const char *process_count_text(const struct process_count *c,
                               char ret[PROCESS_COUNT_TEXT_BYTES]);

#endif
